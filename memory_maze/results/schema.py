"""What comes of any run, in one file for reports: RUN/result.json.

    format, kind                 1, and "online" (an agent that plays) or "probing" (a model that is probed)
    title, preset, changes       what was trained: its name, the nearest preset, the values that differ
    loss_version                 results of different versions are not comparable; null where it is not known
    task, task_settings, options what the run was told; the last two only where they are not the task's own
    seed, config                 what else it was told
    command, date, commit, hardware, versions   of the call that ended it, or null where it was killed
    training                     steps, steps_planned, seconds, compile_seconds, steps_per_second
    curve                        at most 200 points of what was logged, with steps and seconds

What else there is in each kind, `online` and `probing` say. Older files lack the kind, the title and the
version: reading adds them. It needs no extra.
"""

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memory_maze.agents.folder import CONFIG, RESULT
from memory_maze.system.files import read_small, replacing
from memory_maze.variants import read_variant

ONLINE, PROBING = "online", "probing"
FORMAT = 1
MAX_BYTES = 1 << 26  # of a file that may have come from anywhere
ORIGIN = ("command", "date", "commit", "hardware", "versions")  # unknown where the training was killed
NUMBER = int | float

# What values are: of a list each item, of a dictionary those that a report reads, or all if a key is `str`.
COMMON: dict[Any, Any] = {
    "preset": str | None,
    "changes": {},
    "task": str,
    "seed": int,
    "config": {},
    "command": str | None,
    "date": str | None,
    "commit": str | None,
    "hardware": dict | None,
    "versions": dict | None,
    "training": {
        "steps": int,
        "steps_planned": int,
        "seconds": NUMBER | None,
        "compile_seconds": NUMBER | None,
        "steps_per_second": NUMBER | None,
    },
    "curve": [{"steps": int}],
}
_OPTIONAL: dict[Any, Any] = {"title": str, "loss_version": int | None, "options": {}, "task_settings": {}}


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of run."""

    name: str
    """In files, and for `memory-maze report`."""
    fields: dict[Any, Any]
    """What values are beside the common ones, as `find_difference` reads it."""
    complete: Callable[[dict[str, Any]], dict[str, Any]]
    """Adds to the content of a checked file what older ones lack; `ValueError` if it makes no sense."""
    identify: Callable[[dict[str, Any]], Any]
    """What is the same of a run and of a copy of its file."""
    date: Callable[[dict[str, Any]], str]
    """When the content of a file was last changed."""
    remedy: str
    """How a run's damaged file is made again, after `remove it, and `."""

    @property
    def run(self) -> str:
        """In sentences."""
        return f"{'an' if self.name == ONLINE else 'a'} {self.name} run"


class ResultError(ValueError):
    """A result that cannot be read; the message names the file and says what to do."""


class UnfinishedError(ResultError):
    """There is a run, but no result of it yet."""


def write_file(path: Path, result: dict[str, Any]) -> None:
    """Writes it whole."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(result, indent=1) + "\n")


def read_file(path: Path, kind: Kind) -> dict[str, Any]:
    """The checked content of a result file."""
    try:
        content = json.loads(read_small(path, MAX_BYTES))
        if (told := find_kind(content)) in {ONLINE, PROBING} - {kind.name}:
            raise ResultError(f"{path}: not {kind.run}: use memory-maze report {told}")
        if wrong := _find_wrong(content, kind):
            raise ValueError(wrong)
        return kind.complete(content)
    except ResultError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        text = f"{path}: not a valid result of {kind.run}: {error}"
        raise ResultError(f"{text}: {_find_remedy(path, kind)}") from error


def find_kind(content: Any) -> str | None:
    """The kind of a result by the content of its file; None if it is none."""
    if not isinstance(content, dict):
        return None
    if isinstance(told := content.get("kind"), str):
        return told
    return ONLINE if "evaluations" in content else None  # before there were others


def find_kind_of_config(config: Any) -> str | None:
    """The kind of a run by what config.json says of it."""
    if not isinstance(config, dict):
        return None
    if isinstance(told := config.get("kind"), str):
        return told
    return ONLINE if "algorithm" in config else PROBING if "model" in config else None


def guess_kind(text: str) -> str | None:
    """The kind by what is left of a damaged file; None if that does not tell."""
    if told := re.search(r'"kind":\s*"(\w+)"', text):
        return told[1]
    return ONLINE if '"evaluations"' in text or '"agent"' in text else None


def _find_wrong(content: Any, kind: Kind) -> str | None:
    if not isinstance(content, dict):
        return "it is no object"
    if (told := find_kind(content)) not in (kind.name, None):
        return f"its kind is {told!r:.40}: a newer version may have written it"
    if content.get("format", FORMAT) != FORMAT:
        return (
            f"its format is {content['format']!r:.40} and not {FORMAT}: a newer version may have written it"
        )
    optional = {key: _OPTIONAL[key] for key in _OPTIONAL.keys() & content.keys()}
    fields = {"format": int} | COMMON | kind.fields | optional
    if wrong := find_difference(content, fields, "it"):
        return wrong
    read_variant(content)
    return None


def find_difference(value: Any, kind: Any, name: str) -> str | None:
    """The first thing that is not as it should be, in words."""
    if isinstance(kind, dict):
        if not isinstance(value, dict):
            return f"{name} is no object"
        if str in kind:
            kind = dict.fromkeys(value, kind[str])
        if missing := [key for key in kind if key not in value]:
            return f"{missing[0]} is missing" + ("" if name == "it" else f" in {name}")
        return next(filter(None, (find_difference(value[key], kind[key], key) for key in kind)), None)
    if isinstance(kind, list):
        if not isinstance(value, list):
            return f"{name} is no list"
        return next(filter(None, (find_difference(item, kind[0], name) for item in value)), None)
    return None if isinstance(value, kind) else f"{name} is {value!r:.40}"


def _find_remedy(path: Path, kind: Kind) -> str:
    if path.name == RESULT and (path.parent / CONFIG).exists():
        return f"remove it, and {kind.remedy.format(folder=path.parent)}"
    return "copy it again from its run, or remove it"
