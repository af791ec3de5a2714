"""What a queue of runs consists of: agents, data sets, probed models, and measurements of speed."""

import abc
import dataclasses
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Self

import online
import probing
from commands import copy_result, make_command
from machine import ROOT

from memory_maze.agents.folder import RESULT
from memory_maze.data.manifest import read_manifest
from memory_maze.results.metrics import read_metrics
from memory_maze.system.files import replacing

FIGURES = "figures.json"  # of a measurement
_TINY = 0.05  # minutes


@dataclasses.dataclass(frozen=True)
class State:
    """How far an entry is."""

    steps: int
    done: bool
    score: str = ""


@dataclasses.dataclass(frozen=True)
class Entry(abc.ABC):
    """Something to do, in a folder of its own within that of the queue."""

    name: str
    """Also of its folder."""
    arguments: tuple[str, ...]
    """Of its command, beside how long and where."""
    steps: int
    """Planned."""
    needs: str | None = None
    """Name of the entry that has to be done first."""
    least: float = 1.0
    """Minutes that it is worth beginning for."""
    alone: bool = False
    """Nothing else may run meanwhile."""

    @abc.abstractmethod
    def command(self, queue: Path, minutes: float | None) -> list[str]:
        """The words that do it, or go on with it, for so long."""

    @abc.abstractmethod
    def shrink(self) -> Self:
        """The same in a minute on a CPU, for trying the queue."""

    @abc.abstractmethod
    def _read_state(self, folder: Path) -> State: ...

    def read_state(self, queue: Path) -> State:
        """How far it is."""
        try:
            return self._read_state(queue / self.name)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return State(0, done=False, score="its files are damaged")

    def finish(self, queue: Path) -> None:  # noqa: B027 as most have nothing to do
        """Called when the command has ended well."""

    def copy(self, queue: Path, results: Path) -> None:  # noqa: B027 as data sets have none
        """Copies its result, if there is one."""

    @property
    def environment(self) -> dict[str, str]:
        """Variables for its process."""
        return {}


@dataclasses.dataclass(frozen=True)
class Train(Entry):
    """An agent: `memory-maze train`."""

    episodes: int = 100
    """To evaluate it on, on the JAX engine."""

    def command(self, queue: Path, minutes: float | None) -> list[str]:
        how = [*list_schedule(self.steps, minutes), "--evaluate", self.episodes]
        return make_command("train", *self.arguments, *how, "--out", queue / self.name)

    def shrink(self) -> Self:
        arguments = (*self.arguments, "--preset", "debug")
        return dataclasses.replace(self, arguments=arguments, steps=2_000, episodes=2, least=_TINY)

    def _read_state(self, folder: Path) -> State:
        steps, result = count_steps(folder), read_json(folder / RESULT)
        evaluations = [one for one in result.get("evaluations", ()) if one["engine"] == "jax"]
        if not evaluations:
            return State(steps, done=False)
        mean, episodes = evaluations[0]["mean"], evaluations[0]["episodes"]
        done = result["training"]["steps"] >= self.steps and episodes >= self.episodes
        return State(steps, done, f"{mean:.1f} in {episodes} episodes{describe_age(result, steps)}")

    def copy(self, queue: Path, results: Path) -> None:
        copy_result(queue / self.name, results / "online" / f"{self.name}.json")


class Collect(Entry):
    """A data set: `memory-maze collect`. Its steps are trajectories."""

    def command(self, queue: Path, minutes: float | None) -> list[str]:
        return make_command("collect", *self.arguments, "--episodes", self.steps, "--out", queue / self.name)

    def shrink(self) -> Self:
        arguments = (*self.arguments, "--steps", "20", "--evaluation", "4")
        return dataclasses.replace(self, arguments=arguments, steps=40, least=_TINY)

    def _read_state(self, folder: Path) -> State:
        if (manifest := read_manifest(folder)) is None:
            return State(0, done=False)
        count = sum(len(shard.episodes) for shard in manifest.complete(folder))
        return State(count, done=not manifest.missing(folder) and manifest.episodes == self.steps)


class Probe(Entry):
    """A sequence model: `memory-maze probe`."""

    def command(self, queue: Path, minutes: float | None) -> list[str]:
        assert self.needs is not None
        where = ["--data", queue / self.needs, "--out", queue / self.name]
        return make_command("probe", *self.arguments, *list_schedule(self.steps, minutes), *where)

    def shrink(self) -> Self:
        arguments = (*self.arguments, "--preset", "debug", "--trajectories", "4")
        return dataclasses.replace(self, arguments=arguments, steps=20, least=_TINY)

    def _read_state(self, folder: Path) -> State:
        steps = count_steps(folder)
        if not (result := read_json(folder / RESULT)):
            return State(steps, done=False)
        scores = [f"{target} {one['mean']:.2f}" for target, one in result["evaluation"].items()]
        done = probing.is_complete(folder / RESULT, self.steps, tuple(result["targets"]), ())
        return State(steps, done, ", ".join(scores) + describe_age(result, steps))

    def copy(self, queue: Path, results: Path) -> None:
        name = self.name.removeprefix(probing.PREFIX)
        copy_result(queue / self.name, results / "probing" / f"{name}.json")

    @property
    def environment(self) -> dict[str, str]:
        return probing.prefer(self.arguments[0])


@dataclasses.dataclass(frozen=True)
class Measure(Entry):
    """A measurement of speed, `python benchmarks/PROGRAM.py`. If it is stopped, it starts anew."""

    program: str = dataclasses.field(kw_only=True)
    tiny: tuple[str, ...] = ()
    """Further arguments, for trying the queue."""

    def command(self, queue: Path, minutes: float | None) -> list[str]:
        script = ROOT / "benchmarks" / f"{self.program}.py"
        return [sys.executable, str(script), *self.arguments, "--out", str(queue / self.name / "begun.json")]

    def shrink(self) -> Self:
        return dataclasses.replace(self, arguments=(*self.arguments, *self.tiny), least=_TINY)

    def finish(self, queue: Path) -> None:
        # Some write what they have before they are through.
        os.replace(queue / self.name / "begun.json", queue / self.name / FIGURES)

    def _read_state(self, folder: Path) -> State:
        done = (folder / FIGURES).exists()
        return State(int(done), done)

    def copy(self, queue: Path, results: Path) -> None:
        if not (report := read_json(queue / self.name / FIGURES)):
            return
        devices = report.get("devices") or report["results"]["devices"]
        kind = "cpu" if devices.endswith("cpu") else "gpu"
        copy = results / f"{self.program.replace('_', '-')}-{kind}.json"
        if report["date"] >= read_json(copy).get("date", ""):
            with replacing(copy) as path:
                shutil.copyfile(queue / self.name / FIGURES, path)


def train(run: str, seed: int = 0) -> Train:
    """One of the runs of benchmarks/online.py."""
    return Train(f"{run}-{seed}", tuple(online.list_arguments(run, seed)), steps=100_000_000)


def collect(task: str) -> Collect:
    """The data set of a task."""
    return Collect(f"data-{task}", ("--task", task), steps=30_000)


def probe(model: str, task: str, targets: tuple[str, ...], seed: int) -> Probe:
    """One of the runs of benchmarks/probing.py, of the paper's size."""
    name = probing.name_run("paper", model, targets, task, seed)
    words = probing.list_arguments(model, task, targets, "paper", seed, score_every=2_000)
    return Probe(f"{probing.PREFIX}{name}", tuple(words), steps=20_000, needs=f"data-{task}")


def measure(program: str, *arguments: str, tiny: tuple[str, ...]) -> Measure:
    """One of the programs of benchmarks/ that have the option --out, alone on the machine."""
    name = f"measure-{program.replace('_', '-')}"
    return Measure(name, arguments, steps=1, least=5.0, alone=True, program=program, tiny=tiny)


def list_schedule(steps: int, minutes: float | None) -> list[object]:
    """How long to train."""
    return ["--steps", steps, *([] if minutes is None else ["--minutes", f"{minutes:.2f}"])]


def count_steps(folder: Path) -> int:
    """That a run has made."""
    lines = read_metrics(folder)
    return lines[-1]["steps"] if lines else 0


def describe_age(result: dict[str, Any], steps: int) -> str:
    """After how many steps a run was evaluated, if it has gone on since."""
    evaluated = result["training"]["steps"]
    return f" after {shorten(evaluated)} steps" if evaluated != steps else ""


def shorten(number: int) -> str:
    """Like 100M, 45.2M, 20K."""
    for size, unit in ((1_000_000, "M"), (1_000, "K")):
        if number >= size:
            return f"{number / size:.1f}".removesuffix(".0") + unit
    return str(number)


def read_json(path: Path) -> dict[str, Any]:
    """The content of a file; nothing if there is none, or it is damaged."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
