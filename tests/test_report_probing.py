"""Reports of probed models: the paper's scores and ours, as tables and figures."""

import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import imageio.v2 as imageio
import numpy as np
import pytest
from matplotlib.container import BarContainer
from rich.console import Console

from memory_maze.cli import main
from memory_maze.report import probing, probing_figures, probing_tables
from memory_maze.report.probing import columns, group, make_rows
from memory_maze.results import find

# Table "Offline probing benchmark results" of the paper.
PAPER = """
Constant baseline  80.8        78.3        23.9        64.8
VAE (no memory)    84.1 ± 0.3  78.7 ± 0.1  17.2 ± 0.2  56.2 ± 0.1
Supervised oracle  99.7 ± 0.1  88.5 ± 0.1  0.3 ± 0.1   9.2 ± 0.8
RSSM               89.0 ± 0.3  80.0 ± 0.1  8.3 ± 0.3   39.5 ± 0.3
VAE+GRU (TBTT)     90.0 ± 0.1  80.2 ± 0.1  7.8 ± 0.2   34.9 ± 0.1
RSSM (TBTT)        94.0 ± 0.5  80.5 ± 0.2  6.2 ± 0.3   33.8 ± 0.1
"""
LENGTH = 1001
WRONG = "0.json: not a valid result of a probing run"
RSSM = "RSSM (TBTT), preset small, 1,500 steps"
UNTRAINED = RSSM.replace("RSSM (TBTT)", "RSSM, untrained")


def make_result(title="RSSM (TBTT)", task="9x9", seed=0, walls=85.0, objects=12.0, steps=1500, **changes):
    """A result as `memory-maze probe` writes it; a score that is None was not asked for."""
    means = {"objects": objects, "walls": walls}
    means = {target: mean for target, mean in means.items() if mean is not None}
    fade = np.exp(-np.arange(LENGTH) / 100)
    # The objects' error falls, and more walls are right: the second half is near the mean.
    by_step = {"walls": lambda mean: mean - 8 * fade, "objects": lambda mean: mean * (1 + fade)}
    curve = [
        {"steps": i * steps // 10, "seconds": 6.0 * i, "loss_model": 1.0}
        | ({f"held_out_{target}": mean * (0.5 + i / 20) for target, mean in means.items()} if i % 2 else {})
        for i in range(1, 11 if steps else 1)
    ]
    return {
        "format": 1,
        "kind": "probing",
        "state_size": 2048,
        "carries": True,
        "supervised": False,
        "frozen": False,
        "weights": 1000,
        "model": "rssm-tbtt",
        "title": title,
        "preset": "small",
        "changes": {},
        "task": task,
        "seed": seed,
        "targets": sorted(means, reverse=True),
        "data": {"trajectories": 967, "steps": 967000, "format": "scenes", "engine": "jax"},
        "config": {"steps": steps, "interleave": 32},
        "command": "memory-maze probe rssm-tbtt --out run",
        "date": "2026-11-15T00:00:00+00:00",
        "commit": "0123456789abcdef",
        "hardware": {"devices": "1 cpu"},
        "versions": {"jax": "0.10.2"},
        "training": {
            "steps": steps,
            "steps_planned": steps,
            "seconds": 7200.0 if steps else None,
            "compile_seconds": 30.0 if steps else None,
            "steps_per_second": 2.5 if steps else None,
        },
        "curve": curve,
        "evaluation": {
            target: {
                "mean": mean,
                "std_error": 0.4 if target == "walls" else 0.02,
                "trajectories": 33,
                "by_step": by_step[target](mean).tolist(),
            }
            for target, mean in means.items()
        },
    } | changes


def make_constant(task="9x9", walls=80.6, objects=24.5, **changes):
    return make_result(
        "Constant baseline",
        task,
        0,
        walls,
        objects,
        0,
        preset=None,
        state_size=0,
        model="constant",
        **changes,
    )


def make_unfinished(*arguments, **changes):
    result = make_result(*arguments, **changes)
    result["training"]["steps"] = 700
    return result


def save(folder, *results):
    folder.mkdir(parents=True, exist_ok=True)
    for number, result in enumerate(results):
        (folder / f"{number}.json").write_text(json.dumps(result))
    return folder


@pytest.fixture
def results(tmp_path):
    small = {"preset": "small", "state_size": 512}
    return save(
        tmp_path / "probing",
        make_unfinished("RSSM", changes={"recurrent": 64}, state_size=3072),
        make_result(seed=0, walls=85.0, objects=12.0, **small),
        make_result(seed=1, walls=87.0, objects=13.0, **small),
        make_result(task="15x15", walls=79.0, objects=None, **small),
        make_result("Supervised oracle", walls=97.0, objects=None, supervised=True),
        make_result("Supervised oracle", walls=None, objects=1.5, supervised=True),
        make_result("RSSM, untrained", walls=81.0, objects=23.0, state_size=3072, preset="paper"),
        make_constant(),
    )


def find_results(paths):
    found = find.find_results(paths, "probing")
    assert not found.left_out
    return found.results


def read_table(text):
    """The cells of a Markdown table, by name and origin."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return {(name, source): cells for name, source, *cells in rows[2:]}


def make_table(*results):
    groups = group(results)
    return read_table(probing_tables.make_markdown(make_rows(groups), columns(groups)))


def make_ours(*results):
    """Without what their errors are of."""
    return {name: cells for (name, source), (_, *cells) in make_table(*results).items() if source == "ours"}


def test_the_table_has_the_papers_scores_and_ours(results):
    table = make_table(*find_results([results]))
    names = [name for name, _ in table]
    for line in PAPER.strip().splitlines():
        name, *cells = re.split(r"  +", line)
        assert names.pop(0) == name
        spread = "-" if name == "Constant baseline" else "sd, n=3"
        assert table.pop((name, "paper")) == [spread, *cells]
    assert list(table.items()) == [
        (("Constant baseline", "ours"), ["se, n=33", "80.6 ± 0.4", "-", "24.5 ± 0.02", "-"]),
        (
            ("Supervised oracle, preset small, 1,500 steps", "ours"),
            ["se, n=33", "97.0 ± 0.4", "-", "1.5 ± 0.02", "-"],
        ),
        (
            (f"{RSSM}*", "ours"),
            ["sd, n=2; se, n=33", "86.0 ± 1.4 (n=2)", "79.0 ± 0.4", "12.5 ± 0.7 (n=2)", "-"],
        ),
        (
            ("RSSM, untrained, preset paper, 1,500 steps*", "ours"),
            ["se, n=33", "81.0 ± 0.4", "-", "23.0 ± 0.02", "-"],
        ),
        (
            ("RSSM, preset small, recurrent=64, unfinished: 700 of 1,500 steps*", "ours"),
            ["se, n=33", "85.0 ± 0.4", "-", "12.0 ± 0.02", "-"],
        ),
    ]


def test_other_sizes_have_columns_if_they_were_run():
    one = group([make_result(task="7x7", objects=None), make_result()])
    assert columns(one) == [
        ("7x7", "walls"),
        ("9x9", "walls"),
        ("15x15", "walls"),
        ("9x9", "objects"),
        ("15x15", "objects"),
    ]
    assert make_ours(*one[0].results)[RSSM][0] == "85.0 ± 0.4"


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"preset": "paper"}, "RSSM (TBTT), preset paper, 1,500 steps"),
        ({"changes": {"recurrent": 64}}, "RSSM (TBTT), preset small, recurrent=64, 1,500 steps"),
        ({"steps": 1_000_000}, "RSSM (TBTT), preset small, 1,000,000 steps"),
        ({"title": "mine:Model", "preset": None}, "mine:Model, 1,500 steps"),
        (
            {"changes": {"probe": probing.PROBE | {"layers": 2, "units": 256}}},
            "RSSM (TBTT), preset small, probe layers=2 units=256, 1,500 steps",
        ),
        ({"config": {"interleave": 8}}, "RSSM (TBTT), preset small, interleave=8, 1,500 steps"),
        ({"config": {}}, "RSSM (TBTT), preset small, interleave=1, 1,500 steps"),
    ],
)
def test_what_is_no_run_of_the_same_has_a_row_of_its_own(changes, name):
    ours = make_ours(make_result(), make_result(**{"seed": 1, "walls": 90.0} | changes))
    assert ours.keys() == {RSSM, name}
    assert [ours[RSSM][0], ours[name][0]] == ["85.0 ± 0.4", "90.0 ± 0.4"]


def test_the_constant_baseline_has_neither_steps_nor_a_probe():
    assert make_ours(make_constant(changes={"probe": probing.PROBE | {"units": 256}})).keys() == {
        "Constant baseline"
    }


def test_batches_in_turn_mean_nothing_to_models_that_carry_no_state():
    made = [make_result(seed=n, carries=False, config={"interleave": 8 * n}) for n in (1, 2)]
    assert make_ours(*made).keys() == {RSSM}


def test_names_tell_what_differs_from_the_defaults():
    pytest.importorskip("equinox")
    from memory_maze.commands.probe import Command
    from memory_maze.probing.config import ProbeConfig
    from memory_maze.probing.train import Run

    assert Run("vae-gru").interleave == Command("vae-gru", Path("run")).interleave == probing.INTERLEAVE
    assert Run("vae-gru").probe == ProbeConfig(), "of which reports tell what differs"


def test_runs_on_different_data_are_told_apart():
    more = {"data": make_result()["data"] | {"trajectories": 29000, "steps": 29000000}}
    large = make_result(task="15x15", **more)
    assert make_ours(make_result(), large)[RSSM][:2] == ["85.0 ± 0.4", "85.0 ± 0.4"], "one row for all sizes"
    ours = make_ours(make_result(), make_result(walls=90.0, **more), large)
    assert ours[f"{RSSM}, 967 trajectories"][:2] == ["85.0 ± 0.4", "-"]
    assert ours[f"{RSSM}, 29,000 trajectories"][:2] == ["90.0 ± 0.4", "85.0 ± 0.4"]
    other = make_result(seed=1, data=make_result()["data"] | {"engine": "mujoco"})
    ours = make_ours(make_result(), other)
    assert ours.keys() == {f"{RSSM}, data engine=jax", f"{RSSM}, data engine=mujoco"}


def test_states_of_another_size_are_marked_and_told(results):
    rows = make_rows(group(find_results([results])))
    marked = {row.title for row in rows if row.is_marked}
    assert marked == {"RSSM", "RSSM (TBTT)", "RSSM, untrained"}
    _, note = probing_tables.make_notes(rows)
    assert note == (
        "Rows marked * have a state size other than 2,048: RSSM (TBTT) 512; RSSM, untrained 3,072; "
        "RSSM 3,072."
    )
    assert probing_tables.make_notes(make_rows(group([make_result(), make_constant()]))) == [
        probing_tables.NOTE
    ]


def test_the_command_prints_the_table_and_writes_the_report(results, tmp_path, capsys):
    out = tmp_path / "report"
    main(["report", "probing", str(results), "--out", str(out)])
    printed = capsys.readouterr().out
    assert "94.0" in printed
    assert "86.0" in printed
    assert "(n=2)" in printed
    assert "Rows marked * have a state size" in " ".join(printed.split())
    names = ["probing-bars.png", "probing-curves.png", "probing.md", "probing.json", "probing-steps.png"]
    assert {path.name for path in out.iterdir()} == set(names)
    page = (out / "probing.md").read_text()
    assert "| model | from | ± | 9x9 walls | 15x15 walls | 9x9 objects | 15x15 objects |" in page
    assert "| Constant baseline | paper | - | 80.8 | 78.3 | 23.9 | 64.8 |" in page
    origin = "967 | 1 cpu | 2026-11-15 | 01234567 |"
    assert f"| {RSSM} | 9x9 | walls, objects | 1 | 1,500 | 2.0 h | 2.5 | 111.1 h | {origin}" in page
    assert f"| Constant baseline | 9x9 | walls, objects | 0 | - | - | - | - | {origin}" in page
    assert "| objects | 0 | 1,500 |" in page
    assert "| 700 of 1,500 |" in page
    assert "second half" in page
    assert "Rows marked * have a state size" in page
    assert set(re.findall(r"\]\((.*?)\)", page)) == {
        "probing-bars.png",
        "probing-curves.png",
        "probing-steps.png",
    }
    scores = json.loads((out / "probing.json").read_text())
    (row,) = (row for row in scores["rows"] if row["model"] == RSSM)
    cell = row["scores"]["9x9 walls"]
    assert (row["title"], row["source"], row["state_size"]) == ("RSSM (TBTT)", "ours", 512)
    assert (cell["mean"], cell["runs"], cell["trajectories"], cell["error_over"]) == (86.0, 2, 66, "runs")
    assert cell["error"] == pytest.approx(np.std([85, 87], ddof=1))
    assert row["scores"]["15x15 walls"]["error_over"] == "trajectories"
    assert len(scores["runs"]) == 8
    assert scores["runs"][1]["hours_for_million_steps"] == pytest.approx(111.1, abs=0.1)
    assert str(tmp_path) not in page + (out / "probing.json").read_text()
    for name in ("probing-bars.png", "probing-curves.png", "probing-steps.png"):
        image = imageio.imread(out / name)
        assert min(image.shape[:2]) > 400
        assert image[..., :3].std() > 10


def test_without_out_there_is_only_the_table(results, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(results, "results/probing")
    before = sorted(tmp_path.rglob("*"))
    main(["report", "probing"])
    assert "86.0" in capsys.readouterr().out
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(("width", "folded"), [(80, True), (120, False)])
def test_the_table_fits_the_terminal(results, width, folded):
    groups = group([*find_results([results]), make_result(title="package.with.a.long.name:Model")])
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(probing_tables.make_table(make_rows(groups), columns(groups), console.width))
    printed = console.export_text()
    assert "…" not in printed, "nothing is cut off"
    assert ("94.0 ± 0.5" not in printed) == folded
    assert "± 0.5" in printed


def panels_of(figure):
    return {axes.get_title(loc="left"): axes for axes in figure.axes if axes.get_title(loc="left")}


def lines_of(axes):
    return {line.get_label(): line.get_xydata() for line in axes.get_lines()}


def test_bars_are_ours_beside_the_papers(results):
    figure = probing_figures.draw_bars(make_rows(group(find_results([results]))))
    walls, objects = panels_of(figure).values()
    found = [bar for bar in walls.containers if isinstance(bar, BarContainer)]
    bars = [(bar.get_label(), bar[0].get_height(), bar[0].get_x()) for bar in found]
    heights = {(label, height) for label, height, _ in bars}
    assert {("RSSM (TBTT), the paper's", 94.0), ("RSSM (TBTT), the paper's", 80.5)} <= heights
    assert {(RSSM, 86.0), (RSSM, 79.0)} <= heights
    assert len(bars) == 2 * 6 + 6
    places = {label: place for label, _, place in reversed(bars)}
    assert places[RSSM] == places["RSSM (TBTT), the paper's"] + 1, "side by side"
    assert [label.get_text() for label in walls.get_xticklabels()] == ["9x9", "15x15"]
    assert walls.get_ylim()[0] > 0
    assert objects.get_ylim()[0] == 0
    (legend,) = figure.legends
    assert len(legend.get_texts()) == 6 + 5


def test_the_legend_of_bars_has_the_papers_order_though_a_panel_lacks_some():
    results = [make_constant(), make_result("VAE (no memory)", walls=None)]
    (legend,) = probing_figures.draw_bars(make_rows(group(results))).legends
    assert [text.get_text() for text in legend.get_texts()][:4] == [
        "Constant baseline, the paper's",
        "Constant baseline",
        "VAE (no memory), the paper's",
        "VAE (no memory), preset small, 1,500 steps",
    ]


def test_small_differences_between_walls_look_small():
    result = make_constant()
    result["evaluation"]["walls"]["by_step"] = [80.6] * LENGTH
    walls, _ = panels_of(probing_figures.draw_steps(group([result]))).values()
    low, high = walls.get_ylim()
    assert high - low >= 5


def test_steps_are_means_of_runs_with_the_scored_half_shaded(results):
    panels = panels_of(probing_figures.draw_steps(group(find_results([results]))))
    assert list(panels) == ["9x9 walls", "15x15 walls", "9x9 objects"]
    axes = panels["9x9 walls"]
    ours = lines_of(axes)[RSSM]
    assert ours.shape == (LENGTH, 2)
    assert ours[0].tolist() == pytest.approx([0, 86 - 8])
    assert ours[-1].tolist() == pytest.approx([1000, 86], abs=0.01)
    published = [line for line in axes.get_lines() if line.get_ydata() == pytest.approx([94.0, 94.0])]
    (line,) = published
    assert list(line.get_xdata()) == [501, 1000], "the paper's is drawn where it was scored"
    (half,) = axes.patches
    assert half.get_x() == 501
    assert half.get_width() == 499


def test_curves_are_means_of_runs(results):
    panels = panels_of(probing_figures.draw_curves(group(find_results([results]))))
    assert list(panels) == ["9x9 walls", "15x15 walls", "9x9 objects"]
    lines = lines_of(panels["9x9 walls"])
    assert lines[RSSM][0] == pytest.approx([150, 86 * 0.55])
    assert lines[RSSM][-1] == pytest.approx([9 * 150, 86 * 0.95])
    assert "Constant baseline" not in lines
    mixed = group([make_result(), make_result("RSSM", steps=1_000_000)])
    (walls, _) = panels_of(probing_figures.draw_curves(mixed)).values()
    assert walls.get_xscale() == "log"


def test_what_there_is_nothing_for_is_not_drawn(tmp_path):
    out = tmp_path / "report"
    main(["report", "probing", str(save(tmp_path / "one", make_constant())), "--out", str(out)])
    names = ["probing-bars.png", "probing.md", "probing.json", "probing-steps.png"]
    assert {path.name for path in out.iterdir()} == set(names)
    assert "probing-curves.png" not in (out / "probing.md").read_text()
    empty = group([make_result(evaluation={})])
    assert probing_figures.draw_bars(make_rows(empty)) is None
    assert probing_figures.draw_steps(empty) is None
    assert probing_figures.draw_curves(empty) is None


def test_a_run_and_a_copy_of_its_file_count_once(tmp_path):
    old, new = make_result(), make_result(walls=90.0, date="2026-11-16T00:00:00+00:00")
    run = tmp_path / "runs" / "a"
    save(tmp_path / "copies", new)
    run.mkdir(parents=True)
    (run / "result.json").write_text(json.dumps(old))
    for paths in ([tmp_path / "runs", tmp_path / "copies"], [tmp_path / "copies" / "0.json", run]):
        (result,) = find_results(paths)
        assert result["evaluation"]["walls"]["mean"] == 90.0


def test_a_seed_counts_once_in_a_score():
    new = make_result(walls=90.0, objects=None, date="2026-11-16T00:00:00+00:00")
    for results in ([new, make_result()], [make_result(), new]):
        assert make_ours(*results)[RSSM] == ["90.0 ± 0.4", "-", "12.0 ± 0.02", "-"]


def test_other_files_in_a_folder_are_passed_over(tmp_path):
    folder = save(tmp_path / "results", make_result(), {"agent": "impala", "evaluations": []}, [1, 2])
    (folder / "config.json").write_text("{}")
    (folder / "notes.txt").write_text("x")
    (folder / "running").mkdir()
    (result,) = find_results([folder])
    assert result["title"] == "RSSM (TBTT)"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("missing", "missing not found: give directories or files written by memory-maze probe"),
        (
            "empty",
            "empty: neither probing runs nor their result files: they are written by memory-maze probe",
        ),
        ("online", "online: no probing runs, but 1 online run (memory-maze report online "),
        ("online/0.json", "0.json: no probing runs, but 1 online run (memory-maze report online "),
        ("damaged", WRONG),
        (
            "short",
            f"{WRONG}: steps_planned is missing in training",
        ),
        ("odd", f"{WRONG}: trajectories is 'many'"),
        ("deep", f"{WRONG}: mean is missing in walls"),
        ("even", f"{WRONG}: size must be odd"),
    ],
)
def test_wrong_results_are_named_in_one_line(tmp_path, path, message, capsys):
    (tmp_path / "empty").mkdir()
    save(tmp_path / "online", {"agent": "impala", "evaluations": [], "format": 1})
    save(tmp_path / "damaged", make_result())
    text = (tmp_path / "damaged" / "0.json").read_text()
    (tmp_path / "damaged" / "0.json").write_text(text[:-20])
    save(tmp_path / "deep", make_result(depths={"2": {"walls": {"std_error": 1.0}}}))
    save(tmp_path / "short", make_result(training={"steps": 3}))
    odd = make_result()
    odd["evaluation"]["walls"]["trajectories"] = "many"
    save(tmp_path / "odd", odd)
    save(tmp_path / "even", make_result(task="8x8"))
    with pytest.raises(SystemExit):
        main(["report", "probing", str(tmp_path / path), "--out", str(tmp_path / "out")])
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_the_table_needs_no_extra(results):
    block = "import sys\nfor name in ('matplotlib', 'equinox', 'safetensors'): sys.modules[name] = None\n"
    block += f"from memory_maze.cli import main\nmain(['report', 'probing', {str(results)!r}])"
    table = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True)
    assert table.returncode == 0, table.stderr
    assert "86.0" in table.stdout


def test_depths_of_probes_are_beside_each_other(tmp_path):
    def make(layers, **changes):
        probe = probing.PROBE | {"layers": layers}
        config = {"probe": probe, "interleave": 32}
        changes = {"changes": {"probe": probe} if layers != 4 else {}, "config": config} | changes
        return make_result(walls=80.0 + 2 * layers, **changes)

    made = [make(layers) for layers in (0, 2, 4)]
    made += [make(4, title="RSSM, untrained"), make_constant()]
    # No depth of the same model.
    made.append(make_result(walls=95.0, steps=3000, config=made[-3]["config"]))
    folder = save(tmp_path / "results", *made)
    main(["report", "probing", str(folder), "--out", str(tmp_path / "report")])
    assert (tmp_path / "report" / "probing-depths.png").exists()
    assert "probing-depths.png" in (tmp_path / "report" / "probing.md").read_text()
    figure = probing_figures.draw_depths(group(find_results([folder])))
    axes = figure.axes[0]
    lines = {line.get_label(): line.get_xydata().tolist() for line in axes.get_lines()}
    assert lines.keys() == {RSSM, UNTRAINED, "Constant baseline"}
    assert lines[RSSM] == [[0, 80], [2, 84], [4, 88]]
    assert lines[UNTRAINED][0][1] == 88
    assert lines["Constant baseline"][0][1] == 80.6


def test_one_run_has_probes_of_several_depths(tmp_path):
    depths = {str(layers): {"walls": {"mean": 80.0 + layers, "std_error": 0.1}} for layers in (0, 2)}
    config = {"probe": probing.PROBE, "interleave": 32}
    trained = make_result(walls=84.0, depths=depths, config=config)
    untrained = make_result(walls=81.0, title="RSSM, untrained", depths=depths, config=config)
    few = make_constant() | {"data": trained["data"] | {"trajectories": 29}}
    former = trained | {"config": config | {"interleave": 1}, "depths": {"2": {"walls": {"mean": 70.0}}}}
    former["depths"]["2"]["walls"]["std_error"] = None
    folder = save(tmp_path, trained, untrained, former, make_constant(), few)
    figure = probing_figures.draw_depths(group(find_results([folder])))
    lines = {line.get_label(): line.get_xydata().tolist() for line in figure.axes[0].get_lines()}
    assert len(figure.axes[0].get_lines()) == len(lines) == 4, "of the constant baselines that with more data"
    assert lines[RSSM] == [[0, 80], [2, 82], [4, 84]]
    assert lines[RSSM.replace("1,500", "interleave=1, 1,500")] == [[2, 70], [4, 84]]
    assert lines[UNTRAINED] == [[0, 80], [2, 82], [4, 81]]


def test_one_depth_is_no_figure_of_depths(tmp_path):
    groups = group(find_results([save(tmp_path, make_result(), make_constant())]))
    assert probing_figures.draw_depths(groups) is None


def test_the_papers_order_is_counted_from_the_scores():
    full = {"preset": "paper"}
    made = [
        make_result("RSSM", walls=89.0, objects=8.0, **full),
        make_result("VAE+GRU (TBTT)", walls=88.5, objects=9.0, **full),
        make_result("VAE (no memory)", walls=84.0, objects=17.0, **full),
        make_result("VAE (no memory)", walls=99.0, objects=1.0),  # a small one is none of the paper's
        make_result("RSSM", walls=99.0, objects=1.0, changes={"recurrent": 64}, **full),
    ]
    assert probing.describe_order(group(made)) == (
        "Pairs of models ranked as in the paper, of the pairs that differ by more than two standard errors: "
        "9x9 walls 2 of 2, 9x9 objects 2 of 3 (not RSSM and VAE+GRU (TBTT))."
    )  # half a percent of the walls is less than twice sqrt(2) * 0.4
    made[0]["evaluation"]["objects"]["mean"] = 10.0
    assert probing.describe_order(group(made)).endswith("9x9 objects 3 of 3.")
    assert probing.describe_order(group([made[0], made[0] | {"title": "RSSM (TBTT)"}])).endswith(
        "9x9 walls no such pairs, 9x9 objects no such pairs."
    )
    assert probing.describe_order(group(made[:1])) == ""
