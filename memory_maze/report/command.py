"""The command `memory-maze report`."""

import dataclasses
import importlib.util
import json
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.console import Console

console = Console()


@dataclasses.dataclass(frozen=True)
class Report:
    """Set the scores of trained agents and of probed models beside the paper's; with --out also as Markdown
    and figures."""

    what: tyro.conf.Positional[Literal["online", "probing"]]
    """online: agents that learn by playing; probing: what models remember of recorded episodes."""
    results: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Runs, their result files (result.json of a run, under any name), or folders of these; by default
    results/online or results/probing."""
    out: Path | None = None
    """Folder for report.md, scores.json, curves.png, and episode.png of agents or bars.png and steps.png of
    models; needs `pip install "memory-maze[plots]"`."""
    policies: Path = Path("results/policies.json")
    """What benchmarks/policies.py wrote: the oracle's rewards over the episode are drawn if it is there."""

    def run(self) -> None:
        if self.out is not None and importlib.util.find_spec("matplotlib") is None:
            raise ModuleNotFoundError(
                'figures need matplotlib: pip install "memory-maze[plots]"', name="matplotlib"
            )
        results = self.results or (Path("results") / self.what,)
        written = self._report_online(results) if self.what == "online" else self._report_probing(results)
        for path in written:
            console.print(f"written: {path}", soft_wrap=True)

    def _report_online(self, results: tuple[Path, ...]) -> list[Path]:
        from memory_maze.report.scores import columns, find_results, group, make_rows
        from memory_maze.report.tables import make_table

        groups = group(find_results(results))
        console.print(make_table(make_rows(groups), columns(groups)))
        return [] if self.out is None else write_report(self.out, groups, read_oracle(self.policies))

    def _report_probing(self, results: tuple[Path, ...]) -> list[Path]:
        from memory_maze.report.probing import columns, find_results, group, make_rows, make_table

        groups = group(find_results(results))
        console.print(make_table(make_rows(groups), columns(groups), console.width))
        return [] if self.out is None else write_probing_report(self.out, groups)


def write_report(out: Path, groups: list[Any], oracle: dict[str, list[float]]) -> list[Path]:
    """Writes the tables and the figures that there is something for; returns where they are."""
    from memory_maze.files import replacing
    from memory_maze.report import figures, tables
    from memory_maze.report.scores import columns, make_rows

    curves, episode, scores, page = (
        out / name for name in ("curves.png", "episode.png", "scores.json", "report.md")
    )
    written = _save({curves: figures.draw_curves(groups), episode: figures.draw_episodes(groups, oracle)})
    rows = make_rows(groups)
    with replacing(scores) as path:
        path.write_text(json.dumps(tables.describe_scores(rows, groups), indent=1) + "\n")
    pictures = {
        curves: "Episode returns in training; bands reach from the lowest to the highest run.",
        episode: "Rewards over the episode: who remembers the maze gets faster.",
    }
    parts = ["# Online benchmark", tables.make_markdown(rows, columns(groups)).rstrip(), tables.NOTE]
    parts += [f"![{text}]({path.name})\n\n{text}" for path, text in pictures.items() if path in written]
    if engines := tables.make_engine_table(groups):
        parts += ["## The same mazes on both engines", engines.rstrip()]
    parts += ["## Runs", tables.make_run_table(groups).rstrip()]
    with replacing(page) as path:
        path.write_text("\n\n".join(parts) + "\n")
    return [page, scores, *written]


def write_probing_report(out: Path, groups: list[Any]) -> list[Path]:
    """Writes the tables and the figures that there is something for; returns where they are."""
    from memory_maze.files import replacing
    from memory_maze.report import probing, probing_figures

    rows = probing.make_rows(groups)
    names = ("bars.png", "steps.png", "curves.png", "depths.png")
    bars, steps, curves, depths = (out / name for name in names)
    written = _save(
        {
            bars: probing_figures.draw_bars(rows),
            steps: probing_figures.draw_steps(groups),
            curves: probing_figures.draw_curves(groups),
            depths: probing_figures.draw_depths(groups),
        }
    )
    scores, page = out / "scores.json", out / "report.md"
    with replacing(scores) as path:
        path.write_text(json.dumps(probing.describe_scores(rows, groups), indent=1) + "\n")
    pictures = {
        bars: "Scores of the models: hatched the paper's, filled ours.",
        steps: "Scores over the episode: who remembers the maze knows more and more of it.",
        curves: "Scores while models learn; bands reach from the lowest to the highest run.",
        depths: "Scores by the depth of the probe, beside what it finds where there is nothing to know.",
    }
    parts = ["# Offline probing benchmarks", probing.make_markdown(rows, probing.columns(groups)).rstrip()]
    parts += probing.make_notes(rows)
    parts += [f"![{text}]({path.name})\n\n{text}" for path, text in pictures.items() if path in written]
    parts += ["## Runs", probing.make_run_table(groups).rstrip()]
    with replacing(page) as path:
        path.write_text("\n\n".join(parts) + "\n")
    return [page, scores, *written]


def _save(drawn: dict[Path, Any]) -> list[Path]:
    """Writes figures where there are any; returns where they are."""
    from memory_maze.files import replacing

    written = []
    for place, figure in drawn.items():
        if figure is not None:
            with replacing(place) as path:
                figure.savefig(path, format="png")
            written.append(place)
    return written


def read_oracle(path: Path) -> dict[str, list[float]]:
    """The oracle's rewards in 100 steps by task; nothing without the file."""
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text()).values()
        return {
            one["task"]: one["rewards_per_100_steps"]
            for one in found
            if (one["policy"], one["engine"]) == ("oracle", "jax")
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path}: not what benchmarks/policies.py writes: {error}") from error
