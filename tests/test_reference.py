"""The MuJoCo engine beyond the recordings: walls hold, rules hold, any maze plays."""

import dataclasses

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placing import teleport

from memory_maze import TASKS, Sampler, Scenario, make_task
from memory_maze.adapters.simulation import Simulation
from memory_maze.options import ACTIONS, Options
from memory_maze.reference.engine import MujocoEngine
from memory_maze.reference.model import build_maze, merge_cells
from memory_maze.scenario import WALL
from memory_maze.world import cell_to_world

ROOM = """
#########
#       #
#       #
# r   g #
#   >   #
#       #
#       #
#       #
#########
"""


@pytest.mark.newest
@settings(max_examples=15)
@given(st.integers(0, 10**6), st.lists(st.sampled_from([1, 1, 1, 2, 3, 4, 5]), min_size=40, max_size=80))
def test_the_ball_never_enters_a_wall(seed, actions):
    engine = MujocoEngine(TASKS["9x9"].grid, Options())
    scenario = Sampler(TASKS["9x9"], seed).sample()
    engine.reset(scenario)
    for action in actions:
        engine.step(ACTIONS[action])
        assert distance_to_wall(engine.position, scenario) > 0.2 - 0.015


def distance_to_wall(position, scenario):
    cells = [(r, c) for r, row in enumerate(scenario.walls) for c, char in enumerate(row) if char == WALL]
    centres = np.array([cell_to_world(cell, scenario.grid) for cell in cells])
    outside = np.maximum(np.abs(position - centres) - 1.0, 0)
    return np.sqrt((outside**2).sum(axis=1)).min()


@pytest.mark.newest
def test_same_seed_same_episode():
    actions = np.random.RandomState(0).randint(6, size=60)
    runs = []
    for _ in range(2):
        simulation = Simulation("11x11", engine="mujoco", seed=7, global_observables=True)
        rows = [simulation.reset()] + [simulation.step(int(action))[0] for action in actions]
        runs.append(rows)
        simulation.close()
    for one, two in zip(*runs, strict=True):
        for key in one:
            np.testing.assert_array_equal(one[key], two[key])


@given(st.integers(0, 10**6), st.sampled_from(list(TASKS)))
def test_merged_cells_cover_exactly_with_odd_sides(seed, task):
    walls = Sampler(TASKS[task], seed).sample().walls
    covered = np.zeros((len(walls), len(walls)), int)
    for top, left, bottom, right in merge_cells(walls, WALL):
        assert (bottom - top) % 2 == (right - left) % 2 == 1
        covered[top:bottom, left:right] += 1
    np.testing.assert_array_equal(covered, [[char == WALL for char in row] for row in walls])


def test_touching_the_wrong_object_has_no_effect():
    engine = MujocoEngine(9, Options())
    engine.reset(fill(ROOM, draws=(0, 1, 1, 0)))
    position = {
        name: cell_to_world(cell, 9) for name, cell in zip("rg", engine.scenario.objects, strict=True)
    }
    teleport(engine, position["g"])
    assert engine.step(ACTIONS[0]) == 0
    assert engine.target == 0
    teleport(engine, position["r"])
    assert engine.step(ACTIONS[0]) == 1
    assert engine.target == 1
    assert engine.step(ACTIONS[0]) == 0, "staying does not pay again"
    teleport(engine, position["g"])
    assert engine.step(ACTIONS[0]) == 1
    assert engine.target == 0, "the draw of the object being touched is passed over"
    assert engine.draws_used == 4


def test_touch_distance():
    """0.8 m between the ball's and the object's middle, in three dimensions: 0.7746 m on the floor."""
    scenario = fill(ROOM, draws=(0,))
    x, y = cell_to_world(scenario.objects[0], 9)
    engine = MujocoEngine(9, Options())
    for offset, reward in ((0.774, 1.0), (0.7755, 0.0)):
        engine.reset(scenario)
        teleport(engine, (x, y - offset))
        assert engine.step(ACTIONS[0]) == reward


def test_grazing_an_object_in_the_middle_of_a_step_counts():
    engine = MujocoEngine(9, Options())
    engine.reset(fill(ROOM, draws=(1, 0)))
    x, y = cell_to_world(engine.scenario.objects[1], 9)
    teleport(engine, (-4.9, y - 0.765))
    rewards, distances = [], []
    for _ in range(22):
        rewards.append(engine.step(ACTIONS[1]))
        distances.append(float(np.hypot(*(engine.position - (x, y)))))
    assert sum(rewards) == 1
    assert min(distances) > 0.7747, "no step ends within reach"


def test_a_lone_object_must_be_left_and_found_again():
    engine = MujocoEngine(9, Options())
    engine.reset(fill(ROOM.replace("g", " "), draws=(0,)))
    there, away = cell_to_world(engine.scenario.objects[0], 9), (0.0, 0.0)
    rewards = []
    for position in (there, None, None, away, there, None):
        if position is not None:
            teleport(engine, position)
        rewards.append(engine.step(ACTIONS[0]))
    assert rewards == [1, 0, 0, 0, 1, 0]


def test_an_object_in_the_centre_is_hidden_at_first_and_pays_at_once():
    """Errata 1: seed 68 of 9x9, in which it is also the first target."""
    simulation = Simulation("9x9", engine="mujoco", seed=68, top_camera=True, camera_resolution=256)
    first = simulation.reset()["image"]
    assert simulation.scenario.hidden == (simulation.engine.target,)
    after, reward, _ = simulation.step(0)
    assert reward == 1.0
    centre = np.s_[118:138, 118:138]
    assert np.abs(first[centre].astype(int) - after["image"][centre]).mean() > 10, "it appears"
    simulation.close()


def test_draws_run_out_without_harm():
    scenario = fill(ROOM, draws=(0,))
    assert [scenario.draw(i) for i in range(5)] == [0, 1, 0, 1, 0]


def test_speeds_are_the_published_ones():
    """From rest: the wheel slips at first, then two metres a second."""
    engine = MujocoEngine(9, Options())
    engine.reset(fill(ROOM, draws=(0,)))
    teleport(engine, (-5.0, 0.0))
    xs = [engine.position[0]]
    for _ in range(5):
        engine.step(ACTIONS[1])
        xs.append(engine.position[0])
    np.testing.assert_allclose(np.diff(xs), [0.2215, 0.4376, 0.4860, 0.4966, 0.4989], atol=2e-3)


@pytest.mark.newest
@pytest.mark.parametrize(("size", "objects"), [(7, 6), (7, 1), (21, 5), (31, 6)])
def test_other_sizes_play(size, objects):
    simulation = Simulation(make_task(size, objects), engine="mujoco", seed=1, global_observables=True)
    observation = simulation.reset()
    assert observation["maze_layout"].shape == (size, size)
    assert observation["targets_pos"].shape == (objects, 2)
    for action in range(6):
        observation, *_ = simulation.step(action)
    assert observation["image"].std() > 5
    simulation.close()


def test_materials_fit_into_the_renderer():
    """MuJoCo's renderer has room for 1,000 materials."""
    scenario = Sampler(make_task(31, 6), seed=0).sample()
    look = MujocoEngine(33, Options(top_camera=True))._look
    assert len(build_maze(scenario, look).materials) < 1000


def test_longer_episodes():
    simulation = Simulation("9x9", engine="mujoco", seconds=3)
    assert simulation.episode_steps == 12
    assert Simulation("9x9", engine="mujoco", seconds=10_000).episode_steps == 40_000
    assert Simulation("15x15", engine="mujoco", control_freq=40).episode_steps == 40_000


@pytest.mark.slow
@pytest.mark.newest
def test_a_thousand_resets_do_not_grow():
    simulation = Simulation("9x9", engine="mujoco", seed=0)
    for _ in range(30):
        simulation.reset()
    before = psutil.Process().memory_info().rss
    for _ in range(1000):
        simulation.reset()
    grown = (psutil.Process().memory_info().rss - before) / 2**20
    simulation.close()
    assert grown < 50, grown


def fill(text, draws):
    """A complete scenario from a map."""
    scenario = Scenario.from_text(text.replace("#   >   #", "#  >    #"))
    return dataclasses.replace(scenario.fill(np.random.RandomState(0), 1), draws=draws)
