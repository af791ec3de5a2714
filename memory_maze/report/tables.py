"""Scores as tables: for the terminal, as Markdown, and as plain data."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from memory_maze import paper
from memory_maze.agents.registry import find_config
from memory_maze.episodes.evaluate import describe_few_layouts
from memory_maze.report.engines import compare
from memory_maze.report.scores import (
    MISSING,
    Cell,
    Group,
    Row,
    columns,
    describe_cell,
    describe_spreads,
    format_steps,
    former_version,
    is_finished,
)
from memory_maze.system.provenance import format_seconds
from memory_maze.tasks import TASKS

MARK = "†"
TOLD = "Dreamer (TBTT + Probe loss)"
NOTE = (
    "±: the standard deviation (sd) over n runs with different seeds, or the standard error (se) over n "
    "episodes of one run. Paper: after 100M steps; its oracle is a trained agent that sees the map with the "
    f"path. {TOLD} {MARK}: told where the objects are while it learns, and no baseline. Ours are evaluated "
    "in mazes with layouts that no agent is trained in, the same on both engines."
)


def make_notes(groups: Sequence[Group]) -> list[str]:
    """What is to be known of the table."""
    results = [result for one in groups for result in one.results]
    reports = [report for result in results for report in result["evaluations"]]
    few = dict.fromkeys(filter(None, map(describe_few_layouts, reports)))
    former = dict.fromkeys(find_config(one["agent"]).former_note for one in results if former_version(one))
    return [NOTE, *former, *(f"{sentence}." for sentence in few)]


def make_table(rows: Sequence[Row], groups: Sequence[Group]) -> Table:
    """For the terminal."""
    tasks = columns(groups)
    table = Table("agent", "from", "±", *tasks, caption=" ".join(make_notes(groups)), caption_justify="left")
    for column in table.columns[1:]:
        column.no_wrap = True
    for column in table.columns[3:]:
        column.justify = "right"
    table.columns[0].overflow = "fold"
    last = rows[0].source
    for row in rows:
        if row.source != last or row.name in ("IMPALA", TOLD):
            table.add_section()
        last = row.source
        name, source, spread, *cells = _cells(row, tasks)
        spread = spread.replace(", ", "\n").replace("; ", "\n")
        table.add_row(name, source, spread, *(_fold(cell, len(tasks)) for cell in cells))
    return table


def _fold(cell: str, columns: int) -> str:
    """On several lines, so that tables fit in 80 columns."""
    cell = cell.replace(" (", "\n(")
    return cell if columns <= len(TASKS) else cell.replace(" ±", "\n±")


def make_markdown(rows: Sequence[Row], tasks: Sequence[str]) -> str:
    """The same in Markdown."""
    return markdown(["agent", "from", "±", *tasks], [_cells(row, tasks) for row in rows])


def make_run_table(groups: Sequence[Group]) -> str:
    """Every run: how long it trained, how fast, where and when, in Markdown."""
    header = ["agent", "task", "seed", "steps", "time", "steps a second", "episodes", "layouts"]
    header += ["on", "date", "commit"]
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
                    format_time(training["seconds"]),
                    MISSING if speed is None else f"{speed:,.0f}",
                    *_count_episodes(result),
                    hardware.get("devices") or MISSING,
                    (result["date"] or MISSING)[:10],
                    (result["commit"] or MISSING)[:8],
                ]
            )
    return markdown(header, lines)


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


def format_time(seconds: float | None) -> str:
    """Like 2.5 h, or that it is unknown."""
    return MISSING if seconds is None else format_seconds(seconds)


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
    name = f"{row.name} {MARK}" if row.name == TOLD else row.name
    found = row.cells.values()
    cells = (describe_cell(row.cells[task], found) if task in row.cells else MISSING for task in tasks)
    return [name, source, describe_spreads(cell.spread for cell in found), *cells]


def markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Any table."""
    rule = ["---"] * len(header)
    escaped = ([word.replace("|", "\\|") for word in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, rule, *escaped)) + "\n"
