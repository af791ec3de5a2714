"""The report of `memory-maze compare-engines`: every figure beside its limit, and pictures side by side."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress
from rich.table import Table

from memory_maze.compare import pictures as drawing
from memory_maze.compare import replay
from memory_maze.compare.record import Job, Record, record_all
from memory_maze.options import Options
from memory_maze.system.files import replacing
from memory_maze.system.programs import cache_programs
from memory_maze.tasks import parse_task
from memory_maze.world import COLORS

VIEWS = {
    "HD": Options(camera_resolution=256),
    "Top": Options(camera_resolution=256, top_camera=True),
    "Vis": Options(good_visibility=True),
    "6CL": Options(randomize_colors=True),
}
_BATCH = 25  # pictures drawn at once


@dataclasses.dataclass(frozen=True)
class Effort:
    """How much is compared on each size."""

    random_runs: int
    """Walks of uniformly random actions, for one action from the same state and for path lengths."""
    forward_runs: int
    """The same, mostly forward: these differ more from run to run."""
    near_runs: int
    """Mazes in which the ball is placed around objects, once for each action."""
    floating_runs: int
    """The same around the floating objects of Vis."""
    steps: int
    """Actions in each of them."""
    episodes: int
    """Episodes of a pilot that walks to each target."""
    episode_steps: int
    """Their length; a whole one has 1000 to 4000."""
    pictures: int
    """States that are drawn at 64x64."""
    view_pictures: int
    """Those of them that are drawn in each of the other views."""
    views: tuple[str, ...] = tuple(VIEWS)
    """Which other views."""


FULL = Effort(1000, 1000, 200, 100, 100, 100, 1000, 100, 25)
QUICK = Effort(100, 100, 50, 25, 100, 10, 500, 25, 5)


@dataclasses.dataclass(frozen=True)
class Check:
    """A figure that is judged, and within which bounds."""

    what: str
    key: str
    form: str
    limit: str
    low: float = -np.inf
    high: float = np.inf

    def passes(self, value: float) -> bool:
        return self.low <= value <= self.high


CHECKS = (
    Check("pictures 64x64: mean PSNR, dB", "psnr_mean", "{:.1f}", "at least 42", low=42),
    Check("lowest PSNR, dB", "psnr_min", "{:.1f}", "at least 32", low=32),
    Check("HD: mean PSNR, dB", "psnr_mean_HD", "{:.1f}", "at least 36", low=36),
    Check("Top: mean PSNR, dB", "psnr_mean_Top", "{:.1f}", "at least 36", low=36),
    Check("Vis: mean PSNR, dB", "psnr_mean_Vis", "{:.1f}", "at least 42", low=42),
    Check("6CL: mean PSNR, dB", "psnr_mean_6CL", "{:.1f}", "at least 42", low=42),
    Check("one action, free: RMS, m", "free_metres", "{:.2g}", "at most 1e-3", high=1e-3),
    Check("one action, free: RMS, rad", "free_radians", "{:.2g}", "at most 2e-3", high=2e-3),
    Check("one action, at walls: RMS, m", "wall_metres", "{:.2g}", "at most 4e-3", high=4e-3),
    Check("one action, at walls: RMS, rad", "wall_radians", "{:.2g}", "at most 1e-2", high=1e-2),
    Check("path of 100 random steps, ratio", "path_random", "{:.3f}", "0.98 to 1.02", 0.98, 1.02),
    Check("its standard error", "path_random_error", "{:.3f}", "at most 0.008", high=0.008),
    Check("path of 100 forward-heavy steps, ratio", "path_forward", "{:.3f}", "0.98 to 1.02", 0.98, 1.02),
    Check("its standard error", "path_forward_error", "{:.3f}", "at most 0.008", high=0.008),
    Check("touches decided differently, share", "touches_share", "{:.2g}", "below 1e-3", high=9.99e-4),
    Check("floating objects: the same", "touches_share_Vis", "{:.2g}", "below 1e-3", high=9.99e-4),
    Check("rewards that differ, share", "rewards_share", "{:.2g}", "below 1e-3", high=9.99e-4),
)


def measure(tasks: tuple[str, ...], effort: Effort, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Figures and pictures of each task."""
    cache_programs()
    jobs = {task: _jobs(task, effort, seed) for task in tasks}
    flat = [job for row in jobs.values() for job in row.values()]
    figures, pictures = {}, {}
    with Progress() as progress:
        bar = progress.add_task("MuJoCo", total=sum(job.runs * job.steps for job in flat))
        records = record_all(flat, lambda actions: progress.advance(bar, actions))
        own = progress.add_task("JAX", total=len(flat) + len(tasks) * (1 + len(effort.views)))
        for task in tasks:
            study = Study(task, effort, seed, lambda: progress.advance(own))
            for name, job in jobs[task].items():
                study.add(name, job, next(records))
            figures[task], pictures[task] = study.finish()
    return figures, pictures


def _jobs(task: str, effort: Effort, seed: int) -> dict[str, Job]:
    jobs = {
        "random": Job(task, "random", seed, 0, effort.random_runs, effort.steps),
        "forward": Job(task, "forward", seed, 0, effort.forward_runs, effort.steps),
        "near": Job(task, "near", seed, 0, effort.near_runs, effort.steps),
        "floating": Job(task, "near", seed, 0, effort.floating_runs, effort.steps, good_visibility=True),
        "pilot": Job(task, "pilot", seed, 0, effort.episodes, effort.episode_steps),
    }
    return {name: job for name, job in jobs.items() if job.runs}


class Study:
    """All that is compared on one task, record by record."""

    def __init__(self, task: str, effort: Effort, seed: int, tick) -> None:
        self.task, self.effort, self.seed, self.tick = parse_task(task), effort, seed, tick
        self.engine = replay.Engine(task)
        self.figures: dict[str, Any] = {}
        self._walks: dict[str, tuple[Job, Record, Any]] = {}
        self._errors: list[tuple[np.ndarray, ...]] = []
        self._touches = {"": [0, 0], "_Vis": [0, 0]}
        self._rewards = [0, 0]
        self._narrow: list[dict[str, Any]] = []

    def add(self, name: str, job: Job, record: Record) -> None:
        """Compares a record action by action, and as a whole where the engine can go on by itself."""
        engine = replay.Engine(job.task, good_visibility=True) if job.good_visibility else self.engine
        outcome = engine.repeat(job, record, follow=True)
        metres, radians = replay.action_errors(record, outcome)
        self._add_touches(job, record, outcome, metres)
        if name in ("random", "forward"):
            self._errors.append((metres, radians, record.wall))
        if job.policy != "near":
            walk = engine.repeat(job, record, follow=False)
            self._walks[name] = (job, record, walk)
            self._add_walk(name, record, walk)
        self.tick()

    def _add_touches(self, job: Job, record: Record, outcome: replay.Outcome, metres: np.ndarray) -> None:
        touches = replay.compare_touches(record, outcome)
        counts = self._touches["_Vis" if job.good_visibility else ""]
        counts[0] += touches.count
        counts[1] += len(touches.apart)
        self._rewards[0] += int(((record.reward > 0) | (outcome.reward > 0)).sum())
        self._rewards[1] += int((record.reward != outcome.reward).sum())
        gaps = replay.gaps(job, record, touches.apart) if len(touches.apart) else []
        for (run, t, _), gap in zip(touches.apart, gaps, strict=True):
            error, wall = float(metres[run, t]), bool(record.wall[run, t])
            where = {"policy": job.policy, "floating": job.good_visibility, "at_wall": wall}
            self._narrow.append(where | {"gap_metres": gap, "error_metres": error})

    def _add_walk(self, name: str, record: Record, walk: replay.Outcome) -> None:
        places = replay.own_places(record, walk), replay.reference_places(record)
        rewards = walk.reward, record.reward
        lengths = [replay.path_lengths(way) for way in places]
        statistics = {
            "runs": len(record.actions),
            "steps": record.actions.shape[1],
            "return": replay.describe_both(*[found.sum(axis=1) for found in rewards]),
            "metres": replay.describe_both(*lengths),
            "cells": replay.describe_both(*[replay.cells_visited(way, self.task) for way in places]),
        }
        waits = [replay.steps_between_rewards(found) for found in rewards]
        if all(map(len, waits)):
            statistics["steps_between_rewards"] = replay.describe_both(*waits, paired=False)
        self.figures[f"statistics_{name}"] = statistics
        ratio, error = replay.ratio_of_means(*lengths)
        self.figures |= {f"path_{name}": ratio, f"path_{name}_error": error}

    def finish(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The figures, and pictures that show them."""
        figures = self.figures
        metres, radians, wall = (
            np.concatenate([row.ravel() for row in column]) for column in zip(*self._errors, strict=True)
        )
        for name, chosen in (("free", ~wall), ("wall", wall)):
            figures[f"{name}_actions"] = int(chosen.sum())
            figures[f"{name}_metres"] = replay.rms(metres[chosen])
            figures[f"{name}_radians"] = replay.rms(radians[chosen])
            figures[f"{name}_median_metres"] = float(np.median(metres[chosen]))
        for suffix, (count, apart) in self._touches.items():
            if count:
                figures[f"touches{suffix}"], figures[f"touches_apart{suffix}"] = count, apart
                figures[f"touches_share{suffix}"] = apart / count
        figures["rewards"], figures["rewards_apart"] = self._rewards
        figures["rewards_share"] = self._rewards[1] / max(self._rewards[0], 1)
        figures["touches_apart_closely"] = self._narrow
        return figures, self._draw()

    def _draw(self) -> dict[str, Any]:
        jobs, records = zip(*[self._walks[name][:2] for name in ("random", "forward")], strict=True)
        scenes = replay.choose_scenes(list(jobs), list(records), self.effort.pictures, self.seed)
        pictures = {"64": self._compare_view("", Options(), self.engine, scenes)}
        few = scenes[: self.effort.view_pictures]
        for name in self.effort.views:
            options = VIEWS[name]
            shown = recolor(few, self.seed) if options.randomize_colors else few
            same = options.camera_resolution == 64 and not options.good_visibility
            engine = self.engine if same else replay.Engine(self.task.name, **_changes(options))
            pictures[name] = self._compare_view(f"_{name}", options, engine, shown)
        return {"pairs": pictures, "walks": self._walks}

    def _compare_view(self, suffix: str, options: Options, engine: replay.Engine, scenes) -> Any:
        batches = [scenes[i : i + _BATCH] for i in range(0, len(scenes), _BATCH)]
        ours = np.concatenate([engine.draw(batch) for batch in batches])
        theirs = replay.draw_reference(self.task, options, scenes)
        decibels = replay.psnr(ours, theirs)
        self.figures[f"pictures{suffix}"] = len(scenes)
        self.figures[f"psnr_mean{suffix}"] = float(decibels.mean())
        self.figures[f"psnr_min{suffix}"] = float(decibels.min())
        self.tick()
        return ours, theirs, decibels


def recolor(scenes, seed: int):
    """The same states with objects in any of the six colours."""
    rng, result = np.random.RandomState(seed), []
    for scenario, state in scenes:
        colors = tuple(rng.permutation(len(COLORS))[: len(scenario.objects)].tolist())
        result.append((dataclasses.replace(scenario, colors=colors), state))
    return result


def _changes(options: Options) -> dict[str, Any]:
    """The keywords that differ from the default."""
    default = dataclasses.asdict(Options())
    return {key: value for key, value in dataclasses.asdict(options).items() if value != default[key]}


def judge(figures: dict[str, Any], effort: Effort) -> list[dict[str, Any]]:
    """Every figure beside its limit; path lengths vary too much to be judged by fewer runs than all."""
    rows = []
    for check in CHECKS:
        values = {task: found[check.key] for task, found in figures.items() if check.key in found}
        passed = {task: check.passes(value) for task, value in values.items()}
        if values and (effort == FULL or not check.key.startswith("path_")):
            row = {"what": check.what, "limit": check.limit, "form": check.form, "values": values}
            rows.append(row | {"passed": passed})
    return rows


def write_report(
    out: Path, tasks: tuple[str, ...], effort: Effort, seed: int, about: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Compares on each task; writes figures.json and pictures, and returns the report."""
    figures, pictures = measure(tasks, effort, seed)
    checks = judge(figures, effort)
    report = (about or {}) | {
        "seed": seed,
        "effort": dataclasses.asdict(effort),
        "passed": all(all(check["passed"].values()) for check in checks),
        "checks": checks,
        "figures": figures,
    }
    with replacing(out / "figures.json") as path:
        path.write_text(json.dumps(report, indent=2) + "\n")
    drawing.save_all(out, pictures)
    return report


def check_table(report: dict[str, Any]) -> Table:
    """What `checks` says, for the terminal."""
    tasks = list(report["figures"])
    table = Table("JAX engine against MuJoCo", "limit", *tasks, "")
    for check in report["checks"]:
        cells = [_cell(check, task) for task in tasks]
        passed = all(check["passed"].values())
        table.add_row(check["what"], check["limit"], *cells, "[green]pass" if passed else "[red]FAIL")
    return table


def _cell(check: dict[str, Any], task: str) -> str:
    if task not in check["values"]:
        return ""
    text = check["form"].format(check["values"][task])
    return text if check["passed"][task] else f"[red]{text}"


def statistics_table(report: dict[str, Any]) -> Table:
    """Means over runs: JAX, MuJoCo, and the 95 % interval of their difference."""
    tasks = list(report["figures"])
    table = Table("means, JAX / MuJoCo (95 % of the difference)", *tasks)
    first = report["figures"][tasks[0]]
    for walk in [key for key in first if key.startswith("statistics_")]:
        for name in [key for key, value in first[walk].items() if isinstance(value, dict)]:
            cells = [_pair(report["figures"][task][walk][name]) for task in tasks]
            table.add_row(f"{walk.removeprefix('statistics_')}: {name.replace('_', ' ')}", *cells)
    return table


def _pair(pair: dict[str, Any]) -> str:
    low, high = pair["difference_95"]
    return f"{pair['jax']:.3g} / {pair['mujoco']:.3g} ({low:+.2g} to {high:+.2g})"
