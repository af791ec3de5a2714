"""What came of a run, in one file for reports: RUN/result.json.

    agent, preset, changes, ablation   what it is: "impala", "fast", what differs from the preset
    task, seed, config                 config.json
    command, date, commit, hardware, versions   of the training, or null where it did not end
    training                           steps, steps_planned, seconds, compile_seconds, steps_per_second
    curve                              at most 200 points of steps, seconds, return, loss_entropy
    weights                            sha256 of agent.safetensors
    evaluations                        of these weights: what `evaluate` reports, one for each engine

Reading it needs no extra.
"""

import contextlib
import hashlib
import json
import math
import os
import statistics
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from memory_maze.agents.folder import CONFIG, METRICS, RESULT, WEIGHTS
from memory_maze.agents.registry import AGENTS, find_config
from memory_maze.system.files import read_small, replacing
from memory_maze.system.locks import lock
from memory_maze.training.log import read_metrics

POINTS = 200
MAX_BYTES = 1 << 26  # of a file that may have come from anywhere
Join = Callable[[list[dict[str, Any]]], dict[str, Any]]  # lines of metrics as one
_FORMAT = 1
_ORIGIN = ("command", "date", "commit", "hardware", "versions")  # unknown where the training was killed
_NUMBER = int | float
# What values are; of a list each item, of a dictionary those that a report reads.
_KINDS: dict[str, Any] = {
    "agent": str,
    "preset": str | None,
    "changes": {},
    "ablation": str | None,
    "task": str,
    "seed": int,
    "command": str | None,
    "date": str | None,
    "commit": str | None,
    "hardware": dict | None,
    "versions": dict | None,
    "config": {},
    "training": {
        "steps": int,
        "steps_planned": int,
        "seconds": _NUMBER | None,
        "compile_seconds": _NUMBER | None,
        "steps_per_second": _NUMBER | None,
    },
    "curve": [
        {
            "steps": int,
            "seconds": _NUMBER | None,
            "return": _NUMBER | None,
            "loss_entropy": _NUMBER | None,
        }
    ],
    "weights": str,
    "evaluations": [
        {
            "task": str,
            "engine": str,
            "mean": _NUMBER,
            "std_error": _NUMBER | None,
            "episodes": int,
            "held_out": bool,
            "rewards_per_100_steps": [_NUMBER],
            "scores": [_NUMBER],
            "weights": str,
        }
    ],
}


def write_result(folder: Path) -> dict[str, Any]:
    """Writes what came of the run that this process has trained; keeps the evaluations of its weights."""
    from memory_maze.system.provenance import describe_origin

    origin = describe_origin()
    with _locked(folder):
        result = describe_run(folder) | origin
        before = (
            _read_file(folder / RESULT)
            if (folder / RESULT).exists()
            else {"evaluations": [], "weights": None}
        )
        result["evaluations"] = [one for one in before["evaluations"] if one["weights"] == result["weights"]]
        if before["weights"] == result["weights"] and before["date"] is not None:
            # The run was complete: they are of the call that trained it.
            result |= {key: before[key] for key in _ORIGIN}
        _write(folder, result)
    return result


def add_evaluation(folder: Path, report: dict[str, Any]) -> bool:
    """Adds what `evaluate` reported of the run's agent, with `weights`: which ones were played.

    It takes the place of an earlier one on the same engine, unless that had more episodes: then nothing is
    changed, and False returned.
    """
    with _locked(folder):
        # Of a run that was killed there is no file yet, and nothing is known of where it was trained.
        result = read_result(folder)
        now = hash_weights(folder)
        if report["weights"] != now:
            raise ValueError(
                f"{folder}: its weights have changed since they were evaluated: evaluate it again"
            )
        if not report["held_out"]:
            raise ValueError(f"{folder}: results are of mazes that no agent is trained in: use held_out")
        if report["task"] != result["task"]:
            raise ValueError(f"{folder} was trained in {result['task']}, not in {report['task']}")
        if result["weights"] != now:  # was trained further, and killed
            result = describe_run(folder)
        kept = [one for one in result["evaluations"] if one["engine"] != report["engine"]]
        same = [one for one in result["evaluations"] if one["engine"] == report["engine"]]
        if any(one["episodes"] > report["episodes"] for one in same):
            return False
        result["evaluations"] = [*kept, report]
        _write(folder, result)
    return True


def read_result(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The result in a JSON file or in the folder of a run, also of one that has not ended."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there: give the folder of a run, or its {RESULT}")
    if not path.is_dir():
        return _read_file(path)
    if (path / RESULT).exists():
        return _read_file(path / RESULT)
    if not is_run(path):
        raise ValueError(f"{path}: no run: it has neither {RESULT} nor {CONFIG} and {METRICS}")
    return describe_run(path)


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a run, not of an agent alone."""
    return all((folder / name).exists() for name in (CONFIG, METRICS, WEIGHTS))


def hash_weights(folder: Path) -> str:
    """Tells weights apart."""
    return hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()


def describe_run(folder: Path) -> dict[str, Any]:
    """The result of a run as its files tell it, without evaluations and without where it was trained."""
    try:
        config = json.loads((folder / CONFIG).read_text())
        lines = read_metrics(folder)
        agent = find_config(config["algorithm"])
        preset, changes = agent.nearest_preset(config["agent"])
        return {
            "format": _FORMAT,
            "agent": config["algorithm"],
            "preset": preset,
            "changes": changes,
            "ablation": agent.ablation(config["agent"]),
            "task": config["task"],
            "seed": config["seed"],
            **dict.fromkeys(_ORIGIN),
            "training": sum_up(lines) | {"steps_planned": config["steps"]},
            "curve": thin(lines),
            "weights": hash_weights(folder),
            "evaluations": [],
            "config": config,
        }
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{folder}: no run, or a damaged one: {_explain(error)}") from error


def sum_up(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """How long a run trained, and how fast when nothing was compiled or evaluated."""
    compiling = [line["compile_seconds"] for line in lines if "compile_seconds" in line]
    steady = [line for line in lines if not _is_slow(line)] or lines
    return {
        "steps": lines[-1]["steps"] if lines else 0,
        "seconds": lines[-1].get("seconds") if lines else None,
        "compile_seconds": sum(compiling) if compiling else None,
        "steps_per_second": statistics.median(line["steps_per_second"] for line in steady) if lines else None,
    }


def _is_slow(line: dict[str, Any]) -> bool:
    """More than training was done since the line before."""
    return any(key == "compile_seconds" or key.startswith("held_out_") for key in line)


def thin(lines: list[dict[str, Any]], join: Join | None = None, points: int = POINTS) -> list[dict[str, Any]]:
    """The curve of a run: neighbouring lines are one point, with the mean of all their episodes."""
    size = max(1, math.ceil(len(lines) / points))
    join = join or _join
    return [join(lines[start : start + size]) for start in range(0, len(lines), size)]


def _join(lines: list[dict[str, Any]]) -> dict[str, Any]:
    ended = [line for line in lines if line["return"] is not None]
    episodes = sum(line["episodes"] for line in ended)
    entropies = [line["loss_entropy"] for line in lines if "loss_entropy" in line]
    return {
        "steps": lines[-1]["steps"],
        "seconds": lines[-1].get("seconds"),
        "return": sum(line["return"] * line["episodes"] for line in ended) / episodes if ended else None,
        "loss_entropy": statistics.fmean(entropies) if entropies else None,
    }


def _read_file(path: Path) -> dict[str, Any]:
    try:
        result = json.loads(read_small(path, MAX_BYTES))
    except ValueError as error:
        raise ValueError(f"{path}: no result, or a damaged one: {error}") from error
    if wrong := _find_wrong(result):
        raise ValueError(f"{path}: no result, or a damaged one: {wrong}")
    return result | _find_labels(result["config"])


def _find_labels(config: dict[str, Any]) -> dict[str, Any]:
    """A preset may have changed since a run: what it is called is what it would be called now."""
    if config.get("algorithm") not in AGENTS or not isinstance(config.get("agent"), dict):
        return {}
    preset, changes = find_config(config["algorithm"]).nearest_preset(config["agent"])
    return {"preset": preset, "changes": changes}


def _find_wrong(result: Any) -> str | None:
    if isinstance(result, dict) and "kind" in result:
        return f"it is of {result['kind']}: memory-maze report {result['kind']} shows it"
    if isinstance(result, dict) and result.get("format", _FORMAT) != _FORMAT:
        return f"its format is {result['format']} and not {_FORMAT}: a newer version may have written it"
    return find_difference(result, {"format": int, **_KINDS}, "it")


def find_difference(value: Any, kind: Any, name: str) -> str | None:
    """The first thing that is not as it should be, in words."""
    if isinstance(kind, dict):
        if not isinstance(value, dict):
            return f"{name} is no object"
        if missing := [key for key in kind if key not in value]:
            return f"{missing[0]} is missing" + ("" if name == "it" else f" in {name}")
        return next(filter(None, (find_difference(value[key], kind[key], key) for key in kind)), None)
    if isinstance(kind, list):
        if not isinstance(value, list):
            return f"{name} is no list"
        return next(filter(None, (find_difference(item, kind[0], name) for item in value)), None)
    return None if isinstance(value, kind) else f"{name} is {value!r}"


def _explain(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _write(folder: Path, result: dict[str, Any]) -> None:
    with replacing(folder / RESULT) as path:
        path.write_text(json.dumps(result, indent=1) + "\n")


@contextlib.contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Two evaluations may end at the same time."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # Windows opens no folders
        yield
        return
    try:
        lock(handle)
        yield
    finally:
        os.close(handle)
