"""The rule of touch, reward and next target: both engines have the same, and another reaches everybody."""

import dataclasses
import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_maze import TASKS, Sampler
from memory_maze.engine.env import begin_scenario
from memory_maze.engine.rules import collect
from memory_maze.options import Options
from memory_maze.reference.engine import MujocoEngine

COLLECT = jax.jit(collect)


@pytest.fixture(scope="module")
def reference():
    return MujocoEngine(TASKS["15x15"].grid, Options())


@given(
    st.sampled_from([1, 2, 3, 6]),
    st.lists(st.integers(0, 5), min_size=1, max_size=8),
    st.lists(st.sets(st.integers(0, 5)), max_size=20),
    st.sets(st.integers(0, 5), max_size=1),
)
def test_both_engines_have_the_same_rule(reference, count, draws, touches, hidden):
    scenario = Sampler(TASKS["15x15"], 5).sample()
    scenario = dataclasses.replace(
        scenario,
        objects=scenario.objects[:count],
        colors=scenario.colors[:count],
        draws=tuple(draw % count for draw in draws),
        hidden=tuple(index for index in hidden if index < count),
    )
    reference.reset(scenario)
    state = begin_scenario(dataclasses.replace(scenario, draws=tuple(map(scenario.draw, range(200)))))
    for touched in touches:
        reference._touched |= {index for index in touched if index < count}
        mask = jnp.array([index in touched for index in range(count)])
        state, reward = COLLECT(state, mask | state.touched)
        assert float(reward) == reference._collect()
        assert (int(state.target), int(state.draws_used)) == (reference.target, reference.draws_used)


# Whoever changes the rule changes `rules.py`: here an action that finds nothing costs something.
CHANGED = """
import json
import jax.numpy as jnp
from memory_maze.engine import observe, rules

collect = rules.collect

def charge(state, touched):
    state, reward = collect(state, touched)
    return state, jnp.where(reward > 0, reward, -0.5)

rules.collect, rules.REWARDS = charge, (-0.5, 1.0)
# Pictures take long to compile, and show nothing of it.
observe.render_state = lambda view, *_: jnp.zeros((view.resolution, view.resolution, 3), jnp.uint8)

import gymnasium
from memory_maze import data, make_task
from memory_maze.agents.load import load_policy
from memory_maze.data.inspect import inspect
from memory_maze.episodes.evaluate import evaluate

name, small = "memory_maze:MemoryMaze-9x9-v0", {"camera_resolution": 16}
env = gymnasium.make(name, **small)
env.reset(seed=1)
found = {"gymnasium": env.step(0)[1]}
envs = gymnasium.make_vec(name, num_envs=2, vectorization_mode="vector_entry_point", layouts=16, **small)
envs.reset(seed=1)
found["vector"] = envs.step([0, 0])[1].tolist()
task = make_task(7, 3, seconds=2)
found["evaluate"] = evaluate(load_policy("random"), task, 1)["scores"]
for format in ("scenes", "npz"):
    data.collect(format, task, episodes=2, evaluation=0, steps=8, policy="random", format=format)
    dataset = data.load(format)
    found[format] = [dataset.read(index, keys=("reward",))["reward"].tolist() for index in range(2)]
    found[format + " problems"] = inspect(format).problems
print(json.dumps(found))
"""


def test_another_rule_reaches_all_interfaces_and_data(tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", CHANGED],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout.splitlines()[-1])
    assert found == {
        "gymnasium": -0.5,
        "vector": [-0.5] * 2,
        "evaluate": [-4.0],
        "scenes": [[0] + [-0.5] * 8] * 2,
        "scenes problems": [],
        "npz": [[0] + [-0.5] * 8] * 2,
        "npz problems": [],
    }
