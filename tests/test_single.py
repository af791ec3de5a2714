"""The JAX engine, one maze at a time: few programs, silent, and safe around forks."""

import dataclasses
import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from placing import teleport

from memory_maze import Sampler, tasks
from memory_maze.engine import single
from memory_maze.engine.single import JaxEngine
from memory_maze.options import ACTIONS, Options
from memory_maze.world import cell_to_world

SCENARIO = Sampler(tasks.TASKS["9x9"], 5).sample()


@pytest.fixture(scope="module")
def engine():
    engine = JaxEngine(Options())
    engine.reset(SCENARIO)
    engine.step(ACTIONS[1])
    return engine


def run(code, **variables):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=240,
        env=os.environ | variables,
    )


def test_one_program_for_resets_steps_and_episodes_of_any_length(engine):
    programs = single._play._cache_size()
    teleport(engine, (0.0, 0.0))
    engine.step(ACTIONS[0])
    other = JaxEngine(Options(global_observables=True, randomize_colors=True))
    other.reset(dataclasses.replace(SCENARIO, draws=(0,)))
    other.step(ACTIONS[2])
    assert single._play._cache_size() == programs


def test_draws_go_on_when_they_run_out():
    scenario = dataclasses.replace(SCENARIO, draws=(2, 2, 0))
    draws = single._pad_draws(scenario)
    assert draws[:9].tolist() == [scenario.draw(i) for i in range(9)]


def test_looking_does_not_move(engine):
    """The program of steps is also that of resets."""
    engine.reset(SCENARIO)
    row, column = SCENARIO.spawns[0]
    positions, velocities = engine.state
    np.testing.assert_array_equal(positions[:2], cell_to_world((row, column), SCENARIO.grid))
    assert not velocities.any()
    assert engine.target == SCENARIO.draw(0)


def test_pictures_of_other_views_do_not_change_the_own(engine):
    before = engine.observe(("image",))["image"].copy()
    assert engine.render(top=True, resolution=32).shape == (32, 32, 3)
    again = engine.render(top=False, resolution=64)
    np.testing.assert_array_equal(again, before)
    again[:] = 0
    np.testing.assert_array_equal(engine.observe(("image",))["image"], before)


def test_it_runs_on_the_cpu(engine):
    devices = {device for leaf in jax.tree.leaves(engine._state) for device in leaf.devices()}
    assert devices == {jax.local_devices(backend="cpu")[0]}


def test_a_folder_that_cannot_be_written_is_no_cache(tmp_path):
    (tmp_path / "file").touch()
    code = (
        "import jax; from memory_maze.system.programs import cache_programs as f; f(); print(jax.config.{})"
    )
    result = run(code.format("jax_compilation_cache_dir"), MEMORY_MAZE_CACHE=str(tmp_path / "file"))
    assert (result.stdout, result.stderr) == ("None\n", "")


@pytest.mark.parametrize("own", [None, "own"])
def test_programs_of_the_functional_interface_are_kept(own, tmp_path):
    own = own and str(tmp_path / own)
    code = f"""
import jax
from memory_maze.engine.env import Env
jax.config.update("jax_compilation_cache_dir", {own!r})
Env(layouts=16)
print(jax.config.jax_compilation_cache_dir)
"""
    result = run(code, MEMORY_MAZE_CACHE=str(tmp_path))
    assert result.stdout == f"{own or tmp_path / 'programs' / 'checked'}\n", result.stderr


def test_gymnasium_forks_environments_that_it_only_made():
    result = run("""
import gymnasium
envs = gymnasium.make_vec("memory_maze:MemoryMaze-9x9-v0", num_envs=2, vectorization_mode="async")
envs.reset(seed=5)
print(envs.step([1, 2])[0].shape)
envs.close()
""")
    assert (result.stdout, result.stderr) == ("(2, 64, 64, 3)\n", "")


def test_a_fork_after_playing_is_refused():
    result = run("""
import os, warnings, gymnasium
env = gymnasium.make("memory_maze:MemoryMaze-9x9-v0")
env.reset(seed=3)
warnings.simplefilter("ignore")  # JAX's own, of the fork
if os.fork() == 0:
    for play in (lambda: env.step(1), gymnasium.make("memory_maze:MemoryMaze-9x9-v0").reset):
        try:
            play()
        except RuntimeError as error:
            print('context="spawn"' in str(error), flush=True)
    os._exit(0)
os.wait()
env.step(1)
""")
    assert (result.stdout, result.stderr) == ("True\nTrue\n", "")
