"""The `memory-maze` command."""

import dataclasses
import difflib
import importlib.util
import os
import platform
import signal
import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated, Literal, get_args

import tyro
from rich.console import Console
from rich.table import Table

from memory_maze import __version__
from memory_maze.data.collect_command import Collect, Convert
from memory_maze.data.export_command import Export
from memory_maze.data.inspect_command import Inspect
from memory_maze.evaluate_command import Evaluate
from memory_maze.extras import missing
from memory_maze.files import check_writable, explain
from memory_maze.limits import check_between
from memory_maze.play.play_command import Play
from memory_maze.probing.command import Probing
from memory_maze.probing.pictures_command import ProbePictures
from memory_maze.report.command import Report
from memory_maze.sampler import check_seed
from memory_maze.scenario import Scenario
from memory_maze.tasks import TASKS, get_task
from memory_maze.training.command import Train
from memory_maze.training.export_command import ExportAgent
from memory_maze.training.stopping import RunStoppedError, is_computing
from memory_maze.watch.video_command import Video
from memory_maze.web.command import Serve

console = Console()
MAX_EPISODE = 10_000  # of a scenario: those before are drawn too


@dataclasses.dataclass(frozen=True)
class Demo:
    """Walk at random through all four sizes; writes a contact sheet, all variants, and a video."""

    out: Path = Path("demo")
    """Folder for the results."""
    steps: int = 120
    """Steps of each walk."""
    seed: int = 12
    """Seed of the mazes and of the walks."""
    fps: int = 8
    """Pictures a second in the video; the benchmark itself runs at 4 steps a second."""
    engine: Literal["jax", "mujoco"] = "jax"
    """What simulates and draws; MuJoCo needs the extra [mujoco] and OpenGL."""

    def run(self) -> None:
        from memory_maze.demo import run_demo

        check_between(1, 1000, steps=self.steps)  # an episode of 9x9
        check_between(1, 100, fps=self.fps)
        check_seed(self.seed)
        check_writable(self.out / "walk.mp4")
        for what, path in run_demo(self.out, self.steps, self.seed, self.fps, self.engine).items():
            console.print(f"{what}: {path}", soft_wrap=True)


@dataclasses.dataclass(frozen=True)
class Tasks:
    """List the tasks and how their mazes are drawn."""

    def run(self) -> None:
        table = Table("task", "cells", "objects", "steps", "seconds", "rooms at most", "room size")
        for name, task in TASKS.items():
            rooms = f"{task.room_min_size}-{task.room_max_size}"
            row = [
                f"{task.size}x{task.size}",
                task.objects,
                task.episode_steps(),
                task.seconds,
                task.max_rooms,
            ]
            table.add_row(name, *map(str, row), rooms)
        console.print(table)


@dataclasses.dataclass(frozen=True)
class ShowScenario:
    """Draw a random scenario, or read one; print its map, and save it with --out."""

    read: Annotated[Path | None, tyro.conf.Positional] = None
    """A scenario or text map to read and check instead of drawing one."""
    task: str = "9x9"
    """Task to draw from."""
    seed: int = 0
    """Seed to draw with."""
    episode: int = 0
    """Which episode of the seed, if no target is reached in those before."""
    out: Path | None = None
    """File to save the scenario to, as JSON."""

    def run(self) -> None:
        if self.read is not None:
            scenario = Scenario.load(self.read)
        else:
            from memory_maze.sampler import Sampler

            check_between(0, MAX_EPISODE, episode=self.episode)
            sampler = Sampler(get_task(self.task), self.seed)
            for _ in range(self.episode + 1):
                scenario = sampler.sample()
        print(scenario.to_text())
        if self.out is not None:
            scenario.save(self.out)
            console.print(f"saved: {self.out}", soft_wrap=True)


@dataclasses.dataclass(frozen=True)
class Info:
    """Show versions and what each engine would run on; include this in bug reports."""

    def run(self) -> None:
        table = Table(show_header=False)
        for package in ("memory-maze", "jax", "gymnasium", "dm-env", "numpy"):
            table.add_row(package, _version(package))
        table.add_row("python", platform.python_version())
        table.add_row("JAX devices", _devices())
        table.add_section()
        mujoco = _version("mujoco")
        table.add_row("mujoco (optional)", mujoco)
        if mujoco != _MISSING:
            table.add_row("its OpenGL backend", _opengl())
            exact = "yes" if mujoco == REFERENCE_MUJOCO else f"no: that takes mujoco {REFERENCE_MUJOCO}"
            table.add_row("moves exactly as published", exact)
        console.print(table)


REFERENCE_MUJOCO = "3.10.0"
_MISSING = "not installed"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return _MISSING


def _devices() -> str:
    """What batches run on, or why nothing does."""
    from memory_maze.machine import describe_devices

    try:
        return describe_devices()
    except (ImportError, RuntimeError) as error:
        return f"none: {error}"


def _opengl() -> str:
    """The backend that draws, or why none does."""
    try:
        from memory_maze.simulation import Simulation

        simulation = Simulation("9x9", seed=0, engine="mujoco")
        simulation.reset()
        backend = simulation.engine.backend or "none"
        simulation.close()
    except (ImportError, RuntimeError) as error:
        return f"none: {error}"
    return backend


@dataclasses.dataclass(frozen=True)
class CompareEngines:
    """Compare the JAX engine with the MuJoCo reference; writes figures, limits and pictures side by side."""

    out: Path = Path("comparison")
    """Folder for figures.json and the pictures."""
    tasks: tuple[str, ...] = tuple(TASKS)
    """Which tasks."""
    quick: bool = False
    """Compare less, in a few minutes; all of it takes about half an hour on two cores."""
    seed: int = 1000
    """Seed of mazes and actions."""

    def run(self) -> None:
        if importlib.util.find_spec("PIL") is None:
            raise missing("this needs PIL", "PIL", "video")
        from memory_maze.compare import report as comparison

        check_seed(self.seed)
        check_writable(self.out / "figures.json")
        for task in self.tasks:
            get_task(task)
        effort = comparison.QUICK if self.quick else comparison.FULL
        report = comparison.write_report(self.out, self.tasks, effort, self.seed)
        console.print(comparison.statistics_table(report))
        console.print(comparison.check_table(report))
        console.print(f"written: {self.out}", soft_wrap=True)
        if not report["passed"]:
            raise RuntimeError("the engines are further apart than they may be")


Command = (
    Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[Tasks, tyro.conf.subcommand("tasks")]
    | Annotated[ShowScenario, tyro.conf.subcommand("scenario")]
    | Annotated[Info, tyro.conf.subcommand("info")]
    | Annotated[Play, tyro.conf.subcommand("play")]
    | Annotated[Serve, tyro.conf.subcommand("serve")]
    | Annotated[Evaluate, tyro.conf.subcommand("evaluate")]
    | Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Probing, tyro.conf.subcommand("probe")]
    | Annotated[ProbePictures, tyro.conf.subcommand("probe-pictures")]
    | Annotated[ExportAgent, tyro.conf.subcommand("export-agent")]
    | Annotated[Report, tyro.conf.subcommand("report")]
    | Annotated[Collect, tyro.conf.subcommand("collect")]
    | Annotated[Convert, tyro.conf.subcommand("convert")]
    | Annotated[Inspect, tyro.conf.subcommand("inspect")]
    | Annotated[Export, tyro.conf.subcommand("export")]
    | Annotated[Video, tyro.conf.subcommand("video")]
    | Annotated[CompareEngines, tyro.conf.subcommand("compare-engines")]
)


def main(arguments: list[str] | None = None) -> None:
    """Memory Maze: 3D mazes that measure how well an agent remembers."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:
        print(f"memory-maze {__version__}")
        return
    _check_command(arguments)
    command = tyro.cli(
        Command,
        prog="memory-maze",
        description="Memory Maze: 3D mazes that measure how well an agent remembers. --version tells which.",
        args=arguments,
    )
    try:
        command.run()
    except RunStoppedError as stopped:
        Console(stderr=True).print(f"stopped: {stopped}", soft_wrap=True, markup=False)
        sys.exit(stopped.exit_code)
    except (ValueError, OSError, RuntimeError, ImportError) as error:
        Console(stderr=True).print(f"error: {explain(error)}", style="red", soft_wrap=True, markup=False)
        sys.exit(1)
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted")
        if is_computing():
            os._exit(128 + signal.SIGINT)
        sys.exit(128 + signal.SIGINT)


def _check_command(arguments: list[str]) -> None:
    """Of a mistyped command the parser says no more than that it does not know it."""
    names = [get_args(kind)[1].name for kind in get_args(Command)]
    if not arguments or arguments[0].startswith("-") or arguments[0] in names:
        return
    near = difflib.get_close_matches(arguments[0], names, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
    Console(stderr=True).print(
        f"error: no command {arguments[0]!r}: {hint}", style="red", soft_wrap=True, markup=False
    )
    sys.exit(2)


if __name__ == "__main__":
    main()
