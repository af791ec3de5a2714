"""Results of agents that play. Beside what every result holds (see `schema`):

agent, ablation   "impala" or package.module:Name; what its memory lacks, or null
weights           sha256 of agent.safetensors
evaluations       of these weights: what `evaluate` reports, one for each engine
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

from memory_maze.agents.config import AgentConfig
from memory_maze.agents.folder import CONFIG, METRICS, RESULT, WEIGHTS
from memory_maze.agents.registry import AGENTS, find_config
from memory_maze.results.metrics import read_metrics, sum_up, thin
from memory_maze.results.schema import (
    FORMAT,
    NUMBER,
    ONLINE,
    ORIGIN,
    PROBING,
    Kind,
    ResultError,
    find_kind_of_config,
    read_file,
    write_file,
)
from memory_maze.system.locks import lock
from memory_maze.variants import describe_variant, read_variant

_FIELDS: dict[Any, Any] = {
    "agent": str,
    "ablation": str | None,
    "curve": [{"steps": int, "seconds": NUMBER | None, "return": NUMBER | None}],
    "weights": str,
    "evaluations": [
        {
            "task": str,
            "engine": str,
            "mean": NUMBER,
            "std_error": NUMBER | None,
            "episodes": int,
            "held_out": bool,
            "rewards_per_100_steps": [NUMBER],
            "scores": [NUMBER],
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
        if (folder / RESULT).exists():
            before = read_file(folder / RESULT, KIND)
            if before["weights"] == result["weights"]:
                result["evaluations"] = before["evaluations"]
                if before["date"] is not None:
                    # The run was complete: they are of the call that trained it.
                    result |= {key: before[key] for key in ORIGIN}
        write_file(folder / RESULT, result)
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
            raise ValueError(f"{folder}: its weights changed since the evaluation: evaluate it again")
        if not report["held_out"]:
            raise ValueError(f"{folder}: results need held-out layouts: use held_out")
        if report["task"] != result["task"]:
            raise ValueError(f"{folder} was trained in {result['task']}, not in {report['task']}")
        if result["weights"] != now:  # was trained further, and killed
            result = describe_run(folder)
        kept = [one for one in result["evaluations"] if one["engine"] != report["engine"]]
        same = [one for one in result["evaluations"] if one["engine"] == report["engine"]]
        if any(one["episodes"] > report["episodes"] for one in same):
            return False
        result["evaluations"] = [*kept, report]
        write_file(folder / RESULT, result)
    return True


def read_result(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The result in a JSON file or in the folder of a run, also of one that has not ended."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} not found: give a run directory, or its {RESULT}")
    if not path.is_dir():
        return read_file(path, KIND)
    if (path / RESULT).exists():
        return read_file(path / RESULT, KIND)
    if not is_run(path):
        raise ResultError(f"{path}: not a run: it has neither {RESULT} nor {CONFIG}, {METRICS} and {WEIGHTS}")
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
        if find_kind_of_config(config) == PROBING:
            raise ValueError(f"use memory-maze report {PROBING}")
        lines = read_metrics(folder)
        name = config["algorithm"]
        agent = find_config(name)
        preset, changes = agent.nearest_preset(config["agent"])
        return {
            "format": FORMAT,
            "kind": ONLINE,
            "agent": name,
            "title": agent.title,
            "preset": preset,
            "changes": changes,
            "ablation": agent.ablation(config["agent"]),
            "loss_version": _find_loss_version(agent, config),
            "task": config["task"],
            **describe_variant(*read_variant(config)),
            "seed": config["seed"],
            **dict.fromkeys(ORIGIN),
            "training": sum_up(lines) | {"steps_planned": config["steps"]},
            "curve": thin(lines),
            "weights": hash_weights(folder),
            "evaluations": [],
            "config": config,
        }
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ResultError(f"{folder}: missing or damaged run: {_explain(error)}") from error


def _complete(result: dict[str, Any]) -> dict[str, Any]:
    """A preset may have changed since a run: what it is called is what it would be called now."""
    name, config = result["agent"], result["config"]
    result = {"kind": ONLINE, "title": name, "loss_version": None} | result
    if name not in AGENTS:  # to look at others would run their code
        return result
    agent, values = find_config(name), config.get("agent")
    result["title"] = agent.title
    if isinstance(values, dict):
        result["loss_version"] = result["loss_version"] or _find_loss_version(agent, config)
    if isinstance(values, dict) and config.get("algorithm") == name:
        result["preset"], result["changes"] = agent.nearest_preset(values)
    return result


def _find_loss_version(agent: type[AgentConfig], config: dict[str, Any]) -> int:
    """Of a run by its config.json; those that do not tell it were the first, if it matters."""
    first = agent.former_version(config["agent"]) is not None
    return config.get("loss_version") or (1 if first else agent.loss_version)


def _find_last_date(result: dict[str, Any]) -> str:
    return max([result["date"] or "", *(one.get("date") or "" for one in result["evaluations"])])


def _explain(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


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


KIND = Kind(
    ONLINE,
    _FIELDS,
    _complete,
    identify=lambda result: result["weights"],
    date=_find_last_date,
    remedy="recreate it with memory-maze evaluate {folder}",
)
