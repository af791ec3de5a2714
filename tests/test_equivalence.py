"""Both engines on the same scenarios and actions, in little: `memory-maze compare-engines` does it all."""

import json

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from memory_maze.adapters.simulation import Simulation
from memory_maze.compare import pictures, replay
from memory_maze.compare import report as comparison
from memory_maze.compare.record import Job, record_all
from memory_maze.compare.report import Effort

SMALL = Effort(
    random_runs=32,
    forward_runs=32,
    near_runs=32,
    floating_runs=0,
    steps=100,
    episodes=32,
    episode_steps=100,
    pictures=24,
    view_pictures=4,
    views=("Top",),
)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return folder, comparison.write_report(folder, ("9x9",), SMALL, seed=500)


@pytest.fixture(scope="module")
def figures(report):
    return report[1]["figures"]["9x9"]


@pytest.mark.exact
def test_everything_is_within_its_limits(report):
    failed = [check for check in report[1]["checks"] if not all(check["passed"].values())]
    assert not failed
    assert report[1]["passed"]


@pytest.mark.exact
def test_one_action_from_the_same_state(figures):
    """Much closer than the limits, so that a tenth more friction is noticed."""
    assert figures["free_actions"] > 1000
    assert figures["wall_actions"] > 1000
    assert figures["free_metres"] < 4e-4
    assert figures["free_radians"] < 1e-4
    assert figures["free_median_metres"] < 1e-5
    assert figures["wall_median_metres"] < 1e-5


def test_pictures(figures):
    """Closer than the limits too: a shift of the textures by one texel is noticed."""
    assert figures["pictures"] == 24
    assert figures["psnr_mean"] > 45
    assert figures["psnr_mean_Top"] > 43


@pytest.mark.exact
def test_touches_and_rewards(figures):
    assert figures["touches"] > 1000
    assert figures["rewards"] > 300


@pytest.mark.exact
def test_walks_have_the_same_length(figures):
    for policy in ("random", "forward", "pilot"):
        assert abs(figures[f"path_{policy}"] - 1) < 0.01 + 3 * figures[f"path_{policy}_error"], policy


@pytest.mark.exact
def test_a_pilot_finds_as_much(figures):
    found = figures["statistics_pilot"]["return"]
    assert found["mujoco"] > 1
    assert found["jax"] == pytest.approx(found["mujoco"], abs=0.2)


def test_the_report_has_figures_and_pictures(report):
    folder, result = report
    assert json.loads((folder / "figures.json").read_text())["figures"] == result["figures"]
    names = {path.name for path in folder.glob("*.png")}
    assert names == {"engines.png", "pictures-9x9.png", "views-9x9.png", "walks-9x9.png"}
    for table in (comparison.check_table(result), comparison.statistics_table(result)):
        assert table.row_count > 5


def test_a_figure_beyond_its_limit_fails():
    figures = {"9x9": {"psnr_mean": 41.9, "free_metres": 9e-4}}
    checks = {check["what"]: check["passed"] for check in comparison.judge(figures, comparison.FULL)}
    assert checks == {
        "pictures 64x64: mean PSNR, dB": {"9x9": False},
        "one action, free: RMS, m": {"9x9": True},
    }


def test_psnr():
    black, white = np.zeros((1, 2, 2, 3), np.uint8), np.full((1, 2, 2, 3), 255, np.uint8)
    np.testing.assert_allclose(replay.psnr(black, white), 0)
    np.testing.assert_allclose(replay.psnr(black, black + np.uint8(1)), 20 * np.log10(255))
    assert replay.psnr(black, black) == 99
    assert pictures.triple(black[0], white[0], "")[2][1].min() == 255


def test_workers_say_why_they_fail():
    with pytest.raises(RuntimeError, match="failed: ValueError: size must be odd, from 7 to 31: got 8"):
        list(record_all([Job("8x8", "random", 0, 0, 1, 1)]))


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
        assert replay.psnr(one["image"], two["image"]) > 36
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
    with pytest.raises(ValueError, match="choose from mujoco, jax"):
        Simulation(engine="unity")
