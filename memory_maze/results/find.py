"""Finding results where runs of all kinds, copies of their files and people's recordings are side by side."""

import collections
import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from memory_maze.agents.folder import CONFIG, METRICS, RESULT
from memory_maze.results import online, probing
from memory_maze.results.schema import (
    MAX_BYTES,
    ONLINE,
    PROBING,
    UnfinishedError,
    find_kind,
    find_kind_of_config,
    guess_kind,
)
from memory_maze.system.files import explain, read_small
from memory_maze.system.provenance import short_name

HUMAN = "human"
EPISODES = "episodes"  # within folders of recordings
KINDS = {kind.name: kind for kind in (online.KIND, probing.KIND)}
_READ: dict[str, Callable[[Path], dict[str, Any]]] = {
    ONLINE: online.read_result,
    PROBING: probing.read_result,
}
_MAKERS = {ONLINE: "memory-maze train", PROBING: "memory-maze probe", HUMAN: "memory-maze play"}


class Place(NamedTuple):
    """A result file, or the folder of a run or of recordings."""

    path: Path
    kind: str | None
    """None of a file that is damaged, so that nobody knows."""


@dataclasses.dataclass(frozen=True)
class Found:
    """What is of one kind."""

    results: list[dict[str, Any]]
    """Each with the `file` that it is from."""
    damaged: dict[Path, str]
    """What cannot be read; the text names it and says what to do."""
    unfinished: dict[Path, str]
    """Runs that have no result yet, in the same way."""

    @property
    def left_out(self) -> dict[Path, str]:
        return self.damaged | self.unfinished


def find_results(paths: Sequence[Path], kind: str) -> Found:
    """The results of a kind, in files, in folders of runs and in folders of either; others are passed over.

    Raises `ValueError` if there are none; the message says what there is.
    """
    places = find_places(paths, kind)
    found = read_places(places, kind)
    if not found.results:
        raise ValueError(next(iter(found.left_out.values()), None) or describe_others(paths, places, kind))
    return found


def read_places(places: Iterable[Place], kind: str) -> Found:
    """The results of a kind in some places, of which there may be none."""
    results: dict[Any, dict[str, Any]] = {}
    damaged: dict[Path, str] = {}
    unfinished: dict[Path, str] = {}
    about = KINDS[kind]
    for place in places:
        if place.kind not in (kind, None):
            continue
        try:
            result = _READ[kind](place.path) | {"file": short_name(str(place.path))}
        except UnfinishedError as error:
            unfinished[place.path] = str(error)
            continue
        except (OSError, ValueError) as error:
            damaged[place.path] = explain(error)
            continue
        # A run and a copy of its file are one; the later one has all evaluations.
        same = about.identify(result)
        if same not in results or about.date(results[same]) <= about.date(result):
            results[same] = result
    return Found(list(results.values()), damaged, unfinished)


def find_places(paths: Iterable[Path], kind: str) -> list[Place]:
    """Every result, run and folder of recordings, of all kinds; `kind` is what is looked for."""
    found: dict[Path, Place] = {}
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"{path} not found: give directories or files written by {_MAKERS[kind]}")
        places = _walk(path, set()) if path.is_dir() else [Place(path, _find_kind_of_file(path))]
        found |= {place.path: place for place in places}
    return list(found.values())


def _walk(folder: Path, seen: set[Path]) -> Iterator[Place]:
    """What is in a folder and below it; folders of runs and recordings are one thing each."""
    if (own := folder.resolve()) in seen:  # by a link
        return
    seen.add(own)
    try:
        children = sorted(child for child in folder.iterdir() if not child.name.startswith("."))
    except OSError:
        yield Place(folder, None)
        return
    names = {child.name for child in children}
    if RESULT in names and (kind := _find_kind_of_file(folder / RESULT) or _find_kind_of_run(folder)) != "":
        yield Place(folder, kind)
    elif RESULT not in names and (kind := _find_kind_of_run(folder)) != "":
        yield Place(folder if kind else folder / CONFIG, kind)
    elif EPISODES in names:
        yield Place(folder, HUMAN)
    else:
        for child in children:
            if child.is_dir():
                yield from _walk(child, seen)
            elif child.suffix == ".json" and child.name != CONFIG:
                yield Place(child, _find_kind_of_file(child))


def _find_kind_of_file(path: Path) -> str | None:
    """Of a file of any content: "" if it is no result, None if it is damaged and does not tell."""
    text = ""
    try:
        text = read_small(path, MAX_BYTES)
        return find_kind(json.loads(text)) or ""
    except (OSError, ValueError, RecursionError):
        return guess_kind(text)


def _find_kind_of_run(folder: Path) -> str | None:
    """By its config.json: "" if it is not the folder of a run, None if that is damaged."""
    if not ((folder / CONFIG).exists() and (folder / METRICS).exists()):
        return ""
    try:
        return find_kind_of_config(json.loads(read_small(folder / CONFIG))) or ""
    except (OSError, ValueError, RecursionError):
        return None


def describe_others(paths: Sequence[Path], places: Iterable[Place], kind: str) -> str:
    """That there is nothing of a kind, and what there is."""
    names = " ".join(map(str, paths))
    counts = collections.Counter(place.kind for place in places)
    words = []
    for other in (*KINDS, HUMAN):
        if counts[other] and other != kind:
            what = "recordings of people" if other == HUMAN else _count(counts[other], other)
            words.append(f"{what} (memory-maze report {other} {names})")
    wanted = "recordings of people" if kind == HUMAN else f"{kind} runs"
    if words:
        return f"{names}: no {wanted}, but {' and '.join(words)}"
    return f"{names}: neither {wanted} nor their result files: they are written by {_MAKERS[kind]}"


def _count(number: int, kind: str) -> str:
    return f"{number} {kind} run{'' if number == 1 else 's'}"
