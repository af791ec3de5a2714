"""Compares the MuJoCo engine with the published package: speed, resets, start and memory, in the same run.

    python benchmarks/reference.py            about 4 minutes; writes results/reference.json
    python benchmarks/reference.py --quick    less than a minute; writes build/reference-quick.json
    python benchmarks/reference.py --record FOLDER
                                              records the published package for the tests instead

Both packages take turns, each in its own process, on the same mazes with the same actions. The
published one is installed into an environment of its own the first time.
"""

import contextlib
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import IO, Any

import tyro
from machine import ROOT, describe_run
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from memory_maze.system.files import replacing

TASKS = ("9x9", "15x15")
PEER_VERSION = "1.0.3"
# The published package itself without its dependencies, which would pull in more than it uses.
PEER_INSTALLS = (
    ("mujoco==3.10.0", "dm_control==1.0.43", "labmaze==1.0.6", "gym==0.26.2", "pillow"),
    ("--no-deps", f"memory-maze=={PEER_VERSION}"),
)
WORKER = ROOT / "benchmarks" / "peer" / "worker.py"
OUT, QUICK_OUT = ROOT / "results" / "reference.json", ROOT / "build" / "reference-quick.json"

MIN_STEP_RATIO, MIN_RESET_RATIO = 6.0, 15.0
MAX_GROWTH_MB, GROWTH_RESETS = 50.0, 1000

console = Console()


@dataclasses.dataclass(frozen=True)
class Config:
    """Compare this package with the published memory-maze 1.0.3."""

    quick: bool = False
    """Measure less, in under a minute: enough to see that everything runs."""
    seed: int = 0
    """Seed of the mazes and of the actions."""
    out: Path | None = None
    """File for the figures [default: results/reference.json, or build/reference-quick.json]."""
    peer_folder: Path = ROOT / "build" / "peer"
    """Virtual environment for the published package; made if it is not there."""
    peer_python: Path | None = None
    """Interpreter that has the published package already; nothing is installed then."""
    record: Path | None = None
    """Measure nothing; record episodes of the published package into this folder (5 minutes)."""


@dataclasses.dataclass(frozen=True)
class Effort:
    """How much is measured of each package and task."""

    starts: int
    """New processes, for the first reset."""
    rounds: int
    """Turns of each package, for the medians."""
    resets: int
    """Resets in each turn."""
    steps: int
    """Steps in each turn, after its resets; less than an episode."""
    warmup: int
    """Resets before the memory is looked at."""
    our_growth_resets: int
    """Resets over which the growth of our memory is measured."""
    peer_growth_resets: int
    """The same for the published package, which takes nearly a second for each."""


FULL = Effort(3, 9, 3, 100, warmup=20, our_growth_resets=GROWTH_RESETS, peer_growth_resets=10)
QUICK = Effort(1, 3, 1, 30, warmup=2, our_growth_resets=100, peer_growth_resets=3)


class BenchmarkError(RuntimeError):
    """Nothing could be measured; the message says why in one line."""


def main(config: Config) -> None:
    if config.record is not None:
        record(config.peer_python or install_peer(config.peer_folder), config.record)
        return
    effort = QUICK if config.quick else FULL
    run = describe_run()
    environment = {**os.environ, "MUJOCO_GL": run["hardware"]["gl_backend"]}
    # Isolated, so that the published package is not shadowed by ours.
    peer = [str(config.peer_python or install_peer(config.peer_folder)), "-I"]
    ours = Side([sys.executable], environment, {"engine": "mujoco"})
    sides = {"ours": ours, "theirs": Side(peer, environment)}
    versions = {name: check_versions(name, side) for name, side in sides.items()}
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("", total=len(TASKS) * len(sides) * (effort.starts + effort.rounds + 1))
        results = {}
        for task in TASKS:
            progress.update(bar, description=task)
            results[task] = compare(task, config.seed, sides, effort, lambda: progress.advance(bar))
    targets = judge(results)
    out = config.out or (QUICK_OUT if config.quick else OUT)
    report = run | {
        "seed": config.seed,
        "quick": config.quick,
        "effort": dataclasses.asdict(effort),
        "versions": versions,
        "results": results,
        "targets": targets,
    }
    with replacing(out) as path:
        path.write_text(json.dumps(report, indent=2) + "\n")
    print_results(results, targets)
    console.print(f"written: {os.path.relpath(out)}", soft_wrap=True)


def record(python: Path, folder: Path) -> None:
    """Shows the recorder's own output, which names each episode."""
    command = [str(python), "-I", str(WORKER.parent / "record.py"), str(folder)]
    if subprocess.run(command, stderr=subprocess.DEVNULL).returncode != 0:
        raise BenchmarkError("the published package could not be recorded")


# Environment of the published package.


def install_peer(folder: Path) -> Path:
    """The interpreter of an environment with the published package; a stamp marks a complete one."""
    python, stamp = folder / "bin" / "python", folder / ".complete"
    wanted = "\n".join(" ".join(arguments) for arguments in PEER_INSTALLS)
    if stamp.is_file() and stamp.read_text() == wanted and python.exists():
        return python
    if folder.exists() and not (folder / "pyvenv.cfg").is_file() and any(folder.iterdir()):
        raise BenchmarkError(f"{folder} is not a virtual environment: choose another --peer-folder")
    with console.status(f"installing memory-maze {PEER_VERSION} into {os.path.relpath(folder)}"):
        run_command("make the environment", [sys.executable, "-m", "venv", "--clear", str(folder)])
        pip = [str(python), "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
        for arguments in PEER_INSTALLS:
            run_command("install the published package", [*pip, *arguments])
    with replacing(stamp) as path:
        path.write_text(wanted)
    return python


def run_command(what: str, command: list[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise BenchmarkError(f"cannot {what}: {last_line(result.stderr or result.stdout)}")


def last_line(text: str) -> str:
    """The last line that names an error, or else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["no reason given"])[-1]


# Workers: one process for each package and task.


@dataclasses.dataclass(frozen=True)
class Side:
    """How to start a worker for one of the two packages."""

    python: list[str]
    environment: dict[str, str]
    keywords: dict[str, Any] = dataclasses.field(default_factory=dict)
    """For the constructors of this package alone."""

    @contextlib.contextmanager
    def start(self) -> Generator["Worker", None, None]:
        # A file rather than a pipe, which would fill up: the published package warns a lot.
        with tempfile.TemporaryFile("w+", errors="replace") as noise:
            try:
                process = subprocess.Popen(
                    [*self.python, str(WORKER)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=noise,
                    text=True,
                    env=self.environment,
                )
            except OSError as error:
                raise BenchmarkError(f"cannot run {self.python[0]}: {error.strerror}") from error
            try:
                yield Worker(self.python[0], process, noise, self.keywords)
            finally:
                process.kill()
                process.communicate()


@dataclasses.dataclass(frozen=True)
class Worker:
    """A process that answers one request at a time."""

    name: str
    process: subprocess.Popen[str]
    noise: IO[str]
    keywords: dict[str, Any]

    def open(self, task: str, seed: int) -> dict[str, Any]:
        """Makes the environment and resets it."""
        return self.ask("open", task=task, seed=seed, keywords=self.keywords)

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        requests, answers = self.process.stdin, self.process.stdout
        assert requests is not None
        assert answers is not None
        with contextlib.suppress(BrokenPipeError):
            requests.write(json.dumps({"do": do, **arguments}) + "\n")
            requests.flush()
        line = answers.readline()
        if not line:
            status = self.process.wait()
            self.noise.seek(0)
            raise BenchmarkError(f"{self.name} ended with {status}: {last_line(self.noise.read())}")
        answer = json.loads(line)
        if "error" in answer:
            raise BenchmarkError(f"{self.name}: {answer['error']}")
        return answer


def check_versions(name: str, side: Side) -> dict[str, str]:
    with side.start() as worker:
        versions = worker.ask("versions")
    found = versions.get("memory-maze", "missing")
    if (found == PEER_VERSION) != (name == "theirs"):
        wanted = PEER_VERSION if name == "theirs" else "this package"
        raise BenchmarkError(f"{side.python[0]}: memory-maze is {found} there, not {wanted}")
    return versions


# Measurements.


def compare(
    task: str, seed: int, sides: dict[str, Side], effort: Effort, tick: Callable[[], None]
) -> dict[str, Any]:
    """The figures of both packages for one task, and their ratios."""
    seconds = measure_starts(task, seed, sides, effort, tick)
    walks, memory = measure_turns(task, seed, sides, effort, tick)
    ours, theirs = (summarize(seconds[name], walks[name], memory[name]) for name in ("ours", "theirs"))
    pictures = [[walk["last_picture"] for walk in walks[name]] for name in ("ours", "theirs")]
    return {
        "ours": ours,
        "theirs": theirs,
        "times_better": {
            "steps_per_second": ours["steps_per_second"] / theirs["steps_per_second"],
            "reset_ms": theirs["reset_ms"] / ours["reset_ms"],
            "first_reset_seconds": theirs["first_reset_seconds"] / ours["first_reset_seconds"],
            "resident_mb": theirs["resident_mb"] / ours["resident_mb"],
        },
        # Both did the same work if every walk ends with the same picture.
        "same_pictures": pictures[0] == pictures[1],
    }


def measure_starts(
    task: str, seed: int, sides: dict[str, Side], effort: Effort, tick: Callable[[], None]
) -> dict[str, list[float]]:
    """Seconds to the end of the first reset, in new processes."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(effort.starts):
        for name, side in sides.items():
            with side.start() as worker:
                seconds[name].append(worker.open(task, seed)["seconds"])
            tick()
    return seconds


def measure_turns(
    task: str, seed: int, sides: dict[str, Side], effort: Effort, tick: Callable[[], None]
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, dict[str, Any]]]:
    """Walks of both packages in turns, then the memory of each."""
    walks: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
    memory = {}
    growth_resets = {"ours": effort.our_growth_resets, "theirs": effort.peer_growth_resets}
    with contextlib.ExitStack() as stack:
        workers = {name: stack.enter_context(side.start()) for name, side in sides.items()}
        for worker in workers.values():
            worker.open(task, seed)
        for _ in range(effort.rounds):
            for name, worker in workers.items():
                walks[name].append(worker.ask("walk", resets=effort.resets, steps=effort.steps))
                tick()
        for name, worker in workers.items():
            resets = growth_resets[name]
            memory[name] = worker.ask("memory", warmup=effort.warmup, resets=resets)
            memory[name]["growth_resets"] = resets
            tick()
    return walks, memory


def summarize(seconds: list[float], walks: list[dict[str, Any]], memory: dict[str, Any]) -> dict[str, Any]:
    """Medians, with what they were taken over."""
    all_figures = {
        "steps_per_second": [walk["steps_per_second"] for walk in walks],
        "reset_ms": [time for walk in walks for time in walk["reset_ms"]],
        "first_reset_seconds": seconds,
    }
    medians = {name: statistics.median(figures) for name, figures in all_figures.items()}
    return medians | memory | {"all": all_figures}


def judge(results: dict[str, Any]) -> list[dict[str, Any]]:
    """The targets, each with the figure reached and whether that passes."""
    targets = []
    for task, result in results.items():
        for name, least in (("steps_per_second", MIN_STEP_RATIO), ("reset_ms", MIN_RESET_RATIO)):
            value = result["times_better"][name]
            target = {"at_least": least, "value": value, "pass": value >= least}
            targets.append({"task": task, "what": f"{name}, times better", **target})
        ours = result["ours"]
        # Fewer resets, as with --quick, prove nothing either way.
        value = ours["growth_mb"] if ours["growth_resets"] >= GROWTH_RESETS else None
        passed = None if value is None else value <= MAX_GROWTH_MB
        target = {"at_most": MAX_GROWTH_MB, "value": value, "pass": passed}
        targets.append({"task": task, "what": f"growth_mb over {GROWTH_RESETS:,} resets", **target})
    return targets


# Tables.

ROWS = (
    ("steps per second", "steps_per_second", "{:.0f}"),
    ("reset, ms", "reset_ms", "{:.1f}"),
    ("start to first reset, s", "first_reset_seconds", "{:.2f}"),
    ("memory, MB", "resident_mb", "{:.0f}"),
    ("its growth, MB / resets", "growth_mb", "{:.1f} / {:,}"),
)


def print_results(results: dict[str, Any], targets: list[dict[str, Any]]) -> None:
    table = Table("task", "", title=f"this package and memory-maze {PEER_VERSION}")
    for column in ("ours", "theirs", "times better"):
        table.add_column(column, justify="right")
    for task, result in results.items():
        for label, key, form in ROWS:
            figures = [
                form.format(result[side][key], result[side]["growth_resets"]) for side in ("ours", "theirs")
            ]
            ratio = result["times_better"].get(key)
            table.add_row(task, label, *figures, f"{ratio:.1f}" if ratio is not None else "")
        table.add_section()
    console.print(table)
    for task, result in results.items():
        same = "the same pictures" if result["same_pictures"] else "DIFFERENT pictures"
        console.print(f"{task}: both packages drew {same}")
    for target in targets:
        console.print(describe_target(target), highlight=False)


def describe_target(target: dict[str, Any]) -> str:
    bound = f"at least {target['at_least']:g}" if "at_least" in target else f"at most {target['at_most']:g}"
    verdict = {True: "[green]pass[/]", False: "[red]missed[/]", None: "not measured"}[target["pass"]]
    value = "" if target["value"] is None else f" ({target['value']:.1f})"
    return f"{target['task']}: {target['what']}, {bound}: {verdict}{value}"


if __name__ == "__main__":
    try:
        main(tyro.cli(Config))
    except (RuntimeError, OSError) as error:
        console.print(f"error: {error}", style="red", soft_wrap=True, markup=False)
        sys.exit(1)
