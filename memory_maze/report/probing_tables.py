"""The scores of probed models as tables: for the terminal, as Markdown, and as plain data."""

import itertools
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from memory_maze import paper
from memory_maze.paper import STATE_SIZE, Benchmark
from memory_maze.report import layout
from memory_maze.report.cells import MISSING, is_finished
from memory_maze.report.layout import describe_origin, format_time, markdown
from memory_maze.report.probing import UNIT, Group, Row
from memory_maze.results.schema import ORIGIN

STAR = "*"
NOTE = (
    "Walls: percentage of cells predicted correctly, higher is better. Objects: squared position error, "
    "lower is better. Both are means over the second half of held-out trajectories. "
    "±: the standard deviation (sd) over n runs with different seeds, or the standard error (se) over n "
    "trajectories of one run. Paper: after 1M gradient steps."
)
_NARROW, _WIDE = 80, 100  # characters: scores are folded below the second, for names are long


def make_notes(rows: Sequence[Row]) -> list[str]:
    """The notes below a table."""
    sizes: dict[str, set[int]] = {}
    for row in rows:
        if row.is_marked and row.state_size is not None:
            sizes.setdefault(row.title, set()).add(row.state_size)
    if not sizes:
        return [NOTE]
    words = (f"{title} {' and '.join(f'{n:,}' for n in sorted(found))}" for title, found in sizes.items())
    return [NOTE, f"Rows marked {STAR} have a state size other than {STATE_SIZE:,}: {'; '.join(words)}."]


def make_table(rows: Sequence[Row], benchmarks: Sequence[Benchmark], width: int = _NARROW) -> Table:
    """For a terminal of so many characters."""
    header = ["model", "from", "±", *map("\n".join, benchmarks)]
    pairs = itertools.pairwise(rows)
    starts = {number for number, (before, row) in enumerate(pairs, 1) if row.source != before.source}
    lines, caption = [_line(row, benchmarks) for row in rows], "\n".join(make_notes(rows))
    fold = width < _WIDE or len(benchmarks) > len(paper.BENCHMARKS)
    return layout.make_table(header, lines, starts, caption, fold)


def make_markdown(rows: Sequence[Row], benchmarks: Sequence[Benchmark]) -> str:
    """The same in Markdown."""
    header = ["model", "from", "±", *map(" ".join, benchmarks)]
    return markdown(header, [_line(row, benchmarks) for row in rows])


def _line(row: Row, benchmarks: Sequence[Benchmark]) -> list[str]:
    return row.line(row.name + STAR if row.is_marked else row.name, row.source, benchmarks)


def make_run_table(groups: Sequence[Group]) -> str:
    """Every run: how long it trained, how fast, on what, where and when, in Markdown."""
    header = ["model", "task", "targets", "seed", "gradient steps", "time", "steps a second"]
    header += ["1M steps take", "trajectories", "on", "date", "commit"]
    lines = [[one.name, *_describe_line(result)] for one in groups for result in one.results]
    return markdown(header, lines)


def _describe_line(result: dict[str, Any]) -> list[str]:
    training = result["training"]
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
        *describe_origin(result),
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
                "scores": {" ".join(one): cell.describe(UNIT) for one, cell in row.cells.items()},
            }
            for row in rows
        ],
        "runs": [_describe_run(one.name, result) for one in groups for result in one.results],
    }


def _describe_run(name: str, result: dict[str, Any]) -> dict[str, Any]:
    keys = ("file", "task", "targets", "seed", "state_size", "loss_version", "training", "data", *ORIGIN)
    means = {target: figures["mean"] for target, figures in result["evaluation"].items()}
    hours = hours_for_million(result)
    return (
        {"model": name}
        | {key: result[key] for key in keys}
        | {"hours_for_million_steps": hours, "mean_scores": means}
    )
