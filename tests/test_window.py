"""A real window on a real (virtual) screen."""

import os
import shutil
import subprocess
import sys
import time

import pytest

SCRIPT = """
import sys, gymnasium, memory_maze
env = gymnasium.make("memory_maze:MemoryMaze-9x9-HiFreq-v0", engine="ENGINE", render_mode="human")
env.reset(seed=3)
for _ in range(3):
    env.step(1)
import pygame
pixels = pygame.surfarray.array3d(pygame.display.get_surface())
print(pygame.display.get_driver(), pixels.shape, pixels.std() > 10, tuple(pixels[5, 5].tolist()))
env.close()
env.close()
"""


@pytest.fixture
def screen():
    if shutil.which("Xvfb") is None:
        pytest.skip("Xvfb is not installed: apt-get install xvfb")
    read, write = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "1024x800x24"],
        pass_fds=[write],
        stderr=subprocess.DEVNULL,
    )
    os.close(write)
    with os.fdopen(read) as file:
        number = file.readline().strip()
    yield f":{number}"
    server.terminate()
    server.wait(10)


def run(environment, engine, script=SCRIPT):
    removed = ("MUJOCO_GL", "SDL_VIDEODRIVER", "DISPLAY")
    base = {key: value for key, value in os.environ.items() if key not in removed}
    return subprocess.run(
        [sys.executable, "-c", script.replace("ENGINE", engine)],
        capture_output=True,
        text=True,
        timeout=120,
        env=base | environment,
    )


@pytest.mark.parametrize("engine", ["jax", "mujoco"])
def test_human_mode_opens_a_window(screen, engine):
    result = run({"DISPLAY": screen}, engine)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "x11 (768, 768, 3) True (31, 113, 176)"


def test_glfw_draws_the_same(screen):
    result = run({"DISPLAY": screen, "MUJOCO_GL": "glfw"}, "mujoco")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "x11 (768, 768, 3) True (31, 113, 176)"


@pytest.mark.parametrize("engine", ["jax", "mujoco"])
def test_human_mode_without_a_screen_goes_on_with_a_warning(engine):
    result = run({}, engine)
    assert result.returncode == 0, result.stderr
    assert "no display" in result.stderr


@pytest.mark.slow
def test_the_window_keeps_the_pace():
    script = SCRIPT.replace("HiFreq-v0", "v0").replace(
        "env.reset(seed=3)", "env.reset(seed=3); import time; t=time.time()"
    )
    script = script.replace("import pygame", "print('took', time.time() - t); import pygame")
    started = time.time()
    result = run({"SDL_VIDEODRIVER": "dummy"}, "jax", script)
    assert result.returncode == 0, result.stderr
    took = float(result.stdout.split("took")[1].split()[0])
    assert 0.6 < took < time.time() - started, "three steps at four a second"
