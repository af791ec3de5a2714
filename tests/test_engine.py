"""The JAX engine as pure functions: rules, resets, batches, devices."""

import dataclasses
import itertools
import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from memory_maze import TASKS, Sampler, Scenario
from memory_maze.engine.batch import Batch
from memory_maze.engine.env import Env, begin_scenario
from memory_maze.engine.rules import collect
from memory_maze.world import cell_to_world

NUM = 6

pytestmark = pytest.mark.usefixtures("plain_pictures")


@pytest.fixture(scope="module")
def env():
    return Env("9x9", layouts=64, seconds=3, image_only_obs=True)


@pytest.fixture(scope="module")
def batch(env):
    return Batch(env, NUM)


@pytest.fixture(scope="module")
def step(batch):
    return batch.step


def begin(draws, hidden=(), objects=3):
    scenario = Sampler(TASKS["9x9"], 5).sample()
    return begin_scenario(
        dataclasses.replace(
            scenario,
            draws=draws,
            hidden=hidden,
            objects=scenario.objects[:objects],
            colors=scenario.colors[:objects],
        )
    )


def touch(state, *objects):
    return collect(state, jnp.array([i in objects for i in range(len(state.touched))]))


def test_touching_the_target_pays_and_asks_for_the_next():
    state = begin(draws=(0, 0, 2, 1))
    state, reward = touch(state, 1)
    assert (float(reward), int(state.target)) == (0, 0), "the wrong object has no effect"
    state, reward = touch(state, 0)
    assert (float(reward), int(state.target)) == (1, 2), "the draw of the touched object is passed over"
    assert int(state.draws_used) == 3
    state, reward = touch(state, 0)
    assert float(reward) == 0, "staying does not pay again"
    state, reward = touch(state, 2)
    assert (float(reward), int(state.target)) == (1, 1)
    state, reward = touch(state, 1)
    assert (float(reward), int(state.target)) == (1, 4 % 3 if 4 % 3 != 1 else 5 % 3), "then they take turns"


@pytest.mark.parametrize("count", [2, 3])
def test_any_objects_can_be_touched_at_once(count):
    """Those that stand side by side, as in small mazes; without an end to the search this would hang."""
    for target, *touched in itertools.product(range(count), *[(False, True)] * count):
        state = begin(draws=(target, *range(count), *range(count)), objects=count)
        after, reward = jax.jit(collect)(state, jnp.array(touched))
        assert float(reward) == touched[target]
        if not touched[target]:
            assert (int(after.target), int(after.draws_used)) == (target, 1)
        else:
            taken = {i for i in range(target, count) if touched[i]}
            assert int(after.target) not in (taken if len(taken) < count else {target})


def test_a_lone_object_must_be_left_and_found_again():
    state, rewards = begin(draws=(0,), objects=1), []
    for objects in ((0,), (0,), (), (0,), (0,)):
        state, reward = touch(state, *objects)
        rewards.append(float(reward))
    assert rewards == [1, 0, 0, 1, 0]


def test_targets_from_the_key_are_uniform_over_the_others():
    state = dataclasses.replace(begin(draws=(0,)), draws=jnp.zeros(0, jnp.int32))
    keys = jax.random.split(jax.random.key(0), 3000)
    touched = jnp.array([True, False, False])
    targets = jax.vmap(lambda key: collect(dataclasses.replace(state, key=key), touched)[0].target)(keys)
    counts = np.bincount(np.asarray(targets), minlength=3)
    assert counts[0] == 0
    assert abs(counts[1] - 1500) < 150


def test_resets_draw_valid_episodes(env):
    """Against the layouts of the bank: objects and starts on their places, all different."""
    states = jax.jit(jax.vmap(env.draw))(jax.random.split(jax.random.key(1), 500))
    size = env.task.size
    bank = {np.asarray(row).tobytes(): i for i, row in enumerate(np.asarray(env.bank.walls))}
    for i in range(500):
        state = jax.tree.map(lambda array, i=i: array[i], dataclasses.replace(states, key=states.step))
        layout = bank[np.asarray(state.maze.walls).tobytes()]
        same = [
            j
            for j, row in enumerate(np.asarray(env.bank.walls))
            if (row == np.asarray(state.maze.walls)).all()
        ]
        places = {int(cell) for j in same for cell in np.asarray(env.bank.places)[j]}
        cells = [
            round(float(x) / 2 + (size - 1) / 2) + size * round(float(y) / 2 + (size - 1) / 2)
            for x, y in state.maze.objects
        ]
        assert len(set(cells)) == 3
        assert set(cells) <= places, layout
        assert 0 <= int(state.target) < 3
        assert int(state.draws_used) == 1
        np.testing.assert_array_equal(np.asarray(state.touched), [cell == size**2 // 2 for cell in cells])
    headings = np.asarray(states.body.steer)
    assert headings.min() < -3
    assert headings.max() > 3
    textures = np.bincount(np.asarray(states.maze.textures).ravel(), minlength=8)
    assert textures.min() > 400


def test_colors_are_drawn_from_all_six():
    env = Env("9x9", layouts=64, randomize_colors=True)
    states = jax.vmap(env.draw)(jax.random.split(jax.random.key(1), 200))
    colors = np.asarray(states.maze.colors)
    assert set(colors.ravel()) == set(range(6))
    assert all(len(set(row)) == 3 for row in colors)


def test_batches_reset_by_themselves(batch, step):
    states, timestep = batch.reset(jax.random.key(0), spread=True)
    length = batch.env.episode_steps
    seen = 0
    for _ in range(2 * length + 2):
        over, walls = np.asarray(timestep.truncated), np.asarray(states.maze.walls)
        states, timestep = step(states, jnp.ones(NUM, jnp.int32))
        np.testing.assert_array_equal(np.asarray(timestep.first), over)
        steps = np.asarray(states.step)
        assert (steps[over] == 0).all()
        assert (np.asarray(timestep.reward)[over] == 0).all()
        np.testing.assert_array_equal(np.asarray(timestep.truncated), steps == length)
        assert not np.asarray(timestep.terminated).any()
        same = (np.asarray(states.maze.walls) == walls).all(axis=1)
        assert same[~over].all()
        seen += over.sum()
    assert 2 * NUM <= seen <= 3 * NUM


def test_episodes_may_be_drawn_before_they_begin(batch, step):
    states, _ = batch.reset(jax.random.key(0))
    states = dataclasses.replace(states, step=states.step.at[1].set(batch.env.episode_steps))
    actions, starts = jnp.ones(NUM, jnp.int32), batch.draw_next(states)
    after, expected = step(states, actions)
    same, timestep = step(states, actions, starts)
    jax.tree.map(np.testing.assert_array_equal, timestep, expected)
    np.testing.assert_array_equal(jax.random.key_data(same.key), jax.random.key_data(after.key))
    np.testing.assert_array_equal(same.maze.walls[1], starts.maze.walls[1])
    assert timestep.first.tolist() == [False, True] + [False] * (NUM - 2)


def test_episodes_end_at_once_unless_they_are_spread(batch):
    states, _ = batch.reset(jax.random.key(0))
    assert not np.asarray(states.step).any()
    states, _ = batch.reset(jax.random.key(0), spread=True)
    assert len(set(np.asarray(states.step).tolist())) > 2


def test_same_key_same_walk(batch, step):
    runs = []
    for _ in range(2):
        states, _ = batch.reset(jax.random.key(3))
        for action in (1, 4, 1, 2):
            states, timestep = step(states, jnp.full(NUM, action, jnp.int32))
        runs.append(timestep)
    jax.tree.map(np.testing.assert_array_equal, *runs)
    assert (
        np.asarray(batch.reset(jax.random.key(4))[1].observation)
        != np.asarray(batch.reset(jax.random.key(5))[1].observation)
    ).any()


def test_one_maze_is_a_lane_of_many(env, batch, step):
    states, _ = batch.reset(jax.random.key(3))
    one = jax.tree.map(lambda array: array[2], states)
    single = jax.jit(env.step)
    for action in (1, 1, 5):
        states, timestep = step(states, jnp.full(NUM, action, jnp.int32))
        one, alone = single(one, action)
        np.testing.assert_allclose(one.body.x, states.body.x[2], atol=1e-5)
        difference = np.asarray(alone.observation, int) - np.asarray(timestep.observation[2], int)
        assert np.abs(difference).mean() < 0.1


def test_keys_for_each_or_for_all(batch):
    key = jax.random.key(3)
    states, timestep = batch.reset(key, spread=True)
    for keys in (jax.random.key_data(key), jax.random.split(key, NUM)):
        again, same = batch.reset(keys, spread=True)
        np.testing.assert_array_equal(again.step, states.step)
        jax.tree.map(np.testing.assert_array_equal, timestep, same)
    alone, _ = Batch(batch.env, 1).reset(jax.random.split(key, NUM)[4:5], spread=True)
    np.testing.assert_array_equal(alone.body.steer, states.body.steer[4:5])
    np.testing.assert_array_equal(alone.step, states.step[4:5])
    with pytest.raises(ValueError, match="one key or 6"):
        batch.reset(jax.random.split(key, NUM + 1))


@pytest.mark.parametrize("num", [0, -1, 1.5, True, "2"])
def test_wrong_numbers_of_mazes_are_refused(env, num):
    with pytest.raises(ValueError, match="num must be a positive integer"):
        Batch(env, num)


def test_arrays_are_arguments(batch):
    """Constants would be copied into every program."""
    arrays, rules = jax.tree.flatten(batch)
    assert sum(leaf.nbytes for leaf in arrays) > 1e6
    assert hash(rules) == hash(jax.tree.structure(Batch(batch.env, NUM)))
    assert rules != jax.tree.structure(Batch(batch.env, NUM + 1))
    states, _ = batch.reset(jax.random.key(0))
    jaxpr = jax.make_jaxpr(Batch.step)(batch, states, jnp.ones(NUM, jnp.int32))
    assert sum(np.asarray(const).nbytes for const in jaxpr.consts) < 1e6
    again = jax.tree.unflatten(rules, arrays)
    assert (again.num, again.env.task, again.env.options) == (NUM, batch.env.task, batch.env.options)


def test_nothing_is_compiled_twice(batch):
    states, _ = batch.reset(jax.random.key(0))
    programs = []
    for _ in range(3):
        states, _ = batch.step(states, jnp.zeros(NUM, jnp.int32))
        programs.append(Batch.step._cache_size())
    assert programs[0] == programs[-1] > 0


def test_pictures_too_small_for_the_minimap_are_refused():
    with pytest.raises(ValueError, match="the minimap needs 30 pixels"):
        Env("15x15", layouts=64, global_observables=True, show_path=True, camera_resolution=16)


def test_states_are_small(batch):
    states, _ = batch.reset(jax.random.key(0))
    states = dataclasses.replace(states, key=jax.random.key_data(states.key))
    assert sum(leaf.nbytes for leaf in jax.tree.leaves(states)) / NUM < 8 * 1024


def test_scenarios_are_loaded_as_they_are():
    scenario = Scenario.from_text(
        """
        #########
        #r  #  g#
        #   #   #
        #   #   #
        ### # ###
        #       #
        # ##### #
        #b  >   #
        #########
        """
    ).fill(np.random.RandomState(0), 10)
    state = begin_scenario(scenario)
    assert [int(row) for row in state.maze.walls] == [
        0,
        0b0111110,
        0,
        0b1101011,
        0b0001000,
        0b0001000,
        0b0001000,
    ]
    assert [int(row) for row in state.maze.rooms[-3:]] == [0b1110111] * 3
    np.testing.assert_allclose(state.maze.objects[0], cell_to_world((1, 1), 9))
    assert (float(state.body.x), float(state.body.y), float(state.body.steer)) == (0, -6, 0)


DEVICES = """
import json, jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from memory_maze.engine.batch import Batch
from memory_maze.engine.env import Env
batch = Batch(Env("9x9", layouts=64, seconds=3, image_only_obs=True), 8)
first, _ = batch.reset(jax.random.key(0))
lanes = {"in_specs": P("lanes"), "out_specs": P("lanes"), "check_vma": False}
for count in (1, 4):
    sharding = NamedSharding(Mesh(np.array(jax.devices()[:count]), "lanes"), P("lanes"))
    step = jax.jit(jax.shard_map(batch.step, mesh=sharding.mesh, **lanes))
    states, sums = jax.device_put(first, sharding), []
    for action in (1, 1, 4, 1, 2, 1):
        states, timestep = step(states, jax.device_put(jnp.full(8, action), sharding))
        sums.append([int(v) for v in np.asarray(timestep.observation.astype(jnp.uint32).sum((1, 2, 3)))])
    devices = len(states.body.x.sharding.device_set)
    print(json.dumps({"devices": devices, "sums": sums, "x": np.asarray(states.body.x).tolist()}))
"""


@pytest.mark.slow
def test_four_devices_give_the_same_as_one():
    variables = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    result = subprocess.run(
        [sys.executable, "-c", DEVICES], capture_output=True, text=True, env=variables, timeout=280
    )
    assert result.returncode == 0, result.stderr[-2000:]
    results = [json.loads(line) for line in result.stdout.splitlines()[-2:]]
    assert [result["devices"] for result in results] == [1, 4]
    np.testing.assert_allclose(results[0]["x"], results[1]["x"], atol=1e-5)
    np.testing.assert_allclose(results[0]["sums"], results[1]["sums"], rtol=1e-3)
