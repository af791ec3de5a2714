"""The scores of trained agents as tables: for the terminal, as Markdown, and as plain data."""

import itertools
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from memory_maze import paper
from memory_maze.episodes.evaluate import describe_few_layouts
from memory_maze.report import layout
from memory_maze.report.cells import MISSING, Cell, is_whole
from memory_maze.report.engines import compare
from memory_maze.report.layout import describe_origin, format_steps, format_time, markdown
from memory_maze.report.online import Group, Row, columns, former_note
from memory_maze.results.schema import ORIGIN
from memory_maze.tasks import TASKS

NOTE = (
    "±: the standard deviation (sd) over n runs with different seeds, or the standard error (se) over n "
    "episodes of one run. Paper: after 100M steps; its oracle is a trained agent that sees the map with the "
    f"path. {paper.mark(paper.TOLD)} is given the object positions during training and is not a baseline. "
    "Our agents are evaluated on held-out layouts, the same on both engines."
)


def make_notes(groups: Sequence[Group]) -> list[str]:
    """The notes below the table."""
    results = [result for one in groups for result in one.results]
    reports = [report for result in results for report in result["evaluations"]]
    few = dict.fromkeys(filter(None, map(describe_few_layouts, reports)))
    former = dict.fromkeys(filter(None, map(former_note, results)))
    return [NOTE, *former, *(f"{sentence}." for sentence in few)]


def make_table(rows: Sequence[Row], groups: Sequence[Group]) -> Table:
    """For the terminal."""
    tasks = columns(groups)
    starts = {
        number
        for number, (before, row) in enumerate(itertools.pairwise(rows), 1)
        if row.source != before.source or row.name in ("IMPALA", paper.mark(paper.TOLD))
    }
    lines, caption = [_line(row, tasks) for row in rows], " ".join(make_notes(groups))
    fold = len(tasks) > len(TASKS)  # so that tables fit in 80 columns
    return layout.make_table(["agent", "from", "±", *tasks], lines, starts, caption, fold)


def make_markdown(rows: Sequence[Row], tasks: Sequence[str]) -> str:
    """The same in Markdown."""
    return markdown(["agent", "from", "±", *tasks], [_line(row, tasks) for row in rows])


def _line(row: Row, tasks: Sequence[str]) -> list[str]:
    source = "paper" if row.source == "paper" else row.engine or MISSING
    return row.line(row.name, source, tasks)


def make_run_table(groups: Sequence[Group]) -> str:
    """Every run: how long it trained, how fast, where and when, in Markdown."""
    header = ["agent", "task", "seed", "steps", "time", "steps a second", "episodes", "layouts"]
    header += ["on", "date", "commit"]
    lines = [[one.name, *_describe_line(result)] for one in groups for result in one.results]
    return markdown(header, lines)


def _describe_line(result: dict[str, Any]) -> list[str]:
    training = result["training"]
    speed, steps = training["steps_per_second"], format_steps(training["steps"])
    if not is_whole(result):
        steps += f" of {format_steps(training['steps_planned'])}"
    return [
        result["task"],
        str(result["seed"]),
        steps,
        format_time(training["seconds"]),
        MISSING if speed is None else f"{speed:,.0f}",
        *_count_episodes(result),
        *describe_origin(result),
    ]


def _count_episodes(result: dict[str, Any]) -> list[str]:
    """How many an agent was scored in, and in how many different layouts."""
    if not result["evaluations"]:
        return [MISSING, MISSING]
    most = max(result["evaluations"], key=lambda report: report["episodes"])
    return [f"{most['episodes']:,}", f"{most['layouts']:,}" if "layouts" in most else MISSING]


def make_engine_table(groups: Sequence[Group]) -> str | None:
    """Every run that was played on both engines, in Markdown; None if there is none."""
    header = ["agent", "task", "seed", "episodes", "JAX", "MuJoCo", "change (95 % interval)"]
    lines = []
    for one in groups:
        for result in one.results:
            if (found := compare(result)) is None:
                continue
            change = f"{found.change:+.1%}"
            if found.interval_95 is not None:
                change += " ({:+.1%} to {:+.1%})".format(*found.interval_95)
            scores = [f"{found.jax:.2f}", f"{found.mujoco:.2f}"]
            where = [one.name, result["task"], str(result["seed"]), str(found.episodes)]
            lines.append([*where, *scores, change])
    return markdown(header, lines) if lines else None


def describe_scores(rows: Sequence[Row], groups: Sequence[Group]) -> dict[str, Any]:
    """Everything in the tables, as plain data."""
    return {
        "rows": [
            {
                "agent": row.name,
                "source": row.source,
                "engine": row.engine,
                "scores": {task: _describe(cell, task) for task, cell in row.cells.items()},
            }
            for row in rows
        ],
        "runs": [_describe_run(one.name, result) for one in groups for result in one.results],
    }


def _describe_run(name: str, result: dict[str, Any]) -> dict[str, Any]:
    keys = ("file", "task", "seed", "loss_version", "training", *ORIGIN, "weights")
    means = {one["engine"]: one["mean"] for one in result["evaluations"]}
    engines = compare(result)
    return (
        {"agent": name}
        | {key: result[key] for key in keys}
        | {"mean_scores": means, "engines": engines and engines._asdict()}
    )


def _describe(cell: Cell, task: str) -> dict[str, Any]:
    described = cell.describe()
    if task in paper.SCORES["Oracle"]:
        described["share_of_oracle"] = cell.mean / paper.SCORES["Oracle"][task].mean
    return described
