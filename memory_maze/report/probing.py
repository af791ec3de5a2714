"""The scores of probed models beside the paper's: from results to the rows of a table."""

import dataclasses
import itertools
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from memory_maze import paper
from memory_maze.paper import STATE_SIZE, TARGETS, Benchmark
from memory_maze.probing.config import INTERLEAVE, ProbeConfig
from memory_maze.report import cells
from memory_maze.report.cells import (
    Cell,
    describe_trained,
    gather,
    is_finished,
    keep_latest,
    make_cell,
    sort_tasks,
)
from memory_maze.results.probing import LOSS_VERSION, describe_data, find_interleave

UNIT = "trajectories"
PROBE: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(ProbeConfig())))  # as in files
_Data = tuple[tuple[str, Any], ...]


@dataclasses.dataclass(frozen=True)
class Row(cells.Row):
    """What a model scores in each benchmark that it was evaluated in."""

    title: str
    state_size: int | None = None

    @property
    def is_marked(self) -> bool:
        """Whether its state is of another size than the benchmark's; the constant baseline has none."""
        return self.state_size not in (None, 0, STATE_SIZE)


class Group(cells.Group):
    """Runs that differ in their seeds, tasks and targets alone."""

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
        return keep_latest(one for one in self.results if one["task"] == task and target in one["evaluation"])

    def evaluations(self, benchmark: Benchmark) -> list[dict[str, Any]]:
        return [result["evaluation"][benchmark[1]] for result in self.of(benchmark)]

    def score(self, benchmark: Benchmark) -> Cell:
        seeds = [result["seed"] for result in self.of(benchmark)]
        return make_cell(self.evaluations(benchmark), seeds, UNIT)


def group(results: Iterable[dict[str, Any]], depths: bool = True) -> list[Group]:
    """Runs of one model, trained for as long; those that were not finished have a name of their own.

    Without depths, runs may also differ in how many hidden layers their probes have.
    """
    groups = gather(results, lambda result: name_model(result, depths))
    split = [part for name, members in groups.items() for part in _split(name, members)]
    return sorted(split, key=_rank)


def _split(name: str, results: list[dict[str, Any]]) -> list[Group]:
    """Runs in one task that learned from different data are no runs of one kind."""
    found = {(result["task"], describe_data(result)) for result in results}
    if len(found) == len({task for task, _ in found}):
        return [Group(name, results)]
    parts: dict[_Data, list[dict[str, Any]]] = {}
    for result in results:
        parts.setdefault(describe_data(result), []).append(result)
    common = set.intersection(*map(set, parts))
    return [Group(", ".join([name, *_name_data(data, common)]), part) for data, part in parts.items()]


def _name_data(data: _Data, common: set[tuple[str, Any]]) -> list[str]:
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
    if (interleave := find_interleave(result)) not in (None, INTERLEAVE):
        words.append(f"interleave={interleave}")
    version = result.get("loss_version")
    words += describe_trained(result, None if version in (None, LOSS_VERSION) else f"loss version {version}")
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
    rows = [_paper_row(title) for title in paper.PROBING]
    for one in groups:
        scores = {benchmark: one.score(benchmark) for benchmark in one.benchmarks}
        rows.append(Row(one.name, "ours", scores, one.title, one.results[0]["state_size"]))
    return rows


def _paper_row(title: str) -> Row:
    found: dict[Benchmark, Cell] = {}
    for benchmark, (mean, error) in paper.PROBING[title].items():
        repeated = error is not None
        found[benchmark] = Cell(
            mean, error, *(("runs", paper.PROBING_RUNS, None) if repeated else (None, 1, None))
        )
    return Row(title, "paper", found, title)


def sort_benchmarks(benchmarks: Iterable[Benchmark]) -> list[Benchmark]:
    """In the paper's order: walls of all sizes, then objects."""
    found = set(benchmarks)
    tasks = sort_tasks(task for task, _ in found)
    return [(task, target) for target in TARGETS for task in tasks if (task, target) in found]


def columns(groups: Sequence[Group]) -> list[Benchmark]:
    """The four benchmarks, and others that something was evaluated in."""
    return sort_benchmarks([*paper.BENCHMARKS, *(found for one in groups for found in one.benchmarks)])


def describe_order(groups: Sequence[Group]) -> str:
    """How far models of the paper's size come in the paper's order."""
    ours = _find_entries(groups)
    words = []
    for benchmark in sort_benchmarks({benchmark for scores in ours.values() for benchmark in scores}):
        titles = [title for title, scores in ours.items() if benchmark in scores]
        pairs = list(itertools.combinations(titles, 2))
        if not pairs:
            continue
        apart = [pair for pair in pairs if _are_apart(*(ours[title][benchmark] for title in pair))]
        swapped = [pair for pair in apart if _are_swapped(*pair, ours, benchmark)]
        others = f" (not {'; '.join(map(' and '.join, swapped))})" if swapped else ""
        count = f"{len(apart) - len(swapped)} of {len(apart)}{others}" if apart else "no such pairs"
        words.append(f"{' '.join(benchmark)} {count}")
    if not words:
        return ""
    return (
        "Pairs of models ranked as in the paper, of the pairs that differ by more than two standard errors: "
        f"{', '.join(words)}."
    )


def _find_entries(groups: Sequence[Group]) -> dict[str, dict[Benchmark, Cell]]:
    """Scores of the paper's models as the paper has them; of several, those that were trained for longest."""
    found: dict[str, dict[Benchmark, Cell]] = {}
    for one in sorted(groups, key=lambda one: one.results[0]["training"]["steps"]):
        result = one.results[0]
        steps = result["training"]["steps"]
        names = {one.title, f"{one.title}, preset paper, {steps:,} steps"}
        if one.title in paper.PROBING and one.name in names:
            scores = {benchmark: one.score(benchmark) for benchmark in one.benchmarks}
            found[one.title] = found.get(one.title, {}) | scores
    return found


def _are_apart(one: Cell, other: Cell) -> bool:
    """By more than two standard errors of their difference."""
    return abs(one.mean - other.mean) > 2 * math.hypot(one.standard_error, other.standard_error)


def _are_swapped(one: str, other: str, ours: dict[str, dict[Benchmark, Cell]], benchmark: Benchmark) -> bool:
    theirs = paper.PROBING[one][benchmark].mean - paper.PROBING[other][benchmark].mean
    return theirs * (ours[one][benchmark].mean - ours[other][benchmark].mean) < 0
