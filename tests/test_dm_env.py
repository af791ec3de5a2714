"""The dm_env interface, by dm_env's own conformance tests."""

import dm_env
import numpy as np
import pytest
from absl.testing import absltest
from dm_env import specs, test_utils

from memory_maze import make_task, tasks

pytestmark = pytest.mark.pythons


class ConformanceTest(test_utils.EnvironmentTestMixin, absltest.TestCase):
    engine = "jax"

    def make_object_under_test(self):
        return tasks.memory_maze_9x9(seed=0, engine=self.engine, global_observables=True, seconds=2)

    def tearDown(self):
        self.environment.close()
        super().tearDown()


class ContinuousConformanceTest(ConformanceTest):
    def make_object_under_test(self):
        return tasks.memory_maze_15x15(
            seed=0, engine=self.engine, image_only_obs=True, discrete_actions=False, seconds=2
        )


class ReferenceConformanceTest(ConformanceTest):
    engine = "mujoco"


class ReferenceContinuousConformanceTest(ContinuousConformanceTest):
    engine = "mujoco"


@pytest.mark.parametrize("size", ["9x9", "11x11", "13x13", "15x15"])
def test_published_constructors(size):
    env = getattr(tasks, f"memory_maze_{size}")()
    assert isinstance(env, dm_env.Environment)
    assert env.observation_spec().keys() == {"image", "target_color"}
    assert env.observation_spec()["image"].shape == (64, 64, 3)
    assert env.action_spec() == specs.DiscreteArray(6, name="action")
    env.close()


def test_the_keywords_of_the_published_readme():
    env = tasks.memory_maze_9x9(
        global_observables=True,
        image_only_obs=False,
        top_camera=False,
        camera_resolution=64,
        control_freq=4.0,
        discrete_actions=True,
    )
    timestep = env.reset()
    assert timestep.observation["maze_layout"].shape == (9, 9)
    env.close()


def test_an_episode_ends_by_time_and_the_next_step_starts_another():
    env = tasks.memory_maze_9x9(seed=0, seconds=1)
    timestep = env.step(0)
    assert timestep.first(), "a step before the first reset is a reset"
    assert timestep.reward is None
    timesteps = [env.step(1) for _ in range(4)]
    assert [step.step_type for step in timesteps] == [dm_env.StepType.MID] * 3 + [dm_env.StepType.LAST]
    assert [step.discount for step in timesteps] == [1.0] * 4
    layout = env.scenario.walls
    assert env.step(1).first()
    assert env.scenario.walls != layout
    env.close()


def test_other_tasks():
    env = tasks.memory_maze(make_task(7, objects=2, seconds=9), global_observables=True)
    assert env.reset().observation["targets_pos"].shape == (2, 2)
    assert env.simulation.episode_steps == 36
    env.close()


@pytest.mark.parametrize("engine", ["jax", "mujoco"])
def test_types_of_observations(engine):
    """Types and ranges, through the published constructor."""
    env = tasks.memory_maze_9x9(seed=3, engine=engine, global_observables=True)
    observation = env.reset().observation
    for name, spec in env.observation_spec().items():
        spec.validate(observation[name])
    assert observation["target_color"].dtype == np.float64
    assert observation["agent_pos"].dtype == np.float64
    assert observation["maze_layout"].dtype == np.uint8
    assert set(np.unique(observation["maze_layout"])) == {0, 1}
    np.testing.assert_allclose(np.linalg.norm(observation["agent_dir"]), 1)
    env.close()
