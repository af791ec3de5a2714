"""Tables of any content: for the terminal and as Markdown."""

from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from memory_maze.report.cells import MISSING
from memory_maze.report.markup import escape_markdown
from memory_maze.system.provenance import format_seconds


def make_table(
    header: Sequence[str], lines: Sequence[Sequence[str]], sections: Container[int], caption: str, fold: bool
) -> Table:
    """For the terminal: a name that may be folded, where it is from, what errors are of, and scores.

    Args:
        header: Of the columns.
        lines: Their cells.
        sections: Numbers of the lines that a rule is above.
        caption: Below the table.
        fold: Scores have their errors on a line of their own, so that many fit.
    """
    table = Table(*header, caption=caption, caption_justify="left")
    for column in table.columns[1:]:
        column.no_wrap = True
    for column in table.columns[3:]:
        column.justify = "right"
    table.columns[0].overflow = "fold"
    for number, (name, source, spread, *scores) in enumerate(lines):
        if number in sections:
            table.add_section()
        spread = spread.replace(", ", "\n").replace("; ", "\n")
        table.add_row(name, source, spread, *(fold_score(score, fold) for score in scores))
    return table


def fold_score(score: str, narrow: bool) -> str:
    """What is in brackets on a line of its own, and the error where there is little room."""
    score = score.replace(" (", "\n(")
    return score.replace(" ±", "\n±") if narrow else score


def markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Any table."""
    rule = ["---"] * len(header)
    escaped = ([word.replace("|", "\\|") for word in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, rule, *escaped)) + "\n"


def format_time(seconds: float | None) -> str:
    """Like 2.5 h, or that it is unknown."""
    return MISSING if seconds is None else format_seconds(seconds)


def format_steps(steps: int) -> str:
    """Like 100M, 1.5M, 20k."""
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if steps >= unit:
            return f"{steps / unit:.1f}".removesuffix(".0") + letter
    return str(steps)


def format_range(steps: Sequence[int]) -> str:
    """Like 500k, or 480k-520k, to two digits."""
    ends = (format_steps(int(float(f"{end:.2g}"))) for end in (min(steps), max(steps)))
    return "-".join(dict.fromkeys(ends))


def describe_origin(result: dict[str, Any]) -> list[str]:
    """Device, date and commit of a run, as the last cells of its line."""
    devices = (result["hardware"] or {}).get("devices")
    return [devices or MISSING, (result["date"] or MISSING)[:10], (result["commit"] or MISSING)[:8]]


def note_damaged(damaged: Iterable[Path]) -> list[str]:
    """The sentence that names what a table lacks; none if it lacks nothing."""
    names = ", ".join(escape_markdown(path.name) for path in damaged)
    return [f"Left out because they are damaged: {names}."] if names else []
