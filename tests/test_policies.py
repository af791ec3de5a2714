"""The policies that need no training, in the real physics of both engines."""

import dataclasses
import heapq
import json
import math
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from memory_maze import TASKS, Scenario, data, make_task
from memory_maze.agents.load import load_policy
from memory_maze.cli import main
from memory_maze.data import DataError
from memory_maze.data.collection import make_manifest, make_missing
from memory_maze.data.scenes import from_recording
from memory_maze.engine import rules
from memory_maze.engine.env import begin_scenario
from memory_maze.episodes import rollout
from memory_maze.episodes.evaluate import bootstrap, draw_scenarios, evaluate, summarize
from memory_maze.episodes.rollout import play
from memory_maze.policies import explorer, geodesic
from memory_maze.policies.forgetful import Forgetful
from memory_maze.policies.oracle import Oracle
from memory_maze.reference.observation import shortest_path
from memory_maze.sampler import Sampler
from memory_maze.scenario import layout_of
from memory_maze.watch.episode import write_episode
from memory_maze.world import to_cells

BENT = """
#########
#>  #  b#
#   #   #
# # # ###
#   #   #
#  r    #
#   #   #
#g  #   #
#########
"""


@pytest.fixture(scope="module")
def bent():
    rng = np.random.RandomState(0)
    return begin_scenario(Scenario.from_text(BENT).fill(rng, 100))


def dijkstra(clear, start):
    """Metres from a point by the same sixteen steps."""
    steps = [(sign * down, sign * right) for down, right in geodesic.STEPS for sign in (1, -1)]
    best, queue = {start: 0.0}, [(0.0, start)]
    while queue:
        length, (row, column) = heapq.heappop(queue)
        if length > best[row, column]:
            continue
        for down, right in steps:
            place = row + down, column + right
            longer = length + math.hypot(down, right) * geodesic.SPACING
            inside = 0 <= place[0] < len(clear) and 0 <= place[1] < len(clear)
            if inside and clear[place] and longer < best.get(place, math.inf) - 1e-9:
                best[place] = longer
                heapq.heappush(queue, (longer, place))
    return best


def test_distances_are_those_of_dijkstra(bent):
    clearance = geodesic.find_clearance(bent.maze.walls)
    goal = (np.array([10, 12]) + 0.5) * geodesic.SPACING - 7  # a point of the lattice
    distances = np.array(geodesic.find_distances(clearance, jnp.asarray(goal, jnp.float32), 0.0))
    clear = np.array(clearance > geodesic.CLEARANCE)
    expected = dijkstra(clear, (12, 10))
    assert len(expected) == clear.sum()
    # Near the goal distances are straight, which is less than by steps.
    for (row, column), length in expected.items():
        assert 0.92 * length - 1e-3 <= distances[row, column] <= length + 1e-3


def test_clearance_is_the_distance_to_walls(bent):
    clearance = np.array(geodesic.find_clearance(bent.maze.walls))
    walls = [
        (row, column)
        for row in range(-1, 8)
        for column in range(-1, 8)
        if is_wall(bent.maze.walls, row, column)
    ]
    rng = np.random.RandomState(1)
    for row, column in rng.randint(0, len(clearance), (200, 2)):
        y, x = (row + 0.5) * geodesic.SPACING, (column + 0.5) * geodesic.SPACING
        nearest = min(
            math.hypot(max(2 * r - y, y - 2 * r - 2, 0), max(2 * c - x, x - 2 * c - 2, 0)) for r, c in walls
        )
        assert clearance[row, column] == pytest.approx(min(nearest, 2), abs=1e-5)


def is_wall(walls, row, column):
    size = len(walls)
    outside = not (0 <= row < size and 0 <= column < size)
    return outside or bool(int(walls[row]) >> column & 1)


def test_the_way_leads_to_where_objects_are_touched(bent):
    goals = Oracle().start(bent).goals
    for index, (x, y) in enumerate(np.array(bent.maze.objects)):
        for shift in (-0.5, 0.0, 0.5):
            assert float(geodesic.look_up(goals.distances[index], x + shift, y)) == 0
        assert float(goals.distances[index].max()) > 5


def test_the_oracle_is_near_the_papers_and_the_same_on_both_engines():
    """Five episodes: the committed results have two hundred."""
    scores = {}
    for engine in ("jax", "mujoco"):
        report = evaluate(load_policy("oracle"), TASKS["9x9"], 5, engine=engine, seed=3)
        assert report["episodes"] == 5
        assert report["mean"] > 28
        scores[engine] = np.array(report["scores"])
    assert np.abs(scores["jax"] - scores["mujoco"]).mean() < 2


def test_the_explorer_counts_the_cells_of_shortest_ways(bent):
    walls = bent.maze.walls
    steps = np.array(explorer.count_steps(walls))
    layout = np.array([[not is_wall(walls, row, column) for column in range(7)] for row in range(7)], int)
    for goal in range(49):
        for row, column in np.argwhere(layout):
            path = shortest_path(layout, (column, row), (goal % 7, goal // 7))
            assert steps[goal, row, column] == (len(path) - 1 if path else explorer.UNREACHED)
    assert (steps[:, layout == 0] == explorer.UNREACHED).all()


@pytest.mark.parametrize("engine", ["jax", "mujoco"])
def test_the_explorer_visits_the_whole_maze_and_cares_for_no_reward(engine):
    count = 16 if engine == "jax" else 3
    scenarios = [Sampler(TASKS["9x9"], seed).sample() for seed in range(count)]
    recording = play(load_policy("explorer"), scenarios, 1000, engine=engine, seed=2)
    cells = np.floor(to_cells(recording.poses[..., :2], 9)).astype(int)
    shares = []
    for scenario, track in zip(scenarios, cells, strict=True):
        visited = {(x, y) for x, y in track.tolist()}
        shares.append(len(visited) / layout_of(scenario).sum())
        assert sum(layout_of(scenario)[y, x] for x, y in visited) == len(visited)
    assert np.mean(shares) > 0.8
    assert 0.3 < recording.rewards.sum(axis=1).mean() < 4
    assert len(np.unique(recording.actions)) == 6


@pytest.mark.slow
def test_the_random_policy_finds_little_and_differs_by_seed():
    policy = load_policy("random")
    reports = [evaluate(policy, TASKS["9x9"], 4, seed=seed) for seed in (1, 1, 50)]
    assert reports[0]["scores"] == reports[1]["scores"]
    assert all(report["mean"] < 2 for report in reports)


def test_figures_of_rewards():
    rewards = np.zeros((4, 250))
    rewards[0, 10], rewards[1, 110], rewards[1, 249] = 1, 1, 1
    report = summarize(rewards, TASKS["9x9"])
    assert report["mean"] == 0.75
    assert report["std_error"] == pytest.approx(np.std([1, 2, 0, 0], ddof=1) / 2)
    assert report["rewards_per_100_steps"] == [0.25, 0.25]
    assert report["share_of_paper"]["oracle"] == pytest.approx(0.75 / 34.8)
    low, high = bootstrap(np.arange(100.0))
    assert 40 < low < 49.5 < high < 59
    assert bootstrap(np.arange(5.0)) is not None
    assert report["interval_95"] is None
    for count in (1, 4):
        assert bootstrap(np.arange(float(count))) is None, "too few to tell"


def test_an_episode_is_the_same_in_any_company():
    """To the last bit: rounding would soon part them by metres."""
    task, count = make_task(9, 3, seconds=25), 40
    scenarios = draw_scenarios(task, count, 0, held_out=False)
    together = play(load_policy("explorer"), scenarios, task.episode_steps())
    for some in ([0, 1, 2], [39], [7, 8, 9, 10, 11], [20, 3, 31]):
        alone = play(
            load_policy("explorer"), [scenarios[i] for i in some], task.episode_steps(), episodes=some
        )
        for one, two in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one, two[some])


def test_few_episodes_are_the_first_of_many():
    played = []
    watch = lambda scenarios, recording: played.append(recording)  # noqa: E731
    task = make_task(9, 3, seconds=25)
    few, many = (evaluate(load_policy("explorer"), task, count, watch=watch) for count in (3, 40))
    assert few["scores"] == many["scores"][:3]
    np.testing.assert_array_equal(played[0].poses, played[1].poses[:3])


def test_shards_of_any_size_give_the_same_data_set(tmp_path):
    sets = []
    for shard in (1, 3, 9):
        manifest = make_manifest(make_task(9, 3), 9, steps=100, evaluation=3, shard=shard)
        make_missing(tmp_path / str(shard), manifest)
        sets.append(data.load(tmp_path / str(shard)).scenes)
    for other in sets[1:]:
        for name, array in vars(sets[0]).items():
            np.testing.assert_array_equal(array, getattr(other, name), name)


@pytest.fixture
def fined(monkeypatch):
    """The rules of both engines, but an action during which a wrong object is touched costs one."""
    from memory_maze.reference.engine import MujocoEngine

    collect, collect_there = rules.collect, MujocoEngine._collect

    def fine(state, touched):
        wrong = (touched & (jnp.arange(len(touched)) != state.target)).any()
        state, reward = collect(state, touched)
        return state, reward - wrong

    def fine_there(engine):
        wrong = bool(engine._touched - {engine.target})
        return collect_there(engine) - wrong

    monkeypatch.setattr(rules, "collect", fine)
    monkeypatch.setattr(MujocoEngine, "_collect", fine_there)


@pytest.mark.parametrize("engine", ["jax", "mujoco"])
def test_rules_may_fine(engine, fined, monkeypatch, tmp_path):
    """What the episodes are worth is told as it is; data sets, which keep rewards in a byte, refuse it."""
    ahead = Scenario.from_text(BENT.replace("#>  #  b#", "#> r#  b#").replace("#  r    #", "#       #"))
    ahead = ahead.fill(np.random.RandomState(0), 100)
    scenarios = [dataclasses.replace(ahead, draws=(1, 2) * 50)] * 2
    monkeypatch.setattr("memory_maze.episodes.evaluate.draw_scenarios", lambda *_: scenarios)
    played = []
    task = make_task(7, 3, seconds=5)
    watch = lambda scenarios, recording: played.append(recording)  # noqa: E731
    report = evaluate(Stubborn(), task, 2, engine=engine, watch=watch)
    assert -20 < report["mean"] < -2
    assert report["scores"] == [report["mean"]] * 2
    with pytest.raises(DataError, match="invalid reward -1"):
        from_recording(scenarios, [0, 0], played[0])
    if engine == "jax":
        write_episode(tmp_path / "film.mp4", scenarios[0], played[0], engine, "stubborn")


class Stubborn:
    """A policy as a user writes it."""

    def start(self, state):
        return jnp.int32(0)

    def act(self, memory, state, key):
        return jnp.int32(1), memory + 1


def test_the_command_writes_the_figures(tmp_path, capsys):
    path = tmp_path / "score.json"
    main(["evaluate", f"{__name__}:Stubborn", "--episodes", "2", "--json", str(path)])
    report = json.loads(path.read_text())
    assert report["episodes"] == 2
    assert {"mean", "std_error", "policy", "task", "engine", "seed", "date"} <= report.keys()
    assert report["interval_95"] is None
    assert "95 %" not in capsys.readouterr().out, "of two episodes"


def test_policies_of_the_present_folder_are_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "my_own_policy.py").write_text(
        "class Still:\n"
        "    def start(self, state): return ()\n"
        "    def act(self, memory, state, key): return 0, memory\n"
    )
    assert load_policy("my_own_policy:Still").act((), None, None) == (0, ())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["clever"], "choose from oracle, explorer, random"),
        (["no_module_of_this_name:policy"], "no_module_of_this_name"),
        (["math:pi"], "start"),
        (["random", "--episodes", "0"], "positive"),
        (["random", "--task", "8x8"], "size must be odd"),
        (["random", "--task", "large"], "large"),
    ],
)
def test_wrong_requests_are_one_line(arguments, message, capsys):
    with pytest.raises(SystemExit):
        main(["evaluate", *arguments])
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1


class Counter:
    """Its actions tell how many steps it remembers."""

    def start(self, state):
        return jnp.int32(0)

    def act(self, memory, state, key):
        return memory % 6, memory + 1


@pytest.fixture
def scenarios(monkeypatch):
    """Of two episodes, that are played by four or five steps at a time."""
    monkeypatch.setattr(rollout, "CHUNK", 5)
    return [Sampler(TASKS["9x9"], seed).sample() for seed in range(2)]


def test_an_episode_may_end_within_what_a_program_plays(scenarios):
    told = []
    whole = play(Counter(), scenarios, 8)
    short = play(Counter(), scenarios, 7, advance=told.append)
    assert sum(told) == 7 * 2
    for some, more, length in zip(short, whole, (7, 7, 8, 8), strict=True):
        np.testing.assert_array_equal(some, more[:, :length])


@pytest.mark.parametrize("engine", ["jax", "mujoco"])
def test_memories_are_emptied_every_so_many_steps(engine, scenarios):
    assert play(Counter(), scenarios, 8, engine=engine).actions[1].tolist() == [0, 1, 2, 3, 4, 5, 0, 1]
    forgetful = Forgetful(Counter(), 3)
    assert play(forgetful, scenarios, 8, engine=engine).actions[1].tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    with pytest.raises(ValueError, match="at least 1"):
        Forgetful(Counter(), 0)
