"""Scores with what they are of: the cells, rows and groups of runs that every report has."""

import dataclasses
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from memory_maze.variants import name_task, read_variant

MISSING = "-"
_SLACK = 1.0  # seconds
_FAR = 10  # times the steps made: a plan that nobody waits for
Name = TypeVar("Name")


class Spread(NamedTuple):
    """What follows a ± is: the standard deviation over runs, or the standard error over episodes."""

    kind: Literal["sd", "se"]
    count: int


def describe_spreads(spreads: Iterable[Spread | None]) -> str:
    """Of all scores in a row, like "se, n=100"."""
    counts: dict[str, set[int]] = {}
    for spread in spreads:
        if spread:
            counts.setdefault(spread.kind, set()).add(spread.count)
    words = [f"{kind}, n={_describe_range(found)}" for kind, found in sorted(counts.items())]
    return "; ".join(words) or MISSING


def _describe_range(counts: set[int]) -> str:
    return "-".join(f"{count:,}" for count in sorted({min(counts), max(counts)}))


@dataclasses.dataclass(frozen=True)
class Cell:
    """A score."""

    mean: float
    error: float | None
    over: Literal["runs", "episodes"] | None
    """What the error is of: the standard deviation over runs, or the standard error over episodes."""
    runs: int
    episodes: int | None
    """Of all runs together; those of data sets are trajectories."""
    seeds: tuple[int, ...] = ()
    """Of the runs, where they are ours."""

    @property
    def spread(self) -> Spread | None:
        """None where there is no error, or nobody knows over how many episodes."""
        if self.over == "runs":
            return Spread("sd", self.runs)
        return Spread("se", self.episodes) if self.over and self.episodes else None

    @property
    def standard_error(self) -> float:
        return (self.error or 0.0) / (math.sqrt(self.runs) if self.over == "runs" else 1)

    def __str__(self) -> str:
        if self.error is None:
            return f"{self.mean:.1f}"
        return f"{self.mean:.1f} ± {self.error:.{2 if 0 < self.error < 0.05 else 1}f}"

    def describe(self, unit: str = "episodes") -> dict[str, Any]:
        """Plain data, with the name that episodes have in this report."""
        return {
            "mean": self.mean,
            "error": self.error,
            "error_over": unit if self.over == "episodes" else self.over,
            "runs": self.runs,
            "seeds": list(self.seeds),
            unit: self.episodes,
        }


def make_cell(reports: Sequence[dict[str, Any]], seeds: Sequence[int], unit: str = "episodes") -> Cell:
    """Of the evaluations of runs with these seeds; `unit` is what each calls its episodes."""
    means = [report["mean"] for report in reports]
    episodes = sum(report[unit] for report in reports)
    if len(means) > 1:
        error = statistics.stdev(means)
        return Cell(statistics.fmean(means), error, "runs", len(means), episodes, tuple(seeds))
    error = reports[0]["std_error"]
    return Cell(means[0], error, None if error is None else "episodes", 1, episodes, tuple(seeds))


def describe_cell(cell: Cell, row: Iterable[Cell]) -> str:
    """A score with its error; where errors of a row are of both kinds, those over runs say so."""
    kinds = {one.spread.kind for one in row if one.spread}
    mixed = len(kinds) > 1 and cell.spread and cell.spread.kind == "sd"
    return f"{cell} (n={cell.runs})" if mixed else str(cell)


@dataclasses.dataclass(frozen=True)
class Row:
    """What something scores in each column that it was evaluated in."""

    name: str
    source: Literal["paper", "ours"]
    cells: dict[Any, Cell]

    def line(self, name: str, source: str, columns: Sequence[Any]) -> list[str]:
        """A line of a table: name, source, what errors are of, and scores."""
        found = self.cells.values()
        scores = (describe_cell(self.cells[one], found) if one in self.cells else MISSING for one in columns)
        return [name, source, describe_spreads(cell.spread for cell in found), *scores]


@dataclasses.dataclass(frozen=True)
class Group:
    """Runs that differ in their seeds and in what they are scored in alone."""

    name: str
    results: list[dict[str, Any]]

    @property
    def tasks(self) -> list[str]:
        return sort_tasks(result["task"] for result in self.results)

    def of_task(self, task: str) -> list[dict[str, Any]]:
        """The latest run of each seed."""
        return keep_latest(result for result in self.results if result["task"] == task)


def keep_latest(results: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The latest of each seed, in the order of seeds."""
    by_date = sorted(results, key=lambda result: result["date"] or "")
    latest = {result["seed"]: result for result in by_date}
    return [latest[seed] for seed in sorted(latest)]


def gather(
    results: Iterable[dict[str, Any]], name: Callable[[dict[str, Any]], Name]
) -> dict[Name, list[dict[str, Any]]]:
    """Results by their names, in the order of tasks and seeds, and of dates."""
    by_name: dict[Name, list[dict[str, Any]]] = {}
    rank = lambda result: (size_of(result["task"]), result["seed"], result["date"] or "")  # noqa: E731
    for result in sorted(results, key=rank):
        by_name.setdefault(name(result), []).append(result)
    return by_name


def describe_trained(result: dict[str, Any], former: str | None) -> list[str]:
    """Words that tell what was trained, for its name: the variant of its task, and a former loss."""
    words = [former] if former else []
    if variant := name_task(*read_variant(result)).partition(", ")[2]:
        words.append(f"variant {variant}")
    return words


def is_finished(result: dict[str, Any]) -> bool:
    return result["training"]["steps"] >= result["training"]["steps_planned"]


def is_timed(result: dict[str, Any]) -> bool:
    """Whether a run trained for all its `--minutes`, and its steps were planned as no more than a limit.

    The slices of a queue end by `--minutes` too, but their runs go on until all steps are done.
    """
    minutes, training = result["config"].get("minutes"), result["training"]
    if minutes is None or training["seconds"] is None or is_finished(result):
        return False
    trained = training["seconds"] >= 60 * minutes - _SLACK
    return trained and training["steps_planned"] > _FAR * training["steps"]


def is_whole(result: dict[str, Any]) -> bool:
    """Whether a run did what it was to do."""
    return is_finished(result) or is_timed(result)


def sort_tasks(tasks: Iterable[str]) -> list[str]:
    return sorted(set(tasks), key=size_of)


def size_of(task: str) -> int:
    """9 of "9x9"."""
    return int(task.partition("x")[0])
