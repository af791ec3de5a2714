"""One web page with the tables and figures of all results; it needs nothing beside it."""

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from memory_maze.report import benchmarks, human, online, probing
from memory_maze.report.blocks import human_blocks, online_blocks, probing_blocks
from memory_maze.report.cells import MISSING
from memory_maze.report.layout import markdown, note_damaged
from memory_maze.report.markup import Block, code, escape_markdown, fill_page, make_html
from memory_maze.report.online import Policies
from memory_maze.results.find import Found, find_places, read_places
from memory_maze.results.schema import ONLINE, PROBING
from memory_maze.system.files import replacing
from memory_maze.system.provenance import find_commit, now, short_name
from memory_maze.version import __version__

TITLE = "Memory Maze: results"
INTRODUCTION = (
    "Memory Maze is a benchmark of long-term memory: in random 3D mazes an agent searches for one coloured "
    "object after another, and its score is how many it finds. This page shows all results of this package "
    "with those of the paper, each with its command, machine and commit."
)
Line = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """A file in results/, and how it is shown."""

    file: str
    title: str
    command: str
    """That writes it."""
    draw: Callable[[dict], str]
    where: str = ""

    @property
    def remedy(self) -> str:
        return code(self.command) + (f" {self.where}" if self.where else "")


@dataclasses.dataclass
class Section:
    """A part of the page."""

    title: str
    blocks: list[Block] = dataclasses.field(default_factory=list)
    missing: list[str] = dataclasses.field(default_factory=list)
    """Which files are not there, and what makes them."""
    damaged: list[str] = dataclasses.field(default_factory=list)

    @property
    def anchor(self) -> str:
        return re.sub(r"[^a-z]+", "-", self.title.lower()).strip("-")


@dataclasses.dataclass(frozen=True)
class Made:
    """A page that was written, and what is not in it."""

    path: Path
    missing: list[str]
    damaged: list[str]


CPU, GPU = "on a CPU", "on a GPU"
# What is in results/ beside the agents and the models, by section.
BENCHMARKS = {
    "Scores without training": (
        Benchmark(
            "policies.json",
            "Policies that receive the state",
            "python benchmarks/policies.py",
            benchmarks.policy_table,
        ),
    ),
    "Checks": (
        Benchmark(
            "equivalence.json",
            "The JAX engine beside MuJoCo",
            "python benchmarks/equivalence.py",
            benchmarks.equivalence_table,
        ),
        Benchmark(
            "generator.json",
            "Our maze generator beside labmaze",
            "python benchmarks/generator.py",
            benchmarks.generator_table,
        ),
        Benchmark(
            "soak-gpu.json", "Millions of steps", "python benchmarks/soak.py", benchmarks.soak_note, GPU
        ),
        Benchmark(
            "resume-cpu.json",
            "Training that was killed",
            "python benchmarks/resume.py",
            benchmarks.resume_note,
            CPU,
        ),
    ),
    "Data sets": (
        Benchmark(
            "explorer.json",
            "The explorer's data sets",
            "python benchmarks/explorer.py",
            benchmarks.explorer_table,
        ),
        Benchmark(
            "data-gpu.json",
            "Collecting and reading, on a GPU",
            "python benchmarks/data.py",
            benchmarks.data_table,
            GPU,
        ),
        Benchmark(
            "data-cpu.json",
            "Collecting and reading, on a CPU",
            "python benchmarks/data.py",
            benchmarks.data_table,
            CPU,
        ),
    ),
    "Speed": (
        Benchmark(
            "reference.json",
            "The MuJoCo engine beside the published package",
            "python benchmarks/reference.py",
            benchmarks.reference_table,
        ),
        Benchmark(
            "generator.json",
            "The maze generator beside labmaze's",
            "python benchmarks/generator.py",
            benchmarks.generator_table,
        ),
        Benchmark(
            "throughput-cpu.json",
            "The JAX engine, on a CPU",
            "python benchmarks/throughput.py",
            benchmarks.throughput_table,
            CPU,
        ),
        Benchmark(
            "throughput-gpu.json",
            "The JAX engine, on a GPU",
            "python benchmarks/throughput.py",
            benchmarks.throughput_table,
            GPU,
        ),
        Benchmark(
            "start.json",
            "Time from process start to the first step",
            "python benchmarks/start.py",
            benchmarks.start_table,
        ),
        Benchmark(
            "training-gpu.json", "Training", "python benchmarks/training.py", benchmarks.training_note, GPU
        ),
        Benchmark(
            "probing-speed-gpu.json",
            "Sequence models",
            "python benchmarks/probing_speed.py",
            benchmarks.probing_speed_table,
            GPU,
        ),
        Benchmark(
            "serve-cpu.json", "Many players at once", "python benchmarks/serve.py", benchmarks.serve_table
        ),
    ),
}


def write_page(
    out: Path, results: Path, recordings: Path, *, policies: Policies, anonymous: bool = False
) -> Made:
    """Writes `out`/index.html: everything that this package's own results are.

    Args:
        out: A folder.
        results: Folder with online, laptop, laptop-smoke, trials, probing, probing-small and the files of
            benchmarks.
        recordings: What people played.
        policies: What the oracle and a random policy score, from `read_policies`.
        anonymous: People are called P1, P2, ...
    """
    sections = [
        _online([results / "online"], policies),
        _laptop([results / "laptop", results / "laptop-smoke"], policies),
        _trials(results / "trials", results / "online", policies),
        _probing([results / "probing"]),
        _probing_small(results / "probing-small"),
        _people([recordings], policies, anonymous),
        *(_benchmarks(title, results, files) for title, files in BENCHMARKS.items()),
    ]
    if not any(section.blocks for section in sections):
        raise ValueError(
            f"no results in {results} and no recordings in {recordings}: give other directories, with "
            "--results and --recordings"
        )
    return _write(out, sections)


def write_page_of(paths: Sequence[Path], out: Path, *, policies: Policies, anonymous: bool = False) -> Made:
    """Writes `out`/index.html: what runs of all kinds and people have come to, in some folders."""
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"{path} not found: give directories of runs or recordings")
    sections = [_online(paths, policies), _probing(paths), _people(paths, policies, anonymous)]
    if not any(section.blocks for section in sections):
        damaged = [text for section in sections for text in section.damaged]
        names = " ".join(map(str, paths))
        raise ValueError(next(iter(damaged), f"{names}: no runs or recordings of people found"))
    for section in sections:
        section.missing = []  # who names folders knows what is not in them
    return _write(out, sections)


def _write(out: Path, sections: Sequence[Section]) -> Made:
    with replacing(out / "index.html") as path:
        path.write_text(make_page(sections), encoding="utf-8")
    missing = [text for section in sections for text in section.missing]
    return Made(out / "index.html", missing, [text for section in sections for text in section.damaged])


def make_page(sections: Iterable[Section]) -> str:
    """The page as HTML."""
    parts = []
    for section in (section for section in sections if section.blocks or section.missing):
        notes = [f"Not here: {text}." for text in section.missing]
        parts.append((section.anchor, section.title, make_html([*section.blocks, *notes])))
    commit = (find_commit() or "")[:8]
    version = f"memory-maze {__version__}" + (f", commit {commit}" if commit else "")
    return fill_page(TITLE, INTRODUCTION, f"Made on {now()[:10]} with {version}.", parts)


def _online(paths: Sequence[Path], policies: Policies, title: str = "Online benchmark") -> Section:
    section, found = _find(title, paths, ONLINE)
    if found.results:
        blocks = online_blocks(online.group(found.results), policies)
        section.blocks = [*blocks, *note_damaged(found.damaged), *_origins(_agent_lines(found.results))]
    return section


def _laptop(folders: Sequence[Path], policies: Policies) -> Section:
    """Agents that a CPU trains in minutes."""
    section = _online(folders, policies, "Small agents on a laptop")
    section.missing = []  # nobody needs them
    return section


def _trials(folder: Path, benchmark: Path, policies: Policies) -> Section:
    """Agents with other values, beside those of the benchmark in the same mazes."""
    section, trials = _find("Trials of other values", [folder], ONLINE)
    section.missing = []  # nobody needs them
    tasks = {result["task"] for result in trials.results}
    others = _find("", [benchmark], ONLINE)[1].results
    beside = [result for result in others if result["task"] in tasks and not result["ablation"]]
    if trials.results:
        blocks = online_blocks(online.group([*trials.results, *beside]), policies)
        section.blocks = [*blocks, *note_damaged(trials.damaged), *_origins(_agent_lines(trials.results))]
    return section


def _find(title: str, paths: Sequence[Path], kind: str) -> tuple[Section, Found]:
    """What there is of a kind, and a section that tells what is damaged, or that there is nothing."""
    found = read_places(find_places([path for path in paths if path.exists()], kind), kind)
    section = Section(title, damaged=list(found.left_out.values()))
    if not (found.results or section.damaged):
        section.missing = [_tell(path, code(f"python benchmarks/{kind}.py")) for path in paths]
    return section, found


def _agent_lines(results: Iterable[dict[str, Any]]) -> list[Line]:
    """How agents were trained and evaluated."""
    lines = []
    for result in sorted(results, key=lambda result: result["file"]):
        name = Path(result["file"]).name
        lines.append(make_origin(f"{name}: training", result))
        for report in result["evaluations"]:
            engine = online.ENGINES.get(report["engine"], report["engine"])
            lines.append(make_origin(f"{name}: evaluation, {engine}", report))
    return lines


def _probing(paths: Sequence[Path], title: str = "Offline probing benchmarks") -> Section:
    section, found = _find(title, paths, PROBING)
    if found.results:
        groups = probing.group(found.results)
        results = [result for one in groups for result in one.results]
        lines = [make_origin(Path(result["file"]).name, result) for result in results]
        section.blocks = [*probing_blocks(groups), *note_damaged(found.damaged), *_origins(lines)]
    return section


def _probing_small(folder: Path) -> Section:
    """Sequence models of a size for CPUs, which are no entries of the benchmark."""
    section = _probing([folder], "Small sequence models")
    section.missing = []
    return section


def _people(paths: Sequence[Path], policies: Policies, anonymous: bool) -> Section:
    section = Section("People")
    found = human.find_recordings([path for path in paths if path.exists()], anonymous=anonymous)
    section.damaged = list(found.damaged.values())
    if found.counted:
        section.blocks = human_blocks(found, human.group(found.counted), policies)
    else:
        name = Path(short_name(str(paths[0])))
        remedy = f"{code(f'memory-maze play --out {name}')} or {code('memory-maze serve')}"
        section.missing = [f"recordings of people, which {remedy} makes"]
    return section


def _benchmarks(title: str, results: Path, files: Iterable[Benchmark]) -> Section:
    section = Section(title)
    lines = []
    for one in files:
        path = results / one.file
        if not path.exists():
            section.missing.append(_tell(path, one.remedy))
            continue
        try:
            report = json.loads(path.read_text())
            section.blocks += [f"## {one.title}", one.draw(report)]
            reports = [report] if "command" in report else report.values()
            lines += [make_origin(one.file, report) for report in reports]
        except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
            raise ValueError(f"{path}: not what {one.command} writes: {error!r}") from error
    section.blocks += _origins(lines)
    return section


def _tell(path: Path, remedy: str) -> str:
    """Which of the results is not there, without folders of this machine."""
    return f"{code('/'.join(path.parts[-2:]))}, which {remedy} makes"


def make_origin(what: str, report: dict[str, Any]) -> Line:
    """Command, machine, commit, date and seed of a result."""
    seeds = [part.get("seed") for part in (report, report.get("settings", {}), report.get("config", {}))]
    commit = (report.get("commit") or MISSING)[:8] + (" with changes" if report.get("dirty") else "")
    date = (report.get("date") or MISSING)[:10]
    command = code(report["command"]) if report.get("command") else MISSING
    seed = next((str(seed) for seed in seeds if seed is not None), MISSING)
    return escape_markdown(what), command, _machine(report), commit, date, seed


def _machine(report: dict[str, Any]) -> str:
    hardware = report.get("hardware") or {}
    words = [hardware.get("cpu"), f"{hardware['cores']} cores" if "cores" in hardware else None]
    words += [f"{hardware['memory_gib']} GiB"] if "memory_gib" in hardware else []
    device = hardware.get("devices") or report.get("devices") or report.get("device")
    words += [device if device and "cpu" not in device else None, hardware.get("gl_renderer")]
    return ", ".join(word for word in words if word) or MISSING


def _origins(lines: Iterable[Line]) -> list[Block]:
    header = ["result", "command", "on", "commit", "date", "seed"]
    unique = list(dict.fromkeys(lines))
    return ["## How it was made", markdown(header, unique)] if unique else []
