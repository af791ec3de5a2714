"""Check every file of a data set and print statistics. Exits with code 1 if a check fails."""

import dataclasses
import importlib.util
import json
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from memory_maze.system.extras import missing

console = Console()
_SHOWN = 20  # of the problems; all are in the JSON file


@dataclasses.dataclass(frozen=True)
class Command:
    """Its options."""

    path: tyro.conf.Positional[str]
    """A directory of scenes or NPZ files, a zip file of NPZ files, a single NPZ file, or hub:owner/name."""
    json: Path | None = None
    """File for the statistics and all problems (.json)."""
    out: Path | None = None
    """Output directory for trajectories with maps, plots and a video; needs the extras [video,plots]. None
    are made by default: checking alone needs no extras and compiles nothing."""

    def run(self) -> None:
        from memory_maze.data import hub
        from memory_maze.data.inspect import inspect
        from memory_maze.data.schema import DataError
        from memory_maze.system.files import check_writable, replacing

        if self.out is not None:
            _require_extras()
        if self.json is not None:
            check_writable(self.json)
        source = hub.fetch(self.path) if hub.is_name(self.path) else Path(self.path)
        with Progress(
            *Progress.get_default_columns()[:2],
            MofNCompleteColumn(),
            TextColumn("files, remaining"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        ) as progress:
            bar = progress.add_task("checking", total=None)
            found = inspect(source, lambda done, total: progress.update(bar, completed=done, total=total))
        report = found.report()
        if found.figures is not None:
            console.print(make_table(report))
        if self.json is not None:
            with replacing(self.json) as path:
                path.write_text(json.dumps(report, indent=2) + "\n")
            console.print(f"written: {self.json}", soft_wrap=True)
        if self.out is not None and found.figures is not None:
            from memory_maze.watch.inspect_pictures import write_pictures

            for path in write_pictures(self.out, found):
                console.print(f"written: {path}", soft_wrap=True)
        _print_list("note", found.remarks)
        _print_list("problem", found.problems)
        if found.problems:
            raise DataError(f"{self.path}: {len(found.problems):,} problems found")


def _print_list(what: str, lines: list[str]) -> None:
    for line in lines[:_SHOWN]:
        console.print(f"{what}: {line}", soft_wrap=True, markup=False, highlight=False)
    if len(lines) > _SHOWN:
        console.print(f"and {len(lines) - _SHOWN:,} more: --json FILE writes all of them")


def make_table(report: dict[str, Any]) -> Table:
    """The statistics as a table."""
    title = f"{report['size']}x{report['size']}, {report['objects']} objects, {report['format']}"
    table = Table(title=title, show_header=False)
    splits = ", ".join(f"{count:,} {split}" for split, count in report["splits"].items())
    table.add_row("trajectories", f"{report['trajectories']:,} ({splits})")
    shortest, longest = report["steps_per_trajectory"]
    each = f"{shortest:,}" if shortest == longest else f"{shortest:,} to {longest:,}"
    table.add_row("steps", f"{report['steps']:,} ({each} each)")
    table.add_row("bytes", f"{report['bytes']:,} ({report['bytes_per_step']:,.1f} per step)")
    table.add_row("different layouts", f"{report['layouts']:,}")
    table.add_section()
    table.add_row("reward", _spread(report["reward"], 2))
    table.add_row("free cells visited", _spread(report["visited_share"], 1, 100, " %"))
    table.add_row("cells revisited", _spread(report["revisits"], 1))
    table.add_row("distance walked", _spread(report["distance_cells"], 1, unit=" cells"))
    table.add_row(
        "actions", "\n".join(f"{name} {100 * share:.1f} %" for name, share in report["actions"].items())
    )
    table.add_section()
    baseline = report["constant_baseline"]
    paper = baseline.get("paper")
    for what, key, unit in (("walls", "walls_percent", " %"), ("objects", "objects_squared_error", "")):
        beside = f" (paper {paper[key]:.1f}{unit})" if paper else ""
        table.add_row(f"constant baseline, {what}", f"{baseline[key]:.1f}{unit}{beside}")
    return table


def _spread(values: dict[str, float], digits: int, factor: float = 1, unit: str = "") -> str:
    mean, std = (f"{factor * values[key]:,.{digits}f}" for key in ("mean", "std"))
    return f"{mean}{unit} (std {std}{unit})"


def _require_extras() -> None:
    """Before minutes of checking, not after."""
    for module in ("imageio", "imageio_ffmpeg", "PIL", "matplotlib"):
        if importlib.util.find_spec(module) is None:
            raise missing(f"images need {module}", module, "video,plots")
