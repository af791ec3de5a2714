"""A variant and an observation of one's own are a file each, beside the package."""

import importlib

import gymnasium
import jax
import numpy as np
import pytest

from memory_maze.engine.batch import Batch

VARIANT = """
import gymnasium

gymnasium.register(
    "MyMaze-Long-v0",
    entry_point="memory_maze.adapters.gymnasium:MemoryMazeEnv",
    vector_entry_point="memory_maze.adapters.gymnasium_vector:MemoryMazeVectorEnv",
    kwargs={"task": "9x9", "seconds": 2.0, "good_visibility": True, "camera_resolution": 16},
)
"""
OBSERVATION = """
import jax.numpy as jnp

from memory_maze.engine.env import Env


class CompassEnv(Env):
    def observe(self, state):
        heading = state.body.steer
        return super().observe(state) | {"compass": jnp.stack([jnp.cos(heading), jnp.sin(heading)])}
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Imports a file of the user's."""
    monkeypatch.syspath_prepend(tmp_path)

    def load(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        return importlib.import_module(name)

    return load


def test_a_variant(own):
    own("my_variant", VARIANT)
    env = gymnasium.make("MyMaze-Long-v0")
    observation, _ = env.reset(seed=1)
    assert observation["image"].shape == (16, 16, 3)
    assert [env.step(1)[3] for _ in range(8)] == [False] * 7 + [True]
    env.close()


def test_an_observation(own):
    env = own("my_observation", OBSERVATION).CompassEnv("9x9", layouts=16, camera_resolution=16)
    batch = Batch(env, 2)
    states, timesteps = batch.reset(jax.random.key(0))
    np.testing.assert_allclose(timesteps.observation["compass"][:, 0], np.cos(states.body.steer), rtol=1e-6)
    states, timesteps = batch.step(states, np.array([2, 3]))
    np.testing.assert_allclose(timesteps.observation["compass"][:, 1], np.sin(states.body.steer), rtol=1e-6)
    assert timesteps.observation["image"].shape == (2, 16, 16, 3)
