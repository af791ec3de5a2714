"""Both engines on the same scenarios and actions, through the interfaces that people use."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from memory_maze import TASKS, compare
from memory_maze.options import Options
from memory_maze.simulation import Simulation


@pytest.fixture(scope="module", params=["9x9", "13x13"])
def comparison(request):
    return compare.compare_states(TASKS[request.param], Options(), episodes=8, steps=30, seed=500)


def test_pictures_are_alike(comparison):
    assert np.mean(comparison.psnr) >= 42
    assert np.min(comparison.psnr) >= 32


def test_one_action_from_the_same_state(comparison):
    figures = comparison.summary()
    assert figures["actions_free"] > 50
    assert figures["actions_at_walls"] > 50
    assert figures["free_rms_metres"] <= 1e-3
    assert figures["free_rms_radians"] <= 2e-3
    assert figures["wall_rms_metres"] <= 4e-3
    assert figures["wall_rms_radians"] <= 1e-2


def test_touches_are_alike(comparison):
    assert comparison.touches_apart == 0


def test_a_pilot_finds_as_much():
    found = compare.returns(TASKS["9x9"], episodes=8, steps=150, seed=600)
    assert found["mujoco"].sum() > 12
    assert abs(found["jax"].mean() - found["mujoco"].mean()) < 0.5


def test_seeds_give_the_same_episodes():
    """Targets reached on the way count for the next maze, so both must see the same rewards."""
    ours, theirs = (
        Simulation("9x9", seed=68, engine=name, global_observables=True) for name in ("jax", "mujoco")
    )
    for _ in range(3):
        one, two = ours.reset(), theirs.reset()
        assert ours.scenario == theirs.scenario
        for key in one.keys() - {"image"}:
            np.testing.assert_allclose(one[key], two[key], atol=1e-5, err_msg=key)
        assert compare.psnr(one["image"], two["image"]) > 36
        assert [ours.step(0)[1] for _ in range(2)] == [theirs.step(0)[1] for _ in range(2)]
    theirs.close()


@pytest.mark.parametrize("variant", ["", "-Oracle"])
def test_the_checker_passes(variant):
    env = gymnasium.make(f"memory_maze:MemoryMaze-9x9{variant}-v0", engine="jax", render_mode="rgb_array")
    check_env(env.unwrapped, skip_render_check=True)
    env.reset(seed=1)
    assert env.render().shape == (256, 256, 3)
    env.close()


def test_engines_refuse_unknown_names():
    with pytest.raises(ValueError, match="there are mujoco, jax"):
        Simulation(engine="unity")
