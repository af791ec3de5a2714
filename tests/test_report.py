"""Reports of trained agents: the paper's scores and ours, as tables and figures."""

import json
import re
import shutil
import subprocess
import sys

import imageio.v2 as imageio
import numpy as np
import pytest

from memory_maze.cli import main
from memory_maze.report import figures
from memory_maze.report import online_tables as tables
from memory_maze.report.engines import compare
from memory_maze.report.online import group, make_rows
from memory_maze.results import find
from memory_maze.system.extras import install_command
from memory_maze.tasks import TASKS

# Table "Online RL benchmark results" of the paper.
PAPER = """
Oracle                       34.8        58.0        74.5        87.7
Human                        26.4 ± 1.6  44.3 ± 2.5  55.5 ± 3.5  67.7 ± 4.0
IMPALA                       23.4 ± 0.4  28.2 ± 0.3  27.5 ± 0.6  17.7 ± 1.4
Dreamer                      28.2 ± 0.8  20.4 ± 1.9  11.6 ± 0.7  4.1 ± 1.2
Dreamer (TBTT)               33.2 ± 0.1  31.4 ± 3.1  21.4 ± 3.0  5.6 ± 1.9
Dreamer (TBTT + Probe loss)  33.9 ± 0.4  44.5 ± 1.2  37.3 ± 1.1  14.7 ± 1.9
"""
MILLION = 1_000_000


def make_result(task="9x9", seed=0, mean=20.0, steps=100 * MILLION, mujoco=None, **changes):
    """A result as a run writes it."""
    weights = f"{task} {seed} {mean} {steps} {changes}"
    bins = TASKS[task].episode_steps() // 100

    def report(engine, mean):
        spread = np.linspace(0.5, 1.5, bins) * mean / bins
        return {
            "task": task,
            "engine": engine,
            "mean": mean,
            "std_error": 0.7,
            "episodes": 100,
            "held_out": True,
            "layouts": 99,
            "rewards_per_100_steps": spread.tolist(),
            "scores": [mean] * 100,
            "weights": weights,
            "date": "2026-11-16T00:00:00+00:00",
        }

    curve = [
        {
            "steps": i * steps // 20,
            "seconds": 60.0 * i,
            "return": mean * i / 20 if i else None,
            "loss_entropy": 1.0,
        }
        for i in range(21)
    ]
    evaluations = [report("jax", mean)] + ([report("mujoco", mujoco)] if mujoco is not None else [])
    return {
        "format": 1,
        "kind": "online",
        "agent": "impala",
        "title": "IMPALA",
        "preset": "fast",
        "changes": {},
        "ablation": None,
        "loss_version": 2,
        "task": task,
        "seed": seed,
        "command": "memory-maze train impala --out run",
        "date": "2026-11-15T00:00:00+00:00",
        "commit": "0123456789abcdef",
        "hardware": {"devices": "1 cpu"},
        "versions": {"jax": "0.10.2"},
        "training": {
            "steps": steps,
            "steps_planned": 100 * MILLION,
            "seconds": 7200.0,
            "compile_seconds": 30.0,
            "steps_per_second": 14000.0,
        },
        "curve": curve,
        "weights": weights,
        "evaluations": evaluations,
        "config": {"agent": {"time_limit": "bootstrap"}},
    } | changes


def save(folder, *results):
    folder.mkdir(parents=True, exist_ok=True)
    for number, result in enumerate(results):
        (folder / f"{number}.json").write_text(json.dumps(result))
    return folder


@pytest.fixture
def results(tmp_path):
    return save(
        tmp_path / "online",
        make_result(seed=0, mean=20.0, mujoco=19.5),
        make_result(seed=1, mean=24.0),
        make_result("15x15", mean=12.0),
        make_result(mean=3.0, ablation="no memory", changes={"core": "none"}),
        make_result(mean=2.0, steps=12_345_678, changes={"learning_rate": 0.1}),
        make_result("11x11", preset="small", evaluations=[]),
    )


def find_results(paths):
    found = find.find_results(paths, "online")
    assert not found.left_out
    return found.results


def read_table(text):
    """The cells of a Markdown table, by name and origin."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return {(name, source): cells for name, source, *cells in rows[2:]}


def test_the_table_has_the_papers_scores_and_ours(results):
    groups = group(find_results([results]))
    table = read_table(tables.make_markdown(make_rows(groups), list(TASKS)))
    for line in PAPER.strip().splitlines():
        name, *cells = re.split(r"  +", line)
        spread = {"Oracle": "-", "Human": "se, n=10"}.get(name, "sd, n=5")
        marked = f"{name} †" if "Probe loss" in name else name
        assert table.pop((marked, "paper")) == [spread, *cells]
    both = "sd, n=2; se, n=100"
    assert table == {
        ("IMPALA, preset fast, 100M steps", "JAX"): [both, "22.0 ± 2.8 (n=2)", "-", "-", "12.0 ± 0.7"],
        ("IMPALA, preset fast, 100M steps", "MuJoCo"): ["se, n=100", "19.5 ± 0.7", "-", "-", "-"],
        ("IMPALA, preset small, 100M steps", "-"): ["-", "-", "-", "-", "-"],
        ("IMPALA, preset fast, no memory, 100M steps", "JAX"): ["se, n=100", "3.0 ± 0.7", "-", "-", "-"],
        (
            "IMPALA, preset fast, learning_rate=0.1, unfinished: 12.3M of 100M steps",
            "JAX",
        ): ["se, n=100", "2.0 ± 0.7", "-", "-", "-"],
    }


def make_timed(seed, steps, mean=2.0, minutes=15.0, seconds=900.4, **changes):
    """A run that `--minutes` ended."""
    result = make_result(seed=seed, mean=mean, preset="small", steps=steps)
    result["config"] |= {"minutes": minutes}
    result["training"] |= {"steps_planned": 1000 * MILLION, "seconds": seconds} | changes
    return result


def test_runs_for_some_minutes_are_named_by_what_they_did():
    (one,) = group([make_timed(0, 497_600, 2.0), make_timed(1, 513_600, 4.0), make_timed(2, 502_400, 3.0)])
    assert one.name == "IMPALA, preset small, 15 min, 500k-510k steps"
    assert str(one.score("9x9", "jax")) == "3.0 ± 1.0"
    assert "| 497.6k |" in tables.make_run_table([one])
    (resumed,) = group([make_timed(0, 497_600, minutes=4.0)])
    assert resumed.name == "IMPALA, preset small, 15 min, 500k steps", "the last call had what was left"


@pytest.mark.parametrize("changes", [{"seconds": 600.0}, {"seconds": None}, {"steps_planned": MILLION}])
def test_runs_that_were_to_go_on_are_unfinished(changes):
    (one,) = group([make_timed(0, 500_000, **changes)])
    assert "unfinished: 500k of 1" in one.name


def test_the_command_prints_the_table_and_writes_the_report(results, tmp_path, capsys):
    out = tmp_path / "report"
    main(["report", "online", str(results), "--out", str(out)])
    printed = capsys.readouterr().out
    assert "33.9 ± 0.4" in printed
    assert "22.0 ± 2.8" in printed
    pictures = ["online-curves.png", "online-minutes.png", "online-episode.png"]
    assert {path.name for path in out.iterdir()} == {*pictures, "online.md", "online.json"}
    page = (out / "online.md").read_text()
    assert "| Oracle | paper | - | 34.8 | 58.0 | 74.5 | 87.7 |" in page
    assert "| 9x9 | 1 | 100M | 2.0 h | 14,000 | 100 | 99 | 1 cpu | 2026-11-15 | 01234567 |" in page
    assert "standard deviation" in page
    assert re.findall(r"\]\((.*?)\)", page) == pictures
    scores = json.loads((out / "online.json").read_text())
    cell = next(row for row in scores["rows"] if row["engine"] == "JAX")["scores"]["9x9"]
    assert (cell["mean"], cell["runs"], cell["episodes"], cell["error_over"]) == (22.0, 2, 200, "runs")
    assert cell["error"] == pytest.approx(np.std([20, 24], ddof=1))
    assert cell["share_of_oracle"] == pytest.approx(22 / 34.8)
    assert len(scores["runs"]) == 6
    assert str(tmp_path) not in page + (out / "online.json").read_text()
    for name in pictures:
        image = imageio.imread(out / name)
        assert min(image.shape[:2]) > 400
        assert image[..., :3].std() > 10


def test_engines_are_compared_in_the_mazes_that_both_were_played_in(tmp_path):
    rng = np.random.default_rng(0)
    difficulty = rng.normal(20, 5, size=100)
    result = make_result(mujoco=0.0)
    jax, mujoco = result["evaluations"]
    jax["scores"] = (difficulty + 100 * (np.arange(100) >= 50)).tolist()
    mujoco |= {"episodes": 50, "scores": (1.02 * difficulty[:50] + rng.normal(0, 0.5, 50)).tolist()}
    found = compare(result)
    assert found.episodes == 50
    assert found.change == pytest.approx(0.02, abs=0.01)
    low, high = found.interval_95
    assert low < found.change < high
    assert high - low < 0.03, "the same mazes differ less than their scores"
    main(["report", "online", str(save(tmp_path / "online", result)), "--out", str(tmp_path / "report")])
    page = (tmp_path / "report" / "online.md").read_text()
    assert f"| 50 | {found.jax:.2f} | {found.mujoco:.2f} | {found.change:+.1%} (" in page
    scores = json.loads((tmp_path / "report" / "online.json").read_text())
    assert scores["runs"][0]["engines"]["episodes"] == 50


def test_scores_of_one_column_are_of_the_same_mazes(tmp_path):
    result = make_result(mujoco=0.0)
    jax, mujoco = result["evaluations"]
    jax["scores"] = [10.0, 20.0] * 25 + [90.0] * 50
    mujoco |= {"episodes": 50, "mean": 14.0}
    rows = make_rows(group(find_results([save(tmp_path, result)])))
    cells = [row.cells["9x9"] for row in rows if row.source == "ours"]
    assert [(cell.mean, cell.episodes) for cell in cells] == [(15, 50), (14, 50)]
    assert cells[0].error == pytest.approx(np.std(jax["scores"][:50], ddof=1) / np.sqrt(50))
    mujoco["seed"] = 7  # in other mazes, all that there are count
    rows = make_rows(group(find_results([save(tmp_path, result)])))
    assert [row.cells["9x9"].episodes for row in rows if row.source == "ours"] == [100, 50]


def test_few_layouts_are_no_test_of_unseen_mazes(tmp_path):
    result = make_result()
    result["evaluations"][0] |= {"layouts": 7}
    notes = tables.make_notes(group(find_results([save(tmp_path, result)])))
    assert "9x9: 100 episodes in 7 different layouts; this size has so few" in notes[-1]


@pytest.mark.parametrize("changes", [{"seed": 1}, {"engine": "jax"}])
def test_evaluations_in_other_mazes_are_not_compared(changes):
    result = make_result(mujoco=19.0)
    assert compare(result)
    result["evaluations"][1] |= changes
    assert compare(result) is None


def test_a_change_in_few_mazes_has_no_interval(tmp_path):
    result = make_result(mujoco=19.0)
    for count, told in ((4, False), (5, True)):
        result["evaluations"][1] |= {"episodes": count, "scores": [19.0] * count}
        assert (compare(result).interval_95 is not None) == told
        table = tables.make_engine_table(group(find_results([save(tmp_path / str(count), result)])))
        assert (" to " in table.splitlines()[2]) == told


def test_without_out_there_is_only_the_table(results, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(results, "results/online")
    before = sorted(tmp_path.rglob("*"))
    main(["report", "online"])
    assert "22.0 ± 2.8" in capsys.readouterr().out
    assert sorted(tmp_path.rglob("*")) == before


def lines_of(axes):
    return {line.get_label(): line.get_xydata() for line in axes.get_lines()}


def test_curves_are_means_of_runs_beside_the_papers_scores(results):
    figure = figures.draw_curves(group(find_results([results])))
    titles = {axes.get_title(loc="left"): axes for axes in figure.axes if axes.get_title(loc="left")}
    assert list(titles) == ["9x9", "11x11", "15x15"]
    lines = lines_of(titles["9x9"])
    ours = lines["IMPALA, preset fast, 100M steps"]
    assert ours[-1] == pytest.approx([100, 22])
    assert ours[len(ours) // 2, 1] == pytest.approx(22 * ours[len(ours) // 2, 0] / 100, abs=0.2)
    assert lines["IMPALA, the paper's at 100M steps"][0, 1] == 23.4
    assert lines["IMPALA, preset fast, no memory, 100M steps"][-1] == pytest.approx([100, 3])
    unfinished = lines["IMPALA, preset fast, learning_rate=0.1, unfinished: 12.3M of 100M steps"]
    assert unfinished[-1, 0] == pytest.approx(12.3, abs=0.1)
    (legend,) = figure.legends
    assert len(legend.get_texts()) == 6


POLICIES = {"oracle": {"9x9": [3.5] * 10, "15x15": [9.0]}, "random": {"9x9": [0.01] * 10}}


def test_curves_over_minutes_show_how_long_one_waits(results):
    figure = figures.draw_minutes(group(find_results([results])), POLICIES)
    titles = {axes.get_title(loc="left"): axes for axes in figure.axes if axes.get_title(loc="left")}
    lines = lines_of(titles["9x9"])
    ours = lines["IMPALA, preset fast, 100M steps"]
    assert ours[-1] == pytest.approx([20, 22])
    assert ours[len(ours) // 2, 1] == pytest.approx(22 * ours[len(ours) // 2, 0] / 20, abs=0.2)
    assert lines["oracle, which knows the map"][0, 1] == 35
    assert lines["random policy"][0, 1] == pytest.approx(0.1)
    assert lines["IMPALA, the paper's at 100M steps"][0, 1] == 23.4
    assert titles["9x9"].get_title(loc="right") == ""
    assert "random policy" not in lines_of(titles["15x15"]), "nobody measured it"


def test_scores_far_above_small_runs_are_named_and_not_drawn():
    (axes,) = figures.draw_minutes(group([make_timed(0, 500_000, mean=2.0)]), POLICIES).axes
    assert axes.get_ylim()[1] < 3
    assert set(lines_of(axes)) == {"IMPALA, preset small, 15 min, 500k steps", "random policy"}
    above = "above: oracle 35.0, paper's IMPALA 23.4, paper's Dreamer (TBTT) 33.2"
    assert axes.get_title(loc="right") == above


def test_runs_without_times_have_no_curve_over_minutes(tmp_path):
    old, new = make_result(), make_result(preset="small")
    for point in old["curve"]:
        point["seconds"] = None
    (axes,) = figures.draw_minutes(group([old, new]), {}).axes
    assert not any("preset fast" in name for name in lines_of(axes))
    assert figures.draw_minutes(group([old]), POLICIES) is None


@pytest.mark.parametrize("tasks", [("9x9",), ("9x9", "11x11")])
def test_long_names_are_not_cut_off(tasks):
    changes = {"entropy": 0.001, "trust": None, "momentum": 0.0, "learning_rate": 0.0001, "horizon": 1000}
    named = [make_result(task, changes=values) for task in tasks for values in ({}, changes)]
    figure = figures.draw_curves(group(named))
    figure.draw_without_rendering()
    (legend,) = figure.legends
    box, page = legend.get_window_extent(), figure.bbox
    assert page.x0 <= box.x0 < box.x1 <= page.x1
    assert page.y0 <= box.y0 < box.y1 < figure.axes[-1].get_window_extent().y0


def test_more_curves_than_colours_can_be_told_apart():
    named = [make_result("9x9", changes={"momentum": 0.1 * number}) for number in range(12)]
    (axes,) = (axes for axes in figures.draw_curves(group(named)).axes if axes.get_lines())
    looks = {(line.get_color(), line.get_linestyle()) for line in axes.get_lines()}
    assert len(looks) == len(axes.get_lines()) > 12


def test_rewards_over_the_episode_are_beside_the_oracles(results):
    oracle = {"9x9": [3.5] * 10}
    figure = figures.draw_episodes(group(find_results([results])), oracle)
    lines = lines_of(figure.axes[0])
    assert lines["oracle, which knows the map"][0].tolist() == [50, 3.5]
    ours = lines["IMPALA, preset fast, 100M steps, JAX"]
    np.testing.assert_allclose(ours[:, 1], np.linspace(1.1, 3.3, 10))
    np.testing.assert_allclose(ours[:, 0], np.arange(50, 1000, 100))
    assert len(lines["IMPALA, preset fast, 100M steps, MuJoCo"]) == 10
    assert figure.axes[1].get_title(loc="left") == "15x15"


def test_what_was_never_evaluated_has_no_figure_of_episodes(tmp_path):
    out = tmp_path / "report"
    save(tmp_path / "online", make_result(evaluations=[]))
    main(["report", "online", str(tmp_path / "online"), "--out", str(out)])
    written = {"online-curves.png", "online-minutes.png", "online.md", "online.json"}
    assert {path.name for path in out.iterdir()} == written
    assert "online-episode.png" not in (out / "online.md").read_text()


def test_a_run_and_a_copy_of_its_file_count_once(tmp_path):
    new = make_result()
    old = new | {"evaluations": []}
    run = tmp_path / "runs" / "a"
    save(tmp_path / "copies", new)
    run.mkdir(parents=True)
    (run / "result.json").write_text(json.dumps(old))
    for paths in ([tmp_path / "runs", tmp_path / "copies"], [tmp_path / "copies" / "0.json", run]):
        (result,) = find_results(paths)
        assert len(result["evaluations"]) == 1


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("missing", "missing"),
        ("empty", "empty: neither online runs nor their result files: they are written by memory-maze train"),
        ("damaged", "0.json: not a valid result of an online run"),
        ("other", "other: neither online runs nor their result files"),
        ("odd", "0.json: not a valid result of an online run: std_error is 'small'"),
        ("even", "0.json: not a valid result of an online run: size must be odd"),
    ],
)
def test_wrong_results_are_named_in_one_line(tmp_path, path, message, capsys):
    (tmp_path / "empty").mkdir()
    save(tmp_path / "damaged", make_result())
    text = (tmp_path / "damaged" / "0.json").read_text()
    (tmp_path / "damaged" / "0.json").write_text(text[:-20])
    save(tmp_path / "other", {"mean": 3})
    odd = make_result()
    odd["evaluations"][0]["std_error"] = "small"
    save(tmp_path / "odd", odd)
    save(tmp_path / "even", make_result() | {"task": "8x8"})
    with pytest.raises(SystemExit):
        main(["report", "online", str(tmp_path / path), "--out", str(tmp_path / "out")])
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_damaged_file_of_policies_is_named(results, tmp_path, capsys):
    (tmp_path / "policies.json").write_text("[1]")
    arguments = ["--out", str(tmp_path / "out"), "--policies", str(tmp_path / "policies.json")]
    with pytest.raises(SystemExit):
        main(["report", "online", str(results), *arguments])
    assert "policies.json: not what benchmarks/policies.py writes" in capsys.readouterr().err


def test_the_table_needs_no_extra_and_figures_name_theirs(results, tmp_path):
    block = "import sys\nfor name in ('matplotlib', 'equinox', 'safetensors'): sys.modules[name] = None\n"
    block += f"from memory_maze.cli import main\nmain(['report', 'online', {str(results)!r}"
    table = subprocess.run([sys.executable, "-c", f"{block}])"], capture_output=True, text=True)
    assert table.returncode == 0, table.stderr
    assert "22.0" in table.stdout
    out = str(tmp_path / "out")
    report = subprocess.run(
        [sys.executable, "-c", f"{block}, '--out', {out!r}])"], capture_output=True, text=True
    )
    assert report.returncode == 1
    assert len(report.stderr.splitlines()) == 1
    assert install_command("plots") in report.stderr


def test_runs_of_the_former_loss_are_told_apart(tmp_path):
    save(tmp_path, make_result(), make_result(seed=1, mean=30.0, config={"agent": {}}))
    groups = group(find_results([tmp_path]))
    names = [one.name for one in groups]
    assert names == ["IMPALA, preset fast, 100M steps", "IMPALA, preset fast, former V-trace, 100M steps"]
    assert "trained before" in tables.make_notes(groups)[1]
    assert len(tables.make_notes(groups[:1])) == 1
