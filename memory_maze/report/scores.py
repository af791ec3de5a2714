"""The scores of trained agents beside the paper's, from their result files."""

import dataclasses
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from memory_maze import paper
from memory_maze.agents.folder import RESULT
from memory_maze.agents.registry import AGENTS, find_config
from memory_maze.system.provenance import short_name
from memory_maze.tasks import TASKS
from memory_maze.training.result import is_run, read_result

ENGINES = {"jax": "JAX", "mujoco": "MuJoCo"}
MISSING = "-"
_ABLATIONS = ("core", "forget_every")  # values that an ablation's name tells


class Spread(NamedTuple):
    """What follows a ± is: the standard deviation over runs, or the standard error over episodes."""

    kind: Literal["sd", "se"]
    count: int


def find_spread(over: str | None, runs: int, episodes: int | None) -> Spread | None:
    """Of a score with an error over runs, or over episodes."""
    if over == "runs":
        return Spread("sd", runs)
    return Spread("se", episodes) if over and episodes else None


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


def describe_cell(cell: Any, row: Iterable[Any]) -> str:
    """A score with its error; where errors of a row are of both kinds, those over runs say so."""
    kinds = {one.spread.kind for one in row if one.spread}
    mixed = len(kinds) > 1 and cell.spread and cell.spread.kind == "sd"
    return f"{cell} (n={cell.runs})" if mixed else str(cell)


@dataclasses.dataclass(frozen=True)
class Cell:
    """A score."""

    mean: float
    error: float | None
    over: str | None
    """What the error is of: the standard deviation over runs, or the standard error over episodes."""
    runs: int
    episodes: int | None

    @property
    def spread(self) -> Spread | None:
        return find_spread(self.over, self.runs, self.episodes)

    def __str__(self) -> str:
        error = "" if self.error is None else f" ± {self.error:.1f}"
        return f"{self.mean:.1f}{error}"


@dataclasses.dataclass(frozen=True)
class Row:
    """What something scores in each task that it was evaluated in."""

    name: str
    source: str
    """paper or ours."""
    engine: str | None
    cells: dict[str, Cell]


@dataclasses.dataclass(frozen=True)
class Group:
    """Runs that differ in their seeds and tasks alone."""

    name: str
    results: list[dict[str, Any]]

    @property
    def tasks(self) -> list[str]:
        return sort_tasks(result["task"] for result in self.results)

    def of_task(self, task: str) -> list[dict[str, Any]]:
        return [result for result in self.results if result["task"] == task]

    def evaluations(self, task: str, engine: str) -> list[dict[str, Any]]:
        found = [one for result in self.of_task(task) for one in result["evaluations"]]
        return [one for one in found if one["engine"] == engine]

    def common_evaluations(self, task: str, engine: str) -> list[dict[str, Any]]:
        """In the mazes that each run was played in on every engine that it was played on."""
        found = []
        for result in self.of_task(task):
            reports = [one for one in result["evaluations"] if one["task"] == task]
            same = len({one.get("seed") for one in reports}) == 1
            count = min((one["episodes"] for one in reports), default=0)
            found += [_cut(one, count) if same else one for one in reports if one["engine"] == engine]
        return found


def _cut(report: dict[str, Any], count: int) -> dict[str, Any]:
    """The first episodes of an evaluation."""
    if count == report["episodes"]:
        return report
    scores = report["scores"][:count]
    error = statistics.stdev(scores) / math.sqrt(count) if count > 1 else None
    return report | {"episodes": count, "mean": statistics.fmean(scores), "std_error": error}


def find_results(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """The results in files, in folders of runs, and in folders of either."""
    found: dict[str, dict[str, Any]] = {}
    for path in paths:
        for place in _places(path):
            result = read_result(place) | {"file": short_name(str(place))}
            # A run and a copy of its file are one; the later one has all evaluations.
            before = found.get(result["weights"])
            if before is None or _last_date(before) <= _last_date(result):
                found[result["weights"]] = result
    return list(found.values())


def _places(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    if _has_result(path):
        return [path]
    places = [child for child in path.iterdir() if child.suffix == ".json" or _has_result(child)]
    if not places:
        raise ValueError(f"{path}: there are neither result files nor runs in it")
    return sorted(places)


def _has_result(path: Path) -> bool:
    return path.is_dir() and ((path / RESULT).exists() or is_run(path))


def _last_date(result: dict[str, Any]) -> str:
    return max([result["date"] or "", *(one.get("date") or "" for one in result["evaluations"])])


def group(results: Iterable[dict[str, Any]]) -> list[Group]:
    """Runs of one agent, trained for as long; those that were not finished have a name of their own."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for result in sorted(results, key=lambda result: (size_of(result["task"]), result["seed"])):
        groups.setdefault(name_agent(result), []).append(result)
    # What is for comparison comes after what it is compared with, what is not finished last.
    rank = lambda one: (not is_finished(one.results[0]), bool(one.results[0]["ablation"]), one.name)  # noqa: E731
    return sorted((Group(name, members) for name, members in groups.items()), key=rank)


def name_agent(result: dict[str, Any]) -> str:
    """Like "IMPALA, preset fast, no memory, 100M steps"."""
    words = [find_config(result["agent"]).title if result["agent"] in AGENTS else result["agent"]]
    words += [f"preset {result['preset']}"] if result["preset"] else []
    words += [result["ablation"]] if result["ablation"] else []
    hidden = _ABLATIONS if result["ablation"] else ()
    words += [f"{key}={value}" for key, value in result["changes"].items() if key not in hidden]
    former = former_version(result)
    words += [former] if former else []
    steps, planned = result["training"]["steps"], result["training"]["steps_planned"]
    if is_finished(result):
        words.append(f"{format_steps(planned)} steps")
    else:
        words.append(f"unfinished: {format_steps(steps)} of {format_steps(planned)} steps")
    return ", ".join(words)


def former_version(result: dict[str, Any]) -> str | None:
    """Which earlier version of the agent it is of, if its results are not comparable."""
    if result["agent"] not in AGENTS:
        return None
    return find_config(result["agent"]).former_version(result["config"]["agent"])


def is_finished(result: dict[str, Any]) -> bool:
    return result["training"]["steps"] >= result["training"]["steps_planned"]


def format_steps(steps: int) -> str:
    """Like 100M, 1.5M, 20k."""
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if steps >= unit:
            return f"{steps / unit:.1f}".removesuffix(".0") + letter
    return str(steps)


def make_rows(groups: Sequence[Group]) -> list[Row]:
    """The paper's scores, then those of each group on each engine that it was evaluated on."""
    rows = []
    for name, scores in paper.SCORES.items():
        over = {"Oracle": None, "Human": "episodes"}.get(name, "runs")
        runs, episodes = (5, None) if over == "runs" else (1, 10 if over else None)
        cells = {task: Cell(*score, over, runs, episodes) for task, score in scores.items()}
        rows.append(Row(name, "paper", None, cells))
    for one in groups:
        made = []
        for engine, label in ENGINES.items():
            reports = {task: one.common_evaluations(task, engine) for task in one.tasks}
            cells = {task: make_cell(found) for task, found in reports.items() if found}
            if cells:
                made.append(Row(one.name, "ours", label, cells))
        rows += made or [Row(one.name, "ours", None, {})]
    return rows


def make_cell(reports: Sequence[dict[str, Any]]) -> Cell:
    """Of the evaluations of runs with different seeds."""
    means = [report["mean"] for report in reports]
    episodes = sum(report["episodes"] for report in reports)
    if len(means) > 1:
        return Cell(statistics.fmean(means), statistics.stdev(means), "runs", len(means), episodes)
    error = reports[0]["std_error"]
    return Cell(means[0], error, None if error is None else "episodes", 1, episodes)


def sort_tasks(tasks: Iterable[str]) -> list[str]:
    return sorted(set(tasks), key=size_of)


def size_of(task: str) -> int:
    """9 of "9x9"."""
    return int(task.partition("x")[0])


def columns(groups: Sequence[Group]) -> list[str]:
    """The tasks of the benchmark, and others that something was trained in."""
    return sort_tasks([*TASKS, *(task for one in groups for task in one.tasks)])
