"""The reference engine plays the episodes that were recorded from the published environment."""

import functools

import numpy as np
import pytest
from conftest import GOLDEN

from memory_maze import TASKS
from memory_maze.adapters.simulation import Simulation
from memory_maze.reference.model import block_layer
from memory_maze.sampler import Sampler
from memory_maze.scenario import WALL
from memory_maze.world import cell_to_world

LONG = sorted(path.stem for path in GOLDEN.glob("*-oracle.npz")) + sorted(
    path.stem for path in GOLDEN.glob("*-sticky.npz")
)
RESETS = sorted(path.stem for path in GOLDEN.glob("*-resets.npz"))
# (file, key prefix of the episode)
EPISODES = [(name, "") for name in LONG] + [(name, f"ep{i}/") for name in RESETS for i in range(4)]
CONSTANT = ("maze_layout", "targets_pos")
MOVING = ("agent_pos", "agent_dir", "targets_vec", "target_pos", "target_vec", "target_color")


@functools.cache
def load(name):
    with np.load(GOLDEN / f"{name}.npz") as file:
        return {key: file[key] for key in file}


def make_simulation(name):
    task, seed, _ = name.split("-")
    seed = int(seed.removeprefix("seed"))
    return Simulation(task, seed=seed, engine="mujoco", global_observables=True)


def play(simulation, golden, prefix):
    """Yields the step, the observation and the reward along the recorded actions."""
    yield 0, simulation.reset(), 0.0
    for t, action in enumerate(golden[prefix + "action"][1:], start=1):
        observation, reward, _ = simulation.step(int(action))
        yield t, observation, reward


def pictures_of(golden, prefix):
    return dict(zip(golden[prefix + "image_step"].tolist(), golden[prefix + "image"], strict=True))


def test_all_recordings_are_here():
    assert len(LONG) == 8
    assert len(RESETS) == 4


@pytest.mark.exact
@pytest.mark.parametrize("name", LONG + RESETS)
def test_episodes_are_identical(name):
    golden, simulation = load(name), make_simulation(name)
    prefixes = [f"ep{i}/" for i in range(4)] if name in RESETS else [""]
    for prefix in prefixes:
        pictures = pictures_of(golden, prefix)
        for t, observation, reward in play(simulation, golden, prefix):
            if t > 0:
                assert reward == golden[prefix + "reward"][t], t
            for key in CONSTANT:
                np.testing.assert_array_equal(observation[key], golden[prefix + key])
            for key in MOVING:
                np.testing.assert_allclose(observation[key], golden[prefix + key][t], atol=1e-4)
            qpos, qvel = simulation.engine.state
            np.testing.assert_allclose(qpos, golden[prefix + "qpos"][t], atol=1e-9)
            np.testing.assert_allclose(qvel, golden[prefix + "qvel"][t], atol=1e-9)
            if t in pictures:
                assert_same_picture(observation["image"], pictures.pop(t), 0.1)
        assert not pictures
    simulation.close()


def assert_same_picture(image, expected, mean):
    assert image.shape == expected.shape
    assert image.dtype == np.uint8
    difference = np.abs(image.astype(int) - expected.astype(int))
    assert difference.mean() <= mean, difference.mean()
    assert (difference.max(axis=-1) <= 2).mean() >= 0.999, (difference.max(axis=-1) > 2).sum()


@pytest.mark.parametrize(("name", "prefix"), EPISODES)
def test_scenarios_are_identical(name, prefix):
    golden = load(name)
    task, seed, _ = name.split("-")
    sampler = Sampler(TASKS[task], int(seed.removeprefix("seed")))
    scenario = sampler.sample()
    for _ in range(int(prefix[2:-1] or 0) if prefix else 0):
        scenario = sampler.sample()
    layer = [
        "".join(" " if char in "PG" else char for char in row) for row in golden[prefix + "entity_layer"]
    ]
    assert list(block_layer(scenario.walls)) == layer
    assert list(scenario.rooms) == golden[prefix + "variations_layer"].tolist()
    textures = dict(pair.split("=") for pair in golden[prefix + "wall_texture"].tolist())
    assert scenario.textures == tuple(textures[str(block)] for block in range(9))
    qpos = golden[prefix + "qpos"][0]
    assert cell_to_world(scenario.spawns[0], scenario.grid) == tuple(qpos[:2])
    assert -scenario.heading == qpos[3]
    assert WALL in scenario.walls[0]


@pytest.mark.similar
@pytest.mark.newest
@pytest.mark.parametrize(("name", "prefix"), [one for one in EPISODES if one[1] in ("", "ep3/")])
def test_first_frames_look_the_same(name, prefix):
    golden, simulation = load(name), make_simulation(name)
    simulation.reset()
    for _ in range(int(prefix[2:-1]) if prefix else 0):
        simulation.reset()
    image = simulation.reset(scenario=simulation.scenario)["image"]
    difference = np.abs(image.astype(int) - pictures_of(golden, prefix)[0].astype(int))
    assert difference.mean() <= 0.5
    simulation.close()


@pytest.mark.similar
@pytest.mark.newest
@pytest.mark.parametrize("name", [name for name in LONG if "oracle" in name])
def test_trajectories_are_equal_until_a_wall_is_touched(name):
    golden, simulation = load(name), make_simulation(name)
    places, compared = golden["qpos"][:, :2], 0
    for t, observation, _ in play(simulation, golden, ""):
        way = np.linspace(places[max(t - 1, 0)], places[t], 20)
        if min(wall_distance(place, simulation.scenario) for place in way) < 0.22:
            break
        # Mostly below 1e-4 cells; a spinning wheel makes the ball hop by micrometres, which may go otherwise.
        np.testing.assert_allclose(observation["agent_pos"], golden["agent_pos"][t], atol=5e-3)
        compared += 1
    assert compared >= 3, "the recording should move freely at first"
    simulation.close()


def wall_distance(position, scenario):
    """From the middle of the ball to the nearest wall, in metres."""
    cells = [(r, c) for r, row in enumerate(scenario.walls) for c, char in enumerate(row) if char == WALL]
    centres = np.array([cell_to_world(cell, scenario.grid) for cell in cells])
    outside = np.maximum(np.abs(position - centres) - 1.0, 0)
    return np.sqrt((outside**2).sum(axis=1)).min()
