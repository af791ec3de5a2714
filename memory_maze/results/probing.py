"""Results of probed models. Beside what every result holds (see `schema`):

model              a baseline, or package.module:Name
state_size, carries, supervised, frozen   of the model; `parameters` are how many numbers it has
targets            what its probes were asked for
data               trajectories trained on, their steps, and what they were collected with
evaluation         of each target: mean, std_error, trajectories, by_step
depths             of further probes, by their hidden layers and targets: mean, std_error
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

from memory_maze.agents.folder import CONFIG, METRICS, RESULT
from memory_maze.results.metrics import read_metrics, sum_up, thin
from memory_maze.results.schema import (
    FORMAT,
    NUMBER,
    PROBING,
    Kind,
    UnfinishedError,
    find_difference,
    find_kind_of_config,
    read_file,
    write_file,
)
from memory_maze.system.files import read_small

# 1: the walls' probe was trained by the mean over cells; 2: by their sum, as in the paper's program.
LOSS_VERSION = 2
_DIGITS = 4  # of scores by step
_FIGURES: dict[Any, Any] = {"mean": NUMBER, "std_error": NUMBER | None}
_FIELDS: dict[Any, Any] = {
    "title": str,
    "model": str,
    "state_size": int,
    "carries": bool,
    "targets": [str],
    "data": {"trajectories": int},
    "evaluation": {str: _FIGURES | {"trajectories": int, "by_step": [NUMBER]}},
}


def write_result(
    folder: Path,
    described: dict[str, Any],
    evaluation: dict[str, Any],
) -> dict[str, Any]:
    """Writes what came of a run: what it is, and how it was scored."""
    from memory_maze.system.provenance import describe_origin

    lines = read_metrics(folder)
    steps = described["config"]["steps"]
    result = {
        "format": FORMAT,
        "kind": PROBING,
        "loss_version": LOSS_VERSION,
        **described,
        **describe_origin(),
        "training": sum_up(lines) | {"steps_planned": steps},
        "curve": thin(lines),
        "evaluation": {target: _rounded(figures) for target, figures in evaluation.items()},
    }
    write_file(folder / RESULT, result)
    return result


def _rounded(figures: dict[str, Any]) -> dict[str, Any]:
    return figures | {"by_step": [round(value, _DIGITS) for value in figures["by_step"]]}


def read_result(path: Path) -> dict[str, Any]:
    """The result in a JSON file or in the folder of a run that has ended."""
    file = path / RESULT if path.is_dir() else path
    if file.exists():
        return read_file(file, KIND)
    if is_run(path):
        raise UnfinishedError(f"{path}: {_describe_unfinished(path)}")
    raise FileNotFoundError(f"{file} not found: memory-maze probe writes it at the end of a run")


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a run."""
    try:
        config = json.loads(read_small(folder / CONFIG))
    except (OSError, ValueError):
        return False
    return find_kind_of_config(config) == PROBING and (folder / METRICS).exists()


def _describe_unfinished(folder: Path) -> str:
    steps = sum_up(read_metrics(folder))["steps"]
    return f"not evaluated yet, after {steps:,} gradient steps: run memory-maze probe again to resume"


def find_preset(config: Any, presets: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """The nearest preset, and the values that differ from it; neither for models that have none."""
    if config is None:
        return None, {}
    differences = {}
    for name, preset in presets.items():
        pairs = [(field.name, getattr(config, field.name)) for field in dataclasses.fields(config)]
        differences[name] = {key: value for key, value in pairs if getattr(preset, key) != value}
    nearest = min(differences, key=lambda name: len(differences[name]))
    return nearest, differences[nearest]


def describe_data(result: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """What tells the data of runs apart; the steps follow from the trajectories."""
    values = {key: value for key, value in sorted(result["data"].items()) if key != "steps"}
    return tuple((key, value if isinstance(value, int) else str(value)) for key, value in values.items())


def find_interleave(result: dict[str, Any]) -> int | None:
    """How many batches were learned from in turn; None of models that carry no state, to which it is one."""
    # Runs before there was a choice learned from one, until it had ended.
    return result["config"].get("interleave", 1) if result["carries"] else None


def _complete(result: dict[str, Any]) -> dict[str, Any]:
    depths = result.get("depths", {})
    if wrong := find_difference(depths, {str: {str: _FIGURES}}, "depths"):
        raise ValueError(wrong)
    for layers in depths:
        int(layers)
    return {"loss_version": None, "depths": {}} | result


def _identify(result: dict[str, Any]) -> str:
    """A run and its repetition are one."""
    keys = ("model", "title", "preset", "changes", "loss_version", "task", "task_settings", "options", "seed")
    about: list[Any] = [result.get(key) for key in keys]
    about += [result["training"][key] for key in ("steps", "steps_planned")]
    about += [sorted(result["targets"]), describe_data(result), find_interleave(result)]
    return json.dumps(about, sort_keys=True)


KIND = Kind(
    PROBING,
    _FIELDS,
    _complete,
    identify=_identify,
    date=lambda result: result["date"] or "",
    remedy="recreate it with the same memory-maze probe command",
)
