"""What came of probing a model, in one file for reports: RUN/result.json.

    kind                               "probing"
    model, title, preset, changes      what it is: a baseline or package.module:Name, and the nearest preset
    state_size, carries, supervised, frozen   of the model; `parameters` are how many numbers it has
    task, seed, config                 config.json, and the size of the mazes
    data                               trajectories trained on, their steps, and what they were collected with
    command, date, commit, hardware, versions   of the call that ended it
    training                           steps, steps_planned, seconds, compile_seconds, steps_per_second
    curve                              at most 200 points: steps, and means of what was logged since the last
    evaluation                         of each target: mean, std_error, trajectories, by_step
    depths                             of further probes, by their hidden layers and targets: mean, std_error

Reading it needs no extra.
"""

import dataclasses
import json
import statistics
from pathlib import Path
from typing import Any

from memory_maze.agents.folder import RESULT
from memory_maze.system.files import read_small, replacing
from memory_maze.training.log import read_metrics
from memory_maze.training.result import MAX_BYTES, sum_up, thin

KIND = "probing"
_FORMAT = 1
_DIGITS = 4  # of scores by step


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
        "format": _FORMAT,
        "kind": KIND,
        **described,
        **describe_origin(),
        "training": sum_up(lines) | {"steps_planned": steps},
        "curve": thin(lines, _join),
        "evaluation": {target: _rounded(figures) for target, figures in evaluation.items()},
    }
    with replacing(folder / RESULT) as path:
        path.write_text(json.dumps(result, indent=1) + "\n")
    return result


def _rounded(figures: dict[str, Any]) -> dict[str, Any]:
    return figures | {"by_step": [round(value, _DIGITS) for value in figures["by_step"]]}


def read_result(path: Path) -> dict[str, Any]:
    """The result in a JSON file or in the folder of a run."""
    path = path / RESULT if path.is_dir() else path
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there: memory-maze probe writes it at the end of a run")
    try:
        result = json.loads(read_small(path, MAX_BYTES))
        if "kind" not in result and "evaluations" in result:
            raise ValueError("it is of an agent that plays: memory-maze report online shows it")
        if result["kind"] != KIND or result["format"] != _FORMAT:
            raise ValueError(f"it is of kind {result['kind']} and format {result['format']}")
        for figures in result["evaluation"].values():
            float(figures["mean"])
            list(figures["by_step"])
        for layers, targets in result.get("depths", {}).items():  # older results have none
            int(layers)
            dict(targets)
        missing = {"model", "title", "task", "seed", "training", "curve", "state_size"} - result.keys()
        if missing:
            raise ValueError(f"{min(missing)} is missing")
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path}: no result of probing, or a damaged one: {error}") from error
    return result


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


def _join(lines: list[dict[str, Any]]) -> dict[str, Any]:
    point = {"steps": lines[-1]["steps"], "seconds": lines[-1]["seconds"]}
    for key in dict.fromkeys(key for line in lines for key in line):
        values = [line[key] for line in lines if key in line]
        if key.startswith(("loss_", "score_", "held_out_")):
            point[key] = statistics.fmean(values)
    return point
