"""Several devices and hosts learn what one device learns; runs move between them, and stop together."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

from memory_maze.results.metrics import read_metrics
from memory_maze.system.files import sole_writer
from memory_maze.training.devices import Agreement, connected, launch_options, make_mesh

STEPS = 8 * 2  # of an iteration
LAST = 16  # iteration of the longest run
# Episodes take two seconds, so that some end. Pictures are simple ones, for those of the engine take long to
# compile and are compared in test_engine.py. Gradients are not divided by their own size, which would make
# rounding errors as large as what is learned.
RUN = """
import dataclasses, functools, sys
from pathlib import Path
import jax, jax.numpy as jnp
from memory_maze.agents.impala.config import PRESETS
from memory_maze.engine import observe
from memory_maze.training import run

def draw(view, atlas, state):
    angles = jnp.arange(64) / 10
    rows, columns = jnp.sin(state.body.x + angles), jnp.cos(state.body.y + state.body.steer + angles)
    picture = 127 + 60 * (rows[:, None] + columns + state.target)
    return jnp.stack([picture] * 3, axis=-1).astype(jnp.uint8)

observe.render_state = draw
run.Env = functools.partial(run.Env, seconds=2)
CONFIG = dataclasses.replace(
    PRESETS["debug"],
    num_envs=8,
    batch_size=4,
    unroll_length=2,
    adam_epsilon=1e-3,
    learning_rate=1e-2,
    entropy_cost=0.1,
    channels=(4,),
)
PRESETS["debug"] = CONFIG
"""
DEVICES = (
    RUN
    + """
import json
import numpy as np, pytest
from memory_maze.engine.batch import Batch
from memory_maze.agents.weights import save_agent
from memory_maze.training.devices import make_mesh, put_on_all
from memory_maze.training.on_policy import begin, iterate
out, devices, compiled = Path(sys.argv[1]), jax.devices(), []

@jax.monitoring.register_event_duration_secs_listener
def note(event, seconds, fun_name="", **_):
    if event.endswith("backend_compile_duration"):
        compiled.append(fun_name)

def play(iterations, count):
    mesh = make_mesh(devices[:count])
    batch = put_on_all(mesh, Batch(run.Env("9x9", image_only_obs=True, layouts=64), 8))
    training = begin(put_on_all(mesh, jax.random.key(0)), batch, CONFIG, mesh)
    for _ in range(iterations):
        training, metrics = iterate(training, batch, CONFIG, mesh)
        yield training, {name: value.item() for name, value in metrics.items()}

lines = []
for iteration, (training, metrics) in enumerate(play(int(sys.argv[2]), 1), start=1):
    lines.append({"steps": iteration * 16} | metrics)
    save_agent(out / "one" / str(iteration), training.network, {})
(out / "one" / "metrics.jsonl").write_text("\\n".join(map(json.dumps, lines)))

def train(name, iterations, count):
    settings = run.Run("9x9", CONFIG, steps=iterations * 16, layouts=64, log_every=0)
    run.train(settings, out / name, devices=devices[:count])

train("grown", 3, 1), train("grown", 6, 4)
train("shrunk", 3, 4), train("shrunk", 6, 1)
assert sum("iterate" in name for name in compiled) == 2, "once for each number of devices"
with pytest.raises(ValueError, match="num_envs=8 is not divisible by 3 devices: choose a multiple"):
    train("three", 1, 3)
assert not (out / "three").exists()

((training, _),) = play(1, 4)
for leaf in jax.tree.leaves((training.network, training.optimizer)):
    assert len(leaf.addressable_shards) == 4
    for shard in leaf.addressable_shards:
        np.testing.assert_array_equal(shard.data, leaf.addressable_data(0))
assert training.play.sights.image.addressable_data(0).shape == (2, 64, 64, 3)
"""
)
HOST = (
    RUN
    + """
from memory_maze import cli
from memory_maze.training import devices
devices._PATIENCE = 1
cli.main()
"""
)


TRAIN = ("train", "impala", "--preset", "debug", "--layouts", "64", "--log-every", "0", "--evaluate", "0")


@contextlib.contextmanager
def started(*commands, devices):
    """Processes of a script and its arguments each. They are quickly compiled rather than fast."""
    flags = f"--xla_force_host_platform_device_count={devices} --xla_backend_optimization_level=0"
    variables = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    processes = [
        subprocess.Popen([sys.executable, "-c", *map(str, command)], env=variables, **pipes)
        for command in commands
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()


def host_commands(*outs, args=((), ())):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    hosts = ["--coordinator", f"127.0.0.1:{port}", "--hosts", "2"]
    return [
        (HOST, *TRAIN, *hosts, "--host", host, "--out", out, *args[host]) for host, out in enumerate(outs)
    ]


def finish(processes):
    """Exit codes, and what was written, in one line each."""
    outputs = [" ".join(process.communicate(timeout=200)[0].split()) for process in processes]
    return [process.returncode for process in processes], outputs


def run(*commands, devices):
    with started(*commands, devices=devices) as processes:
        return finish(processes)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One of one device, and two that were moved."""
    folder = tmp_path_factory.mktemp("runs")
    codes, outputs = run((DEVICES, folder, LAST), devices=4)
    assert codes == [0], outputs[0][-3000:]
    return folder


def check_curve(folder, expected):
    """Lines may tell of several iterations."""
    parts, steps = {line["steps"]: line for line in read_metrics(expected)}, 0
    lines = [line for line in read_metrics(folder) if line["steps"] <= max(parts)]
    assert lines
    for line in lines:
        same = [parts[number] for number in range(steps + STEPS, line["steps"] + 1, STEPS)]
        steps = line["steps"]
        assert line["episodes"] == sum(part["episodes"] for part in same)
        for name in ("loss_total", "loss_value", "loss_entropy", "gradient_norm", "reward"):
            mean = np.mean([part[name] for part in same])
            np.testing.assert_allclose(line[name], mean, rtol=1e-3, atol=1e-5, err_msg=name)


def check_weights(folder, expected):
    ours, theirs = (load_file(path / "agent.safetensors") for path in (folder, expected))
    for name, array in theirs.items():
        np.testing.assert_allclose(ours[name], array, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("name", ["grown", "shrunk"])
def test_four_devices_learn_what_one_does(runs, name):
    """In the second half of a run, or in the first."""
    check_curve(runs / name, runs / "one")
    assert sum(line["episodes"] for line in read_metrics(runs / name))
    check_weights(runs / name, runs / "one" / "6")


def test_hosts_stop_together_and_one_goes_on(runs, tmp_path):
    """Only one is asked to."""
    with started(*host_commands(tmp_path, tmp_path), devices=2) as processes:
        while not read_metrics(tmp_path):
            assert all(process.poll() is None for process in processes), finish(processes)
            time.sleep(0.1)
        processes[1].send_signal(signal.SIGTERM)
        codes, outputs = finish(processes)
    assert codes == [128 + signal.SIGTERM] * 2, outputs
    assert all("stopped: saved after" in output for output in outputs)
    assert all("run it again to resume" in output for output in outputs)
    iterations = read_metrics(tmp_path)[-1]["steps"] // STEPS
    assert (tmp_path / "checkpoints" / str(iterations)).exists()
    check_weights(tmp_path, runs / "one" / str(iterations))
    steps = (iterations + 1) * STEPS
    codes, outputs = run((HOST, *TRAIN, "--out", tmp_path, "--steps", steps), devices=1)
    assert codes == [0], outputs
    assert read_metrics(tmp_path)[-1]["steps"] == steps
    check_curve(tmp_path, runs / "one")
    check_weights(tmp_path, runs / "one" / str(iterations + 1))


@pytest.mark.slow
def test_two_hosts_go_on_with_a_run_of_one_device(runs, tmp_path):
    shutil.copytree(runs / "grown", tmp_path / "run")
    args = ("--steps", 10 * STEPS, "--evaluate", 2)
    codes, outputs = run(*host_commands(tmp_path / "run", tmp_path / "run", args=[args] * 2), devices=2)
    assert codes == [0, 0], outputs
    assert "trained:" in outputs[0]
    assert "trained:" not in outputs[1], "only the first one shows things"
    check_curve(tmp_path / "run", runs / "one")
    check_weights(tmp_path / "run", runs / "one" / "10")


def test_hosts_must_be_started_alike(tmp_path):
    codes, outputs = run(*host_commands(tmp_path, tmp_path, args=[("--seed", 1), ("--seed", 2)]), devices=2)
    assert codes == [1, 1]
    assert "seed differs between host 0 and host 1: here it is 2" in outputs[1]


def test_hosts_need_a_shared_folder(tmp_path):
    codes, outputs = run(*host_commands(tmp_path / "one", tmp_path / "other"), devices=2)
    assert codes == [1, 1]
    assert all("not shared by all hosts: host 1 has another" in output for output in outputs), outputs


@pytest.mark.slow
def test_hosts_refuse_together_what_another_process_writes_to(tmp_path):
    with sole_writer(tmp_path):
        codes, outputs = run(*host_commands(tmp_path, tmp_path), devices=2)
    assert codes == [1, 1]
    assert f"process {os.getpid()} is writing to it" in outputs[0]
    assert "the first host cannot go on, and says why" in outputs[1]


def test_hosts_that_are_not_found(tmp_path):
    codes, outputs = run((HOST, *TRAIN, "--out", tmp_path, "--distributed"), devices=1)
    assert codes == [1]
    assert "give coordinator, hosts and host" in outputs[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"coordinator": "localhost:1234"}, "give all three"),
        ({"coordinator": "localhost", "hosts": 2, "host": 0}, "HOST:PORT"),
        ({"coordinator": "localhost:1234", "hosts": 2, "host": 2}, "must be from 0 to 1"),
    ],
)
def test_wrong_hosts_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words), connected(**arguments):
        pass


def test_one_host_has_its_wishes_granted_at_once():
    agree = Agreement(make_mesh())
    assert list(agree((False, True))) == [False, True]
    assert list(agree((False, False))) == [False, False]


def test_several_hosts_have_wishes_granted_one_call_later_and_once(monkeypatch):
    agree = Agreement(make_mesh())
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    wishes = [(True, False), (True, False), (False, False), (False, True), (False, False), (False, False)]
    granted = [list(agree(wish)) for wish in wishes]
    assert granted == [[False] * 2, [True, False], [False] * 2, [False] * 2, [False, True], [False] * 2]


@pytest.mark.parametrize(("counts", "most"), [((8, 4), 4), ((9, 3), 3)])
def test_each_core_is_a_device_as_far_as_mazes_divide(counts, most):
    cores = len(os.sched_getaffinity(0))
    program = f"import jax; from memory_maze.training.devices import use_cores; use_cores{counts}; "
    command = [sys.executable, "-c", program + "print(len(jax.devices())); use_cores(1)"]
    found = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert found == max(count for count in range(1, cores + 1) if most % count == 0)


def test_devices_that_the_user_asked_for_are_kept(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=3")
    program = "import jax; from memory_maze.training.devices import use_cores; use_cores(8, 4); "
    command = [sys.executable, "-c", program + "print(len(jax.devices()))"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "3"


def test_the_compiler_knows_what_it_is_told_on_a_gpu(monkeypatch):
    assert launch_options() == {}
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    options = launch_options()
    assert jax.jit(lambda x: 2 * x, compiler_options=options)(3) == 6
    with pytest.raises(Exception, match="No such compile option"):
        jax.jit(lambda x: 3 * x, compiler_options={f"{name}_x": "" for name in options})(3)
