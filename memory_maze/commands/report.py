"""Compare the scores of trained agents, probed models and people with the paper's. With --out, also write
Markdown and figures, or a web page with all results.
"""

import dataclasses
import importlib.util
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.console import Console

from memory_maze.system.extras import missing

console = Console()


@dataclasses.dataclass(frozen=True)
class Command:
    """Its options."""

    what: tyro.conf.Positional[Literal["online", "probing", "human", "page"]]
    """online: trained agents; probing: probed sequence models; human: scores of people; page: all of these
    and the benchmarks, in --out DIR/index.html."""
    paths: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Runs, result files (result.json, under any name), recordings of people, or directories of these; in
    directories, other kinds are skipped. By default results/online, results/probing or --recordings; for a
    page, everything in --results and --recordings."""
    out: Path | None = None
    """Output directory for tables (online.md), data (online.json) and figures (online-curves.png, ...), or
    for index.html. Needs the extra [plots]."""
    results: Path = Path("results")
    """Directory with online/, probing/ and the benchmark results."""
    recordings: Path = Path("recordings")
    """Directory with recordings of people."""
    anonymous: bool = False
    """Replace player names by P1, P2, ... in the order of their first episodes."""
    policies: Path | None = None
    """Output of benchmarks/policies.py, by default policies.json in --results. If it exists, the oracle's
    rewards over the episode are plotted, and its score and a random policy's beside curves over minutes."""

    def run(self) -> None:
        if self.out is not None and importlib.util.find_spec("matplotlib") is None:
            raise missing("figures need matplotlib", "matplotlib", "plots")
        reports = {
            "online": self._report_online,
            "probing": self._report_probing,
            "human": self._report_human,
            "page": self._write_page,
        }
        for path in reports[self.what]():
            console.print(f"written: {path}", soft_wrap=True, markup=False)

    def _report_online(self) -> list[Path]:
        from memory_maze.report.blocks import online_blocks
        from memory_maze.report.layout import note_damaged
        from memory_maze.report.online import group, make_rows
        from memory_maze.report.online_tables import describe_scores, make_table

        found = self._find("online")
        groups = group(found.results)
        rows = make_rows(groups)
        console.print(make_table(rows, groups))
        if self.out is None:
            return []
        blocks = [*online_blocks(groups, self._read_policies()), *note_damaged(found.damaged)]
        return self._write("Online benchmark", blocks, describe_scores(rows, groups))

    def _report_probing(self) -> list[Path]:
        from memory_maze.report.blocks import probing_blocks
        from memory_maze.report.layout import note_damaged
        from memory_maze.report.probing import columns, group, make_rows
        from memory_maze.report.probing_tables import describe_scores, make_table

        found = self._find("probing")
        groups = group(found.results)
        rows = make_rows(groups)
        console.print(make_table(rows, columns(groups), console.width))
        if self.out is None:
            return []
        blocks = [*probing_blocks(groups), *note_damaged(found.damaged)]
        return self._write("Offline probing benchmarks", blocks, describe_scores(rows, groups))

    def _find(self, kind: str) -> Any:
        """Results of a kind; names what is left out."""
        from memory_maze.results.find import find_results

        found = find_results(self.paths or (self.results / kind,), kind)
        warn_of_damage(found.left_out.values())
        return found

    def _report_human(self) -> list[Path]:
        from memory_maze.report import human
        from memory_maze.report.blocks import human_blocks

        folders = self.paths or (self.recordings,)
        found = human.find_recordings(folders, anonymous=self.anonymous)
        warn_of_damage(found.damaged.values())
        human.check_found(found, folders)
        sizes = human.group(found.counted)
        for table in human.make_tables(sizes):
            console.print(table)
        if found.practice:
            console.print(f"left out: {found.practice:,} practice episodes")
        if self.out is None:
            return []
        scores = human.describe_scores(found, sizes, anonymous=self.anonymous)
        return self._write("People", human_blocks(found, sizes, self._read_policies()), scores)

    def _write_page(self) -> list[Path]:
        from memory_maze.report.page import write_page, write_page_of

        if self.out is None:
            raise ValueError("a page needs an output directory: memory-maze report page --out DIR")
        about: dict[str, Any] = {"policies": self._read_policies(), "anonymous": self.anonymous}
        if self.paths:
            made = write_page_of(self.paths, self.out, **about)
        else:
            made = write_page(self.out, self.results, self.recordings, **about)
        warn_of_damage(made.damaged)
        for text in made.missing:
            console.print(f"not in the page: {text}", soft_wrap=True, markup=False)
        return [made.path]

    def _write(self, title: str, blocks: Sequence[Any], scores: dict[str, Any]) -> list[Path]:
        """Writes the tables and the figures that there is something for; returns where they are."""
        from memory_maze.report.markup import write_markdown
        from memory_maze.system.files import replacing

        assert self.out is not None
        page, *pictures = write_markdown(self.out / f"{self.what}.md", title, blocks)
        with replacing(self.out / f"{self.what}.json") as path:
            path.write_text(json.dumps(scores, indent=1) + "\n")
        return [page, self.out / f"{self.what}.json", *pictures]

    def _read_policies(self) -> dict[str, dict[str, list[float]]]:
        from memory_maze.report.blocks import read_policies

        return read_policies(self.policies or self.results / "policies.json")


def warn_of_damage(damaged: Iterable[str]) -> None:
    """Names every file that is left out."""
    for text in damaged:
        console.print(f"left out: {text}", soft_wrap=True, markup=False, style="yellow")
