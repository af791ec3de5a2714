"""Scores as tables: for the terminal, as Markdown, and as plain data."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from memory_maze import paper
from memory_maze.report.engines import compare
from memory_maze.report.scores import (
    FORMER,
    Cell,
    Group,
    Row,
    columns,
    format_steps,
    has_former_loss,
    is_finished,
)
from memory_maze.tasks import TASKS

MISSING = "-"
NOTE = (
    "Paper: after 100M steps, mean of five runs ± their standard deviation; human: ten episodes ± the "
    "standard error. Ours: mean of n runs with different seeds ± their standard deviation, where n is given; "
    "otherwise one run ± the standard error over its episodes. Ours are evaluated in mazes with layouts that "
    "no agent is trained in."
)
FORMER_NOTE = (
    f"{FORMER[0].upper()}{FORMER[1:]}: trained before 19 November 2026, with a loss in which the value of an episode's "
    "last state ran back into the targets of its last steps."
)


def make_notes(groups: Sequence[Group]) -> list[str]:
    """What is to be known of the table."""
    former = any(has_former_loss(result) for one in groups for result in one.results)
    return [NOTE, *([FORMER_NOTE] if former else [])]


def make_table(rows: Sequence[Row], groups: Sequence[Group]) -> Table:
    """For the terminal."""
    tasks = columns(groups)
    table = Table("agent", "from", *tasks, caption=" ".join(make_notes(groups)), caption_justify="left")
    for column in table.columns[1:]:
        column.no_wrap = True
    for column in table.columns[2:]:
        column.justify = "right"
    table.columns[0].overflow = "fold"
    last = rows[0].source
    for row in rows:
        if row.source != last or row.name in ("IMPALA", "Dreamer (TBTT + Probe loss)"):
            table.add_section()
        last = row.source
        name, source, *cells = _cells(row, tasks)
        table.add_row(name, source, *(_fold(cell, len(tasks)) for cell in cells))
    return table


def _fold(cell: str, columns: int) -> str:
    """On several lines, so that tables fit in 80 columns."""
    cell = cell.replace(" (", "\n(")
    return cell if columns <= len(TASKS) else cell.replace(" ±", "\n±")


def make_markdown(rows: Sequence[Row], tasks: Sequence[str]) -> str:
    """The same in Markdown."""
    return markdown(["agent", "from", *tasks], [_cells(row, tasks) for row in rows])


def make_run_table(groups: Sequence[Group]) -> str:
    """Every run: how long it trained, how fast, where and when, in Markdown."""
    header = ["agent", "task", "seed", "steps", "time", "steps a second", "on", "date", "commit"]
    lines = []
    for one in groups:
        for result in one.results:
            training, hardware = result["training"], result["hardware"] or {}
            speed = training["steps_per_second"]
            steps = format_steps(training["steps"])
            if not is_finished(result):
                steps += f" of {format_steps(training['steps_planned'])}"
            lines.append(
                [
                    one.name,
                    result["task"],
                    str(result["seed"]),
                    steps,
                    format_seconds(training["seconds"]),
                    MISSING if speed is None else f"{speed:,.0f}",
                    hardware.get("devices") or MISSING,
                    (result["date"] or MISSING)[:10],
                    (result["commit"] or MISSING)[:8],
                ]
            )
    return markdown(header, lines)


def make_engine_table(groups: Sequence[Group]) -> str | None:
    """Every run that was played on both engines, in Markdown; None if there is none."""
    header = ["agent", "task", "seed", "episodes", "JAX", "MuJoCo", "change (95 % interval)"]
    lines = []
    for one in groups:
        for result in one.results:
            if (found := compare(result)) is None:
                continue
            low, high = found.interval_95
            change = f"{found.change:+.1%} ({low:+.1%} to {high:+.1%})"
            scores = [f"{found.jax:.2f}", f"{found.mujoco:.2f}"]
            where = [one.name, result["task"], str(result["seed"]), str(found.episodes)]
            lines.append([*where, *scores, change])
    return markdown(header, lines) if lines else None


def format_seconds(seconds: float | None) -> str:
    """Like 2.5 h, 12 min, 8 s."""
    if seconds is None:
        return MISSING
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"


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
    keys = (
        "file",
        "task",
        "seed",
        "training",
        "command",
        "date",
        "commit",
        "hardware",
        "versions",
        "weights",
    )
    means = {one["engine"]: one["mean"] for one in result["evaluations"]}
    engines = compare(result)
    return (
        {"agent": name}
        | {key: result[key] for key in keys}
        | {"mean_scores": means, "engines": engines and engines._asdict()}
    )


def _describe(cell: Cell, task: str) -> dict[str, Any]:
    described: dict[str, Any] = {
        "mean": cell.mean,
        "error": cell.error,
        "error_over": cell.over,
        "runs": cell.runs,
        "episodes": cell.episodes,
    }
    if task in paper.SCORES["Oracle"]:
        described["share_of_oracle"] = cell.mean / paper.SCORES["Oracle"][task].mean
    return described


def _cells(row: Row, tasks: Sequence[str]) -> list[str]:
    source = "paper" if row.source == "paper" else row.engine or MISSING
    return [row.name, source, *(_cell(row, task) for task in tasks)]


def _cell(row: Row, task: str) -> str:
    cell = row.cells.get(task)
    if cell is None:
        return MISSING
    return f"{cell} (n={cell.runs})" if row.source == "ours" and cell.runs > 1 else str(cell)


def markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Any table."""
    rule = ["---"] * len(header)
    escaped = ([word.replace("|", "\\|") for word in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, rule, *escaped)) + "\n"
