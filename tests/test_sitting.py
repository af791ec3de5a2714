"""Playing, without a window: what keys do, when steps are made, what is recorded."""

import time

import numpy as np
import pytest

from memory_maze.options import ACTION_NAMES, Options
from memory_maze.paper import SCORES
from memory_maze.play.game import Game
from memory_maze.play.recordings import read_recordings
from memory_maze.play.session import Settings, Sitting, Stage
from memory_maze.scenario import layout_of
from memory_maze.tasks import TASKS, make_task
from memory_maze.variants import parse_options
from memory_maze.world import cell_to_world, to_cells

SHORT = make_task(7, 3, seconds=3)  # 12 steps


@pytest.fixture
def sit(tmp_path):
    """Makes sittings with small pictures; their mazes are loaded, but have not begun."""
    made = []

    def make(task=SHORT, **settings):
        said = []
        sitting = Sitting(Settings(task, "Ann", out=tmp_path, resolution=64, **settings), said.append)
        made.append(sitting)
        sitting.said = said
        until_loaded(sitting)
        return sitting

    yield make
    for sitting in made:
        sitting.finish()


def until_loaded(sitting, now=0.0):
    while sitting.game is None:
        sitting.tick(now)
        time.sleep(0.01)


def until_saved(sitting, now=1e6):
    while sitting.saving:
        sitting.tick(now)
        time.sleep(0.01)


def play_to_the_end(sitting, now=0.0):
    while sitting.stage is Stage.PLAYING:
        now += sitting.wait(now)
        sitting.tick(now)
    until_saved(sitting)
    return now


def test_steps_keep_the_pace(sit):
    sitting = sit(make_task(7, 3, seconds=20), pace=5)
    sitting.press("space", 100.0)
    steps = lambda now: (sitting.tick(now), sitting.game.steps)[1]  # noqa: E731
    assert steps(100.19) == 0
    assert steps(100.201) == 1
    assert steps(100.39) == 1, "the next one is not before its time"
    assert steps(100.55) == 2, "late by 0.15"
    assert steps(100.59) == 2, "which makes the next one neither early"
    assert steps(100.601) == 3, "nor late"
    assert sitting.wait(100.7) == pytest.approx(0.1)
    assert steps(109.0) == 4, "after a long wait one step, not forty"
    assert steps(109.19) == 4
    assert steps(109.201) == 5
    for now in np.arange(109.21, 117.35, 0.07):
        sitting.tick(now)
    assert sitting.game.steps == 5 + 40, "109.4, 109.6 ... 117.2: no drift"


def test_a_game_adds_up_what_it_is_paid(sit, monkeypatch):
    game = sit().game
    for paid in (-1.0, 1.0, -1.0, -0.5):
        monkeypatch.setattr(game._simulation, "step", lambda action, paid=paid: (game.image, paid, False))
        game.step(0)
    assert game.score == -1.5
    assert game.recording().rewards.tolist() == [[-1, 1, -1, -0.5]]


def test_keys_are_actions_and_taps_count(sit):
    sitting = sit(pace=1)
    sitting.press("space", 0.0)
    presses = iter(range(1, 13))

    def make_step():
        sitting.tick(next(presses) + 0.001)
        return ACTION_NAMES[sitting.game.actions[-1]]

    assert make_step() == "noop"
    sitting.press("left", 1.5)
    sitting.release("left")
    assert make_step() == "left", "though it was released before the step"
    assert make_step() == "noop"
    sitting.press("w", 3.5)
    sitting.press("d", 3.6)
    assert [make_step(), make_step()] == ["forward_right", "forward_right"]
    sitting.release("d")
    sitting.press("a", 5.5)
    assert make_step() == "forward_left"
    sitting.press("right", 6.5)
    assert make_step() == "forward", "left and right are neither"
    for key in ("w", "a", "right"):
        sitting.release(key)
    assert make_step() == "noop"


def test_a_pause_stops_the_clock(sit):
    sitting = sit(pace=2)
    sitting.press("space", 0.0)
    sitting.tick(0.51)
    sitting.press("p", 0.8)
    left = sitting.seconds_left
    sitting.tick(50.0)
    assert (sitting.stage, sitting.game.steps, sitting.seconds_left) == (Stage.PAUSED, 1, left)
    sitting.press("space", 60.0)
    assert sitting.wait(60.0) == pytest.approx(0.2), "what was left of the step"
    sitting.tick(60.21)
    assert sitting.game.steps == 2


def test_speed_changes_the_time_left_and_is_recorded(sit):
    sitting = sit(pace=6)
    sitting.press("space", 0.0)
    assert sitting.seconds_left == 2
    sitting.press("+", 0.0)
    assert (sitting.pace, sitting.seconds_left) == (8, 1.5)
    for _ in range(20):
        sitting.press("-", 0.0)
    assert (sitting.pace, sitting.seconds_left) == (1, 12)
    now = 0.5
    while sitting.game.steps < 6:
        now += 1
        sitting.tick(now)
    for _ in range(3):
        sitting.press("+", now)
    play_to_the_end(sitting, now)
    assert sitting.played[0].pace == pytest.approx(12 / (6 + 6 / 4)), "six steps at 1 and six at 4 a second"


def test_leaving_an_episode_asks_first_and_records_nothing(sit, tmp_path):
    sitting = sit(seed=7, pace=1)
    sitting.press("space", 0.0)
    sitting.tick(1.1)
    sitting.press("r", 1.2)
    assert (sitting.stage, sitting.question, sitting.game.seed) == (Stage.PAUSED, "restart", 7)
    sitting.press("space", 1.3)
    assert (sitting.stage, sitting.question) == (Stage.PLAYING, None)
    sitting.press("r", 1.4)
    sitting.press("r", 1.5)
    until_loaded(sitting, 9.0)
    assert (sitting.stage, sitting.game.seed, sitting.game.steps) == (Stage.PLAYING, 8, 0)
    sitting.press("escape", 9.1)
    assert sitting.question == "quit"
    sitting.press("escape", 9.2)
    assert sitting.stage is Stage.ENDED
    assert sitting.said == ["the episode was not finished and is not recorded"] * 2
    assert not any(tmp_path.rglob("*.*"))


def test_the_map_makes_it_practice(sit, tmp_path):
    sitting = sit(seed=1)
    sitting.press("space", 0.0)
    now = play_to_the_end(sitting)
    sitting.press("space", now)
    until_loaded(sitting, now)
    for key in "mm":  # shown for a moment
        sitting.press(key, now)
    play_to_the_end(sitting, now)
    sitting.press("m", now)
    sitting.press("space", now)
    until_loaded(sitting, now)
    play_to_the_end(sitting, now)
    practice = {played.seed: played.practice for played in read_recordings(tmp_path)}
    assert practice == {1: False, 2: True, 3: True}
    assert "as practice" in sitting.said[1]


def test_it_ends_after_the_episodes_that_were_asked_for(sit):
    sitting = sit(episodes=1, practice=True)
    sitting.press("space", 0.0)
    play_to_the_end(sitting)
    assert sitting.played[0].practice
    sitting.press("space", 99.0)
    assert sitting.stage is Stage.ENDED


def test_an_episode_that_cannot_be_saved_can_be_saved_again(sit, tmp_path):
    sitting = sit()
    blocked = tmp_path / "episodes"
    blocked.write_text("not a folder")
    sitting.press("space", 0.0)
    play_to_the_end(sitting)
    assert sitting.stage is Stage.OVER
    assert "episodes" in sitting.failure
    blocked.unlink()
    sitting.press("space", 99.0)
    until_saved(sitting)
    assert sitting.failure is None
    assert len(read_recordings(tmp_path)) == 1


def test_scores_of_the_paper_are_for_whole_published_tasks(sit):
    assert sit(TASKS["9x9"]).rivals == {name: SCORES[name]["9x9"].mean for name in ("Human", "Oracle")}
    assert sit(make_task(9, 3, seconds=20)).rivals == {}


def test_large_pictures_have_the_minimap_of_the_agents_as_large_a_part():
    oracle, actions = parse_options("Oracle"), [1] * 4 + [5] * 2
    small, large = (Game(SHORT, 314, resolution=r, options=oracle, actions=actions) for r in (64, 256))
    picture, side = large.picture(256), 2 * SHORT.size
    assert np.array_equal(large.picture(64), small.image)
    assert np.array_equal(small.picture(256), picture)
    without = [Game(SHORT, 314, resolution=r, actions=actions).image for r in (64, 256)]
    maps = [
        image[:corner, -corner:].astype(int) - below[:corner, -corner:] // 2
        for image, below, corner in zip((small.image, picture), without, (side, 4 * side), strict=True)
    ]
    assert np.array_equal(maps[1], maps[0].repeat(4, axis=0).repeat(4, axis=1))
    assert (maps[0] == (0, 127, 0)).all(axis=-1).any(), "the path is green"


@pytest.mark.parametrize(
    "wrong", [{"pace": 0}, {"pace": 1000}, {"seed": -1}, {"episodes": 0}, {"player": " "}]
)
def test_wrong_settings_are_named(wrong):
    with pytest.raises(ValueError, match="name" if "player" in wrong else next(iter(wrong))):
        Settings(**{"task": SHORT, "player": "Ann"} | wrong)


def test_maps_show_the_maze_without_the_path_of_a_variant():
    """Where everything is, at the start and after some steps."""
    options = Options(global_observables=True, show_path=True)
    game = Game(SHORT, 3, resolution=64, options=options, actions=[1, 4, 1])
    seen, pose = game.observe(), game._simulation.engine.pose
    np.testing.assert_array_equal(seen["maze_layout"], layout_of(game.scenario))
    np.testing.assert_allclose(seen["agent_pos"], to_cells(pose[:2], 7), atol=1e-5)
    np.testing.assert_allclose(seen["agent_dir"], [np.cos(-pose[3]), np.sin(-pose[3])], atol=1e-6)
    objects = [cell_to_world(cell, game.scenario.grid) for cell in game.scenario.objects]
    np.testing.assert_allclose(seen["targets_pos"], to_cells(np.array(objects), 7))
    assert all(array.dtype == float for name, array in seen.items() if name != "maze_layout")
