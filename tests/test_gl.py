"""The graphics of the MuJoCo engine.

Contexts in processes, threads and numbers; every backend; what is said when none works.
"""

import os
import subprocess
import sys
import textwrap

import pytest

from memory_maze.reference import gl

PRELUDE = """
import gymnasium, multiprocessing, threading
import memory_maze

def picture(seed=3):
    env = gymnasium.make("memory_maze:MemoryMaze-9x9-v0", engine="mujoco")
    env.reset(seed=seed)
    image = env.step(1)[0]
    env.close()
    env.close()
    return int(image.sum())

def send(queue):
    queue.put(picture())

def in_children(method):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    children = [context.Process(target=send, args=(queue,)) for _ in range(2)]
    for child in children:
        child.start()
    sums = [queue.get(timeout=60) for _ in children]
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0, 0]
    return sums
"""


def run(tmp_path, body, timeout=120, **variables):
    """Runs a script of its own; returns what it printed. It must leave nothing on stderr."""
    script = tmp_path / "script.py"
    script.write_text(
        PRELUDE + "\nif __name__ == '__main__':\n" + textwrap.indent(textwrap.dedent(body), "    ")
    )
    environment = {k: v for k, v in os.environ.items() if k not in ("MUJOCO_GL", "LP_NUM_THREADS", "DISPLAY")}
    result = subprocess.run(
        [sys.executable, "-W", "error", script],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment | variables,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout.split()


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return run(tmp_path_factory.mktemp("gl"), "print(picture())")[0]


@pytest.mark.newest
@pytest.mark.parametrize("backend", ["egl", "osmesa"])
def test_backends_draw_the_same(tmp_path, expected, backend):
    assert run(tmp_path, "print(picture())", MUJOCO_GL=backend) == [expected]


@pytest.mark.newest
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_subprocesses(tmp_path, expected, method):
    assert run(tmp_path, f"print(*in_children({method!r}))") == [expected, expected]


def test_fork_after_drawing(tmp_path, expected):
    assert run(tmp_path, "print(picture(), *in_children('fork'), picture())") == [expected] * 4


def test_an_open_environment_does_not_cross_a_fork(tmp_path):
    body = """
    import os
    env = gymnasium.make("memory_maze:MemoryMaze-9x9-v0", engine="mujoco")
    env.reset(seed=3)
    if os.fork() == 0:
        try:
            env.step(1)
        except Exception as error:
            print("inside the child" in str(error))
        env.close()
    else:
        os.wait()
        env.step(1)
    """
    assert run(tmp_path, body) == ["True"]


def test_threads_may_take_turns(tmp_path, expected):
    body = """
    env = gymnasium.make("memory_maze:MemoryMaze-9x9-v0", engine="mujoco")
    env.reset(seed=3)
    thread = threading.Thread(target=lambda: print(env.step(1)[0].sum()))
    thread.start()
    thread.join()
    env.step(1)
    """
    assert run(tmp_path, body) == [expected]


@pytest.mark.newest
def test_several_environments_in_one_process(tmp_path, expected):
    body = """
    names = ("9x9", "9x9-Top", "15x15", "9x9")
    envs = [gymnasium.make(f"memory_maze:MemoryMaze-{name}-v0", engine="mujoco") for name in names]
    for env in envs:
        env.reset(seed=3)
    images = [env.step(1)[0] for env in envs]
    print(images[0].sum(), images[3].sum())
    # Not closed: the interpreter must still end in silence.
    """
    assert run(tmp_path, body) == [expected, expected]


def test_a_closed_environment_says_so():
    from memory_maze.adapters.simulation import Simulation

    simulation = Simulation("9x9", seed=0, engine="mujoco")
    simulation.reset()
    simulation.close()
    simulation.close()
    with pytest.raises(RuntimeError, match="closed"):
        simulation.step(0)
    with pytest.raises(RuntimeError, match="closed"):
        simulation.reset()


def test_without_opengl_the_debian_packages_are_named(monkeypatch):
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.setattr(gl, "_load_optional", lambda name: None)
    with pytest.raises(gl.GLError, match="apt-get install libegl1 libgl1 libosmesa6") as error:
        gl.create_context(64)
    assert all(backend in str(error.value) for backend in gl.BACKENDS)


@pytest.mark.parametrize(("value", "message"), [("off", "turns rendering off"), ("vulkan", "is not known")])
def test_bad_values_of_mujoco_gl(monkeypatch, value, message):
    monkeypatch.setenv("MUJOCO_GL", value)
    with pytest.raises(gl.GLError, match=message):
        gl.create_context(64)


def test_bad_egl_device(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "egl")
    monkeypatch.setenv("MUJOCO_EGL_DEVICE_ID", "99")
    with pytest.raises(gl.GLError, match="MUJOCO_EGL_DEVICE_ID=99"):
        gl.create_context(64)


def test_dropped_environments_give_their_memory_back(tmp_path):
    body = """
    import gc, psutil
    def use():
        env = gymnasium.make("memory_maze:MemoryMaze-9x9-v0", engine="mujoco")
        env.reset(seed=3)
    for _ in range(3):
        use()
    gc.collect()
    before = psutil.Process().memory_info().rss
    for _ in range(8):
        use()
        gc.collect()
    print((psutil.Process().memory_info().rss - before) >> 20)
    """
    (grown,) = run(tmp_path, body)
    assert int(grown) < 100, "MB; each holds more than 60"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_many_environments_give_their_memory_back(tmp_path):
    """The first few leave some hundred megabytes with the driver; no more comes after them."""
    body = """
    import os, psutil
    for number in range(230):
        if number == 30:
            before = psutil.Process().memory_info().rss
        env = gymnasium.make("memory_maze:MemoryMaze-9x9-v0", engine="mujoco")
        env.reset(seed=number)
        env.step(1)
        env.close()
    print((psutil.Process().memory_info().rss - before) >> 20, len(os.listdir("/proc/self/fd")))
    """
    grown, files = map(int, run(tmp_path, body, timeout=800))
    assert grown < 50, "MB"
    assert files < 20


def test_a_backend_that_cannot_draw_is_passed_over(monkeypatch):
    from memory_maze.adapters.simulation import Simulation
    from memory_maze.reference import renderer

    monkeypatch.delenv("MUJOCO_GL", raising=False)
    calls = []

    def fail_once(model, make=renderer._make_mjr):
        calls.append(os.environ["MUJOCO_GL"])
        raise gl.GLError("no GL functions")

    simulation = Simulation("9x9", seed=0, engine="mujoco")
    with monkeypatch.context() as patch:
        patch.setattr(renderer, "_make_mjr", fail_once)
        with pytest.raises(gl.GLError, match="apt-get install"):
            simulation.reset()
    assert calls == ["egl", "osmesa"]
    simulation.reset()
    simulation.close()


def test_an_interrupted_reset_can_be_repeated(monkeypatch):
    from memory_maze.adapters.simulation import Simulation
    from memory_maze.reference import engine

    simulation = Simulation("9x9", seed=0, engine="mujoco")
    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(engine, "build_maze", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                simulation.reset()
        with pytest.raises(RuntimeError, match="call reset"):
            simulation.step(0)
        simulation.reset()
        simulation.step(0)
    simulation.close()
