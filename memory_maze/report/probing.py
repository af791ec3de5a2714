"""The scores of probed models beside the paper's: from result files to tables."""

import dataclasses
import itertools
import json
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from memory_maze import paper
from memory_maze.agents.folder import RESULT
from memory_maze.paper import Benchmark
from memory_maze.probing.result import KIND, read_result
from memory_maze.report.scores import (
    MISSING,
    Spread,
    describe_cell,
    describe_spreads,
    find_spread,
    is_finished,
    size_of,
    sort_tasks,
)
from memory_maze.report.tables import format_time, markdown
from memory_maze.system.files import read_small
from memory_maze.system.provenance import short_name
from memory_maze.tasks import parse_task
from memory_maze.training.result import MAX_BYTES, find_difference

TARGETS = ("walls", "objects")
STATE_SIZE = 2048  # the benchmark's
STAR = "*"
NOTE = (
    "Walls: percent of the cells that are right, higher is better. Objects: squared error of their places, "
    "lower is better. Both are means over the second half of trajectories that no model was trained on. "
    "±: the standard deviation (sd) over n runs with different seeds, or the standard error (se) over n "
    "trajectories of one run. Paper: after 1M gradient steps."
)
# What a probe of the paper has; names tell what is different.
PROBE = {
    "layers": 4,
    "units": 1024,
    "norm_epsilon": 1e-3,
    "learning_rate": 3e-4,
    "epsilon": 1e-5,
    "told": ["walls"],
}
INTERLEAVE = 32  # batches in turn; runs before there was a choice learned from one, until it had ended
_NARROW, _WIDE = 80, 100  # characters: scores are folded below the second, for names are long
_NUMBER = int | float
_Data = tuple[tuple[str, Any], ...]
# What values are, of those that a report reads.
_KINDS: dict[str, Any] = {
    "title": str,
    "preset": str | None,
    "changes": {},
    "state_size": int,
    "carries": bool,
    "config": {},
    "task": str,
    "seed": int,
    "targets": [str],
    "data": {"trajectories": int},
    "command": str | None,
    "date": str | None,
    "commit": str | None,
    "hardware": dict | None,
    "versions": dict | None,
    "training": {
        "steps": int,
        "steps_planned": int,
        "seconds": _NUMBER | None,
        "steps_per_second": _NUMBER | None,
    },
    "curve": [{"steps": int}],
}
_FIGURES = {"mean": _NUMBER, "std_error": _NUMBER | None, "trajectories": int, "by_step": [_NUMBER]}
_DEPTH = {"mean": _NUMBER, "std_error": _NUMBER | None}


@dataclasses.dataclass(frozen=True)
class Cell:
    """A score."""

    mean: float
    error: float | None
    over: str | None
    """What the error is of: the standard deviation over runs, or the standard error over trajectories."""
    runs: int
    trajectories: int | None

    @property
    def standard_error(self) -> float:
        return (self.error or 0.0) / (math.sqrt(self.runs) if self.over == "runs" else 1)

    @property
    def spread(self) -> Spread | None:
        return find_spread(self.over, self.runs, self.trajectories)

    def __str__(self) -> str:
        if self.error is None:
            return f"{self.mean:.1f}"
        return f"{self.mean:.1f} ± {self.error:.{1 if self.error >= 0.05 else 2}f}"


@dataclasses.dataclass(frozen=True)
class Row:
    """What a model scores in each benchmark that it was evaluated in."""

    name: str
    title: str
    source: str
    """paper or ours."""
    state_size: int | None
    cells: dict[Benchmark, Cell]

    @property
    def marked_name(self) -> str:
        return self.name + STAR if self.is_marked else self.name

    @property
    def is_marked(self) -> bool:
        """Whether its state is of another size than the benchmark's; the constant baseline has none."""
        return self.state_size not in (None, 0, STATE_SIZE)


@dataclasses.dataclass(frozen=True)
class Group:
    """Runs that differ in their seeds, tasks and targets alone."""

    name: str
    results: list[dict[str, Any]]

    @property
    def title(self) -> str:
        return self.results[0]["title"]

    @property
    def benchmarks(self) -> list[Benchmark]:
        return sort_benchmarks(
            (result["task"], target) for result in self.results for target in result["evaluation"]
        )

    def of(self, benchmark: Benchmark) -> list[dict[str, Any]]:
        """Runs that were asked this; the latest of each seed."""
        task, target = benchmark
        asked = [one for one in self.results if one["task"] == task and target in one["evaluation"]]
        return list({one["seed"]: one for one in asked}.values())

    def evaluations(self, benchmark: Benchmark) -> list[dict[str, Any]]:
        return [result["evaluation"][benchmark[1]] for result in self.of(benchmark)]


def find_results(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """The results in files, in folders of runs, and in folders of either, where others are passed over."""
    found: dict[str, dict[str, Any]] = {}
    for path in paths:
        for place in _places(path):
            result = _read(place) | {"file": short_name(str(place))}
            # A run and a copy of its file are one, and so are a run and its repetition.
            about = result["task"], result["seed"], sorted(result["targets"]), _data(result)
            same = str((name_model(result), *about))
            before = found.get(same)
            if before is None or (before["date"] or "") <= (result["date"] or ""):
                found[same] = result
    return list(found.values())


def _places(path: Path) -> list[Path]:
    if not path.is_dir() or (path / RESULT).exists():
        return [path]
    files = [child if child.suffix == ".json" else child / RESULT for child in sorted(path.iterdir())]
    places = [file for file in files if file.is_file() and _is_probing(file)]
    if not places:
        raise ValueError(f"{path}: there are neither results of probing nor their runs in it")
    return places


def _is_probing(file: Path) -> bool:
    try:
        result = json.loads(read_small(file, MAX_BYTES))
    except (ValueError, OSError):
        return True  # is named as damaged when it is read
    return isinstance(result, dict) and result.get("kind") == KIND


def _read(place: Path) -> dict[str, Any]:
    result = read_result(place)
    wrong = find_difference(result, _KINDS, "it")
    for target, figures in result["evaluation"].items():
        wrong = wrong or find_difference(figures, _FIGURES, target)
    for layers, targets in result.get("depths", {}).items():
        for target, figures in targets.items():
            wrong = wrong or find_difference(figures, _DEPTH, f"{target} of {layers} layers")
    if wrong:
        raise ValueError(f"{place}: no result of probing, or a damaged one: {wrong}")
    try:
        parse_task(result["task"])
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error
    return result


def group(results: Iterable[dict[str, Any]], depths: bool = True) -> list[Group]:
    """Runs of one model, trained for as long; those that were not finished have a name of their own.

    Without depths, runs may also differ in how many hidden layers their probes have.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    by_date = sorted(results, key=lambda result: result["date"] or "")
    for result in sorted(by_date, key=lambda result: (size_of(result["task"]), result["seed"])):
        groups.setdefault(name_model(result, depths), []).append(result)
    split = [part for name, members in groups.items() for part in _split(name, members)]
    return sorted(split, key=_rank)


def _split(name: str, results: list[dict[str, Any]]) -> list[Group]:
    """Runs in one task that learned from different data are no runs of one kind."""
    found = {(result["task"], _data(result)) for result in results}
    if len(found) == len({task for task, _ in found}):
        return [Group(name, results)]
    parts: dict[_Data, list[dict[str, Any]]] = {}
    for result in results:
        parts.setdefault(_data(result), []).append(result)
    common = set.intersection(*map(set, parts))
    return [Group(", ".join([name, *_describe_data(data, common)]), part) for data, part in parts.items()]


def _data(result: dict[str, Any]) -> _Data:
    """What tells data apart; the steps follow from the trajectories."""
    values = {key: value for key, value in sorted(result["data"].items()) if key != "steps"}
    return tuple((key, value if isinstance(value, int) else str(value)) for key, value in values.items())


def _describe_data(data: _Data, common: set[tuple[str, Any]]) -> list[str]:
    """What is not common to all."""
    return [
        f"{value:,} trajectories" if key == "trajectories" else f"data {key}={value}"
        for key, value in data
        if (key, value) not in common
    ]


def _rank(one: Group) -> tuple[Any, ...]:
    """The paper's order, then others; what is not finished last."""
    result, titles = one.results[0], list(paper.PROBING)
    place = titles.index(one.title) if one.title in titles else len(titles)
    steps = result["training"]["steps_planned"]
    return not is_finished(result), place, one.title, result["preset"] or "", steps, one.name


def name_model(result: dict[str, Any], depths: bool = True) -> str:
    """Like "RSSM (TBTT), preset small, recurrent=512, 1,500 steps"; without depths, nothing of layers."""
    words = [result["title"]]
    words += [f"preset {result['preset']}"] if result["preset"] else []
    for key, value in result["changes"].items():
        if key != "probe":
            words.append(f"{key}={value}")
        elif result["state_size"]:  # without a state there is nothing to probe
            words += _describe_probe(value, depths)
    if result["carries"] and (interleave := result["config"].get("interleave", 1)) != INTERLEAVE:
        words.append(f"interleave={interleave}")
    steps, planned = result["training"]["steps"], result["training"]["steps_planned"]
    if not is_finished(result):
        words.append(f"unfinished: {steps:,} of {planned:,} steps")
    elif planned:
        words.append(f"{planned:,} steps")
    return ", ".join(words)


def _describe_probe(values: dict[str, Any], depths: bool) -> list[str]:
    told = {key: value for key, value in values.items() if PROBE.get(key) != value}
    if not depths:
        told.pop("layers", None)
    return [" ".join(["probe", *(f"{key}={value}" for key, value in told.items())])] if told else []


def make_rows(groups: Sequence[Group]) -> list[Row]:
    """The paper's scores, then those of each group."""
    rows = []
    for title, scores in paper.PROBING.items():
        cells = {
            benchmark: Cell(*score, *((None, 1, None) if score.error is None else ("runs", 3, None)))
            for benchmark, score in scores.items()
        }
        rows.append(Row(title, title, "paper", None, cells))
    for one in groups:
        cells = {benchmark: make_cell(one.evaluations(benchmark)) for benchmark in one.benchmarks}
        rows.append(Row(one.name, one.title, "ours", one.results[0]["state_size"], cells))
    return rows


def make_cell(evaluations: Sequence[dict[str, Any]]) -> Cell:
    """Of the evaluations of runs with different seeds."""
    means = [figures["mean"] for figures in evaluations]
    trajectories = sum(figures["trajectories"] for figures in evaluations)
    if len(means) > 1:
        return Cell(statistics.fmean(means), statistics.stdev(means), "runs", len(means), trajectories)
    error = evaluations[0]["std_error"]
    return Cell(means[0], error, None if error is None else "trajectories", 1, trajectories)


def sort_benchmarks(benchmarks: Iterable[Benchmark]) -> list[Benchmark]:
    """In the paper's order: walls of all sizes, then objects."""
    found = set(benchmarks)
    tasks = sort_tasks(task for task, _ in found)
    return [(task, target) for target in TARGETS for task in tasks if (task, target) in found]


def columns(groups: Sequence[Group]) -> list[Benchmark]:
    """The four benchmarks, and others that something was evaluated in."""
    return sort_benchmarks([*paper.BENCHMARKS, *(found for one in groups for found in one.benchmarks)])


def make_notes(rows: Sequence[Row]) -> list[str]:
    """What is to be said below a table."""
    sizes: dict[str, set[int]] = {}
    for row in rows:
        if row.is_marked and row.state_size is not None:
            sizes.setdefault(row.title, set()).add(row.state_size)
    if not sizes:
        return [NOTE]
    words = (f"{title} {' and '.join(f'{n:,}' for n in sorted(found))}" for title, found in sizes.items())
    return [NOTE, f"Rows with {STAR} have a state of another size than {STATE_SIZE:,}: {'; '.join(words)}."]


def describe_order(groups: Sequence[Group]) -> str:
    """How far models of the paper's size come in the paper's order."""
    ours = _find_entries(groups)
    words = []
    for benchmark in sort_benchmarks({benchmark for cells in ours.values() for benchmark in cells}):
        titles = [title for title, cells in ours.items() if benchmark in cells]
        pairs = list(itertools.combinations(titles, 2))
        if not pairs:
            continue
        apart = [pair for pair in pairs if _are_apart(*(ours[title][benchmark] for title in pair))]
        swapped = [pair for pair in apart if _are_swapped(*pair, ours, benchmark)]
        others = f" (not {'; '.join(map(' and '.join, swapped))})" if swapped else ""
        count = f"{len(apart) - len(swapped)} of {len(apart)}{others}" if apart else "none are apart"
        words.append(f"{' '.join(benchmark)} {count}")
    if not words:
        return ""
    return (
        "Pairs of models that come in the paper's order, of those that are further apart than two standard "
        f"errors: {', '.join(words)}."
    )


def _find_entries(groups: Sequence[Group]) -> dict[str, dict[Benchmark, Cell]]:
    """Scores of the paper's models as the paper has them; of several, those that were trained for longest."""
    found: dict[str, dict[Benchmark, Cell]] = {}
    for one in sorted(groups, key=lambda one: one.results[0]["training"]["steps"]):
        result = one.results[0]
        steps = result["training"]["steps"]
        names = {one.title, f"{one.title}, preset paper, {steps:,} steps"}
        if one.title in paper.PROBING and one.name in names:
            cells = {benchmark: make_cell(one.evaluations(benchmark)) for benchmark in one.benchmarks}
            found[one.title] = found.get(one.title, {}) | cells
    return found


def _are_apart(one: Cell, other: Cell) -> bool:
    """By more than two standard errors of their difference."""
    return abs(one.mean - other.mean) > 2 * math.hypot(one.standard_error, other.standard_error)


def _are_swapped(one: str, other: str, ours: dict[str, dict[Benchmark, Cell]], benchmark: Benchmark) -> bool:
    theirs = paper.PROBING[one][benchmark].mean - paper.PROBING[other][benchmark].mean
    return theirs * (ours[one][benchmark].mean - ours[other][benchmark].mean) < 0


def make_table(rows: Sequence[Row], benchmarks: Sequence[Benchmark], width: int = _NARROW) -> Table:
    """For a terminal of so many characters."""
    header = ["\n".join(benchmark) for benchmark in benchmarks]
    table = Table("model", "from", "±", *header, caption="\n".join(make_notes(rows)), caption_justify="left")
    for column in table.columns[1:]:
        column.no_wrap = True
    for column in table.columns[3:]:
        column.justify = "right"
    table.columns[0].overflow = "fold"
    last = rows[0].source
    for row in rows:
        if row.source != last:
            table.add_section()
        last = row.source
        name, source, spread, *cells = _cells(row, benchmarks)
        folded = [cell.replace(" (", "\n(") for cell in cells]
        if width < _WIDE or len(benchmarks) > len(paper.BENCHMARKS):
            folded = [cell.replace(" ±", "\n±") for cell in folded]
        table.add_row(name, source, spread.replace(", ", "\n").replace("; ", "\n"), *folded)
    return table


def make_markdown(rows: Sequence[Row], benchmarks: Sequence[Benchmark]) -> str:
    """The same in Markdown."""
    header = ["model", "from", "±", *map(" ".join, benchmarks)]
    return markdown(header, [_cells(row, benchmarks) for row in rows])


def _cells(row: Row, benchmarks: Sequence[Benchmark]) -> list[str]:
    found = row.cells.values()
    cells = (describe_cell(row.cells[one], found) if one in row.cells else MISSING for one in benchmarks)
    return [row.marked_name, row.source, describe_spreads(cell.spread for cell in found), *cells]


def make_run_table(groups: Sequence[Group]) -> str:
    """Every run: how long it trained, how fast, on what, where and when, in Markdown."""
    header = ["model", "task", "targets", "seed", "gradient steps", "time", "steps a second"]
    header += ["1M steps take", "trajectories", "on", "date", "commit"]
    lines = [[one.name, *_describe_line(result)] for one in groups for result in one.results]
    return markdown(header, lines)


def _describe_line(result: dict[str, Any]) -> list[str]:
    training, hardware = result["training"], result["hardware"] or {}
    speed, hours = training["steps_per_second"], hours_for_million(result)
    steps = f"{training['steps']:,}" if training["steps_planned"] else MISSING
    if not is_finished(result):
        steps += f" of {training['steps_planned']:,}"
    return [
        result["task"],
        ", ".join(result["targets"]),
        str(result["seed"]),
        steps,
        format_time(training["seconds"]),
        MISSING if speed is None else f"{speed:.1f}",
        MISSING if hours is None else f"{hours:,.1f} h",
        f"{result['data']['trajectories']:,}",
        hardware.get("devices") or MISSING,
        (result["date"] or MISSING)[:10],
        (result["commit"] or MISSING)[:8],
    ]


def hours_for_million(result: dict[str, Any]) -> float | None:
    """What as many gradient steps as the paper's would take."""
    speed = result["training"]["steps_per_second"]
    return 1e6 / speed / 3600 if speed else None


def describe_scores(rows: Sequence[Row], groups: Sequence[Group]) -> dict[str, Any]:
    """Everything in the tables, as plain data."""
    return {
        "rows": [
            {
                "model": row.name,
                "title": row.title,
                "source": row.source,
                "state_size": row.state_size,
                "scores": {" ".join(benchmark): _describe(cell) for benchmark, cell in row.cells.items()},
            }
            for row in rows
        ],
        "runs": [_describe_run(one.name, result) for one in groups for result in one.results],
    }


def _describe(cell: Cell) -> dict[str, Any]:
    described = dataclasses.asdict(cell)
    described["error_over"] = described.pop("over")
    return described


def _describe_run(name: str, result: dict[str, Any]) -> dict[str, Any]:
    keys = ("file", "task", "targets", "seed", "state_size", "training", "data")
    keys += ("command", "date", "commit", "hardware", "versions")
    means = {target: figures["mean"] for target, figures in result["evaluation"].items()}
    hours = hours_for_million(result)
    return (
        {"model": name}
        | {key: result[key] for key in keys}
        | {"hours_for_million_steps": hours, "mean_scores": means}
    )
