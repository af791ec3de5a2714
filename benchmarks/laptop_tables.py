"""What small agents have learned in minutes on a CPU, as tables: for the terminal and for the documents."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from memory_maze import paper
from memory_maze.report.cells import MISSING, size_of, sort_tasks
from memory_maze.report.layout import format_steps, format_time

POLICIES = ("random", "oracle")


class Table(NamedTuple):
    """Of any content."""

    header: Sequence[str]
    lines: list[list[str]]


def list_scores(results: Iterable[dict[str, Any]], policies: dict[str, Any]) -> Table:
    """Every run that was evaluated, above a random policy and the oracle in the same task."""
    results = [result for result in results if result["evaluations"]]
    header = ["agent", "task", "seed", "time", "cores", "steps", "score"]
    lines = []
    for task in sort_tasks(result["task"] for result in results):
        runs = (result for result in results if result["task"] == task)
        lines += [_describe_run(result) for result in sorted(runs, key=_rank)]
        for policy in POLICIES:
            if report := policies.get(f"{policy} {task} jax"):
                lines.append([policy, task, *4 * [MISSING], _describe_score(report)])
    return Table(header, lines)


def describe_scores(results: Iterable[dict[str, Any]], policies: dict[str, Any]) -> str:
    """All runs in a sentence for each task, like "Dreamer scores 2.1 and 2.3 after 60 min on 2 cores"."""
    results = [result for result in results if result["evaluations"]]
    return " ".join(
        _describe_task(task, [result for result in results if result["task"] == task], policies)
        for task in sort_tasks(result["task"] for result in results)
    )


def _describe_task(task: str, results: Iterable[dict[str, Any]], policies: dict[str, Any]) -> str:
    scores: dict[tuple[str, str, str], list[str]] = {}
    for result in sorted(results, key=_rank):
        key = (name_agent(result), format_time(result["training"]["seconds"]), _count_cores(result))
        scores.setdefault(key, []).append(f"{result['evaluations'][0]['mean']:.1f}")
    clauses = [
        f"{name} scores {join_words(found)} after {time}" + _describe_cores(cores)
        for (name, time, cores), found in scores.items()
    ]
    if report := policies.get(f"random {task} jax"):
        clauses.append(f"a random policy {report['mean']:.1f}")
    return f"In {task}, {'; '.join(clauses)}."


def _describe_cores(cores: str) -> str:
    return "" if cores == MISSING else f" on {cores} core{'' if cores == '1' else 's'}"


def join_words(words: Sequence[str]) -> str:
    """Like "a, b and c"."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _rank(result: dict[str, Any]) -> tuple:
    return size_of(result["task"]), name_agent(result), result["seed"]


def _describe_run(result: dict[str, Any]) -> list[str]:
    training, (report, *_) = result["training"], result["evaluations"]
    return [
        name_agent(result),
        result["task"],
        str(result["seed"]),
        format_time(training["seconds"]),
        _count_cores(result),
        format_steps(training["steps"]),
        _describe_score(report),
    ]


def name_agent(result: dict[str, Any]) -> str:
    """Its title; the preset is small unless it says something else."""
    title, preset = paper.mark(result["title"]), result["preset"]
    return title if preset == "small" else f"{title}, preset {preset}"


def _count_cores(result: dict[str, Any]) -> str:
    return str((result["hardware"] or {}).get("cores", MISSING))


def _describe_score(report: dict[str, Any]) -> str:
    error = report["std_error"]
    return f"{report['mean']:.2f}" + ("" if error is None else f" ± {error:.2f}")


def list_forgetful(report: dict[str, Any]) -> Table:
    """Every agent with its memory, and with one that is reset now and then, in the same mazes."""
    every = next(iter(report.values()))["forget_every"]
    header = ["agent", "task", "seed", "time", "score", f"reset every {every} steps"]
    header.append("difference (95 % interval)")
    lines = [
        [
            name_agent(one),
            one["task"],
            str(one["seed"]),
            format_time(one["seconds"]),
            _describe_score(one["remembering"]),
            _describe_score(one["forgetful"]),
            _describe_change(one),
        ]
        for one in sorted(report.values(), key=_rank)
    ]
    return Table(header, lines)


def _describe_change(one: dict[str, Any]) -> str:
    change = f"{one['change']:+.2f}"
    if one["interval_95"] is None:
        return change
    return change + " ({:+.2f} to {:+.2f})".format(*one["interval_95"])
