"""Playing in a real window on a real (virtual) screen, with keys that are pressed from outside."""

import ctypes
import itertools
import os
import re
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from pictures import look_same

from memory_maze.options import ACTION_NAMES
from memory_maze.play.recordings import read_recordings
from memory_maze.system.extras import install_command

SCRIPT = """
import sys
from pathlib import Path
from memory_maze import make_task
from memory_maze.play.session import Settings
from memory_maze.play.window import play
engine, seconds, out = sys.argv[1:]
play(Settings(make_task(7, 3, seconds=float(seconds)), "Ann", seed=112, pace=8, engine=engine, out=Path(out)))
"""
TEXT_COLOR = (255, 196, 84)  # of "press space ..."
INK, WALL = (238, 238, 232), (66, 72, 84)


class Screen:
    """A virtual screen as large as the window, seen and used from outside."""

    def __init__(self, folder: Path) -> None:
        read, write = os.pipe()
        size = ["-screen", "0", "960x640x24", "-fbdir", str(folder)]
        self._server = subprocess.Popen(
            ["Xvfb", "-displayfd", str(write), *size], pass_fds=[write], stderr=subprocess.DEVNULL
        )
        os.close(write)
        with os.fdopen(read) as file:
            self.name = f":{file.readline().strip()}"
        self._memory = folder / "Xvfb_screen0"
        removed = ("MUJOCO_GL", "SDL_VIDEODRIVER", "WAYLAND_DISPLAY")
        self.environment = {k: v for k, v in os.environ.items() if k not in removed} | {"DISPLAY": self.name}

    def look(self) -> np.ndarray:
        """(640, 960, 3) uint8, between two drawings of the window: what stays for a moment."""
        images = (self._read() for _ in itertools.count())
        for one, two in itertools.pairwise(images):
            if np.array_equal(one, two):
                return one
        raise AssertionError

    def _read(self) -> np.ndarray:
        time.sleep(0.01)
        data = self._memory.read_bytes()
        header = struct.unpack(">25I", data[:100])
        start, width, height, line = header[0] + 12 * header[19], header[4], header[5], header[12]
        pixels = np.frombuffer(data, np.uint8, height * line, start).reshape(height, line // 4, 4)
        return pixels[:, :width, 2::-1]

    def wait_for(self, what, process, seconds=60):
        """Until `what` is true of what is seen."""
        end = time.time() + seconds
        while not what(self._read()):
            assert process.poll() is None, process.communicate()
            assert time.time() < end, "it never came"
        return time.time()

    def use(self, *words: str) -> None:
        """Presses keys, by xdotool."""
        subprocess.run(["xdotool", *words], env=self.environment, check=True, timeout=10)

    def close_window(self) -> None:
        """As a click on the window's cross."""
        xlib = ctypes.CDLL("libX11.so.6")
        xlib.XOpenDisplay.restype = ctypes.c_void_p
        xlib.XInternAtom.restype = ctypes.c_ulong
        display = ctypes.c_void_p(xlib.XOpenDisplay(self.name.encode()))
        focus, _ = ctypes.c_ulong(), xlib.XFlush(display)
        xlib.XGetInputFocus(display, ctypes.byref(focus), ctypes.byref(ctypes.c_int()))
        atoms = [xlib.XInternAtom(display, name, 0) for name in (b"WM_PROTOCOLS", b"WM_DELETE_WINDOW")]
        client_message = 33
        event = struct.pack(
            "i4xLi4xLLLi4xlllll", client_message, 0, 1, 0, focus.value, atoms[0], 32, atoms[1], *[0] * 4
        )
        xlib.XSendEvent(display, focus, 0, ctypes.c_long(0), event.ljust(192, b"\0"))
        xlib.XCloseDisplay(display)

    def stop(self) -> None:
        self._server.terminate()
        self._server.wait(10)


def asks(image):
    """Whether the picture is covered by a text that asks for the space bar."""
    return (image[:, :640] == TEXT_COLOR).all(-1).sum() > 50


def shows_map(image):
    return (image[350:, 660:] == WALL).all(-1).sum() > 10_000


def is_over(image):
    """Whether the bar of the time that is left is empty."""
    return (image[100:250, 660:940] != TEXT_COLOR).any(-1).all()


def flashes(image):
    """Whether the picture tells that an object was reached."""
    return (image[5, 5:630] == INK).all()


@pytest.fixture
def screen(tmp_path):
    for program, package in (("Xvfb", "xvfb"), ("xdotool", "xdotool")):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed: apt-get install {package}")
    folder = tmp_path / "screen"
    folder.mkdir()
    screen = Screen(folder)
    yield screen
    screen.stop()


@pytest.fixture
def start(screen):
    """Starts Python with arguments and waits until the window asks to begin."""
    started = []

    def run(*arguments):
        process = subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            env=screen.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        screen.wait_for(asks, process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait(10)
        process.stdout.close()
        process.stderr.close()


def test_keys_play_an_episode_that_is_recorded_as_it_was_seen(screen, start, tmp_path):
    out = tmp_path / "recordings"
    window = start("-c", SCRIPT, "jax", 15, out)  # 60 steps, 7.5 s
    score = (slice(40, 110), slice(660, 900))
    screen.use("key", "space", "key", "h")
    begun = time.time()
    no_point = screen.look()[score]
    time.sleep(0.3)
    screen.use("keydown", "Up")  # six steps to the first object
    screen.wait_for(flashes, window, seconds=8)
    screen.use("keydown", "Left")
    screen.wait_for(lambda image: not flashes(image), window, seconds=8)
    time.sleep(0.2)
    seen = [screen.look()]
    screen.use("keyup", "Up")
    time.sleep(0.4)
    seen += [screen.look()]
    screen.use("keyup", "Left", "key", "p")
    screen.wait_for(asks, window)
    paused = screen.look()
    time.sleep(1)
    assert np.array_equal(screen.look(), paused), "neither the maze nor the time goes on"
    assert not np.array_equal(paused[score], no_point)
    screen.use("key", "space")
    screen.wait_for(lambda image: not asks(image), window)
    time.sleep(0.3)
    screen.use("key", "d")
    took = screen.wait_for(is_over, window) - begun
    assert 8.4 < took < 16, "7.5 s and the pause"
    screen.wait_for(asks, window)
    (played,) = read_recordings(out)
    screen.use("key", "Escape")
    output, errors = window.communicate(timeout=20)
    assert (window.returncode, errors) == (0, "")
    assert f"{played.id}.json" in output
    assert (played.player, played.score, played.reward_steps[1:], played.seed) == ("Ann", 1, (), 112)
    assert (played.task.name, played.steps, played.pace, played.practice) == ("7x7", 60, 8, False)
    check_walk(np.load(out / played.places["npz"]), played)
    recorded = np.load(out / played.places["npz"])["image"]
    for image in seen:
        # Ten screen pixels for each of the agent's.
        assert look_same(image[5:640:10, 5:640:10], recorded).any()


def check_walk(episode, played):
    """Up, then up and left, then left, then nothing but a tap of d."""
    names = [ACTION_NAMES[row.argmax()] if row.any() else None for row in episode["action"]]
    runs = [name for name, _ in itertools.groupby(names[1:])]
    assert runs == ["noop", "forward", "forward_left", "left", "noop", "right", "noop"]
    assert names.count("right") == 1
    assert names[played.reward_steps[0]] in ("forward", "forward_left")
    moved = np.linalg.norm(np.diff(episode["agent_pos"], axis=0), axis=1)
    x, y = episode["agent_dir"].T
    turned = x[:-1] * y[1:] - y[:-1] * x[1:]  # positive to the left
    first, end = names.index("forward"), names.index("forward_left")
    assert moved[: first - 1].max(initial=0) < 0.01, "no key, no move"
    assert moved[first:end].sum() > 0.5
    assert abs(turned[: end - 1]).max() < 0.01, "no turn before the key for it"
    assert turned[end : end + 4].sum() > 0.5


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
def test_the_reference_plays_and_a_window_closed_while_saving_loses_nothing(screen, start, tmp_path):
    window = start("-c", SCRIPT, "mujoco", 5, tmp_path)
    assert not shows_map(screen.look())
    screen.use("key", "space", "keydown", "Up", "key", "m")
    screen.wait_for(shows_map, window, seconds=10)
    screen.wait_for(is_over, window)
    screen.close_window()  # saving takes longer
    output, errors = window.communicate(timeout=60)
    assert (window.returncode, errors) == (0, "")
    assert "saving" in output
    (played,) = read_recordings(tmp_path)
    assert (played.engine, played.steps, played.score, played.practice) == ("mujoco", 20, 1, True)
    assert np.load(tmp_path / played.places["npz"])["image"].shape == (21, 64, 64, 3)


def test_the_command_plays_and_an_episode_closed_early_is_not_recorded(screen, start, tmp_path):
    out = tmp_path / "recordings"
    window = start("-m", "memory_maze", "play", "--task", "7x7", "--engine", "mujoco", "--out", out)
    screen.use("key", "space", "key", "Up")
    screen.wait_for(lambda image: not asks(image), window)
    screen.close_window()
    output, errors = window.communicate(timeout=30)
    assert (window.returncode, errors) == (0, "")
    assert output.strip() == "the episode was not finished and is not recorded"
    assert not out.exists()


@pytest.mark.parametrize("display", [None, ":987"])
def test_without_a_screen_one_line_says_what_to_do(display, tmp_path):
    removed = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
    environment = {key: value for key, value in os.environ.items() if key not in removed}
    environment |= {"XDG_RUNTIME_DIR": str(tmp_path)} | ({"DISPLAY": display} if display else {})
    result = subprocess.run(
        [sys.executable, "-m", "memory_maze", "play", "--out", str(tmp_path / "recordings")],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
    )
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert "no display" in result.stderr
    assert "memory-maze serve" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_pygame_the_extra_is_named(monkeypatch, tmp_path):
    from memory_maze.play.window import PlayWindow

    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(ModuleNotFoundError, match=re.escape(install_command("play"))):
        PlayWindow()
