"""What a run logged while it trained, and what a result keeps of it. Needs no extra."""

import json
import math
import statistics
from pathlib import Path
from typing import Any

from memory_maze.agents.folder import METRICS
from memory_maze.system.files import check_regular

POINTS = 200
_KEPT = ("loss_", "score_", "held_out_")  # of which a curve has the means


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """All lines that a run wrote; one that was cut off by a crash is left out."""
    try:
        check_regular(folder / METRICS)
        lines = (folder / METRICS).read_text().splitlines()
    except FileNotFoundError:
        return []
    metrics = []
    for line in lines:
        try:
            metrics.append(json.loads(line))
        except ValueError:
            continue
    return metrics


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


def thin(lines: list[dict[str, Any]], points: int = POINTS) -> list[dict[str, Any]]:
    """The curve of a run: neighbouring lines are one point, with the means of what they have."""
    size = max(1, math.ceil(len(lines) / points))
    return [_join(lines[start : start + size]) for start in range(0, len(lines), size)]


def _join(lines: list[dict[str, Any]]) -> dict[str, Any]:
    point = {"steps": lines[-1]["steps"], "seconds": lines[-1].get("seconds")}
    if "return" in lines[-1]:
        point["return"] = _mean_return(lines)
    for key in dict.fromkeys(key for line in lines for key in line):
        values = [line[key] for line in lines if line.get(key) is not None]
        if key.startswith(_KEPT) and values:
            point[key] = statistics.fmean(values)
    return point


def _mean_return(lines: list[dict[str, Any]]) -> float | None:
    """Of all episodes that ended."""
    ended = [line for line in lines if line["return"] is not None]
    episodes = sum(line["episodes"] for line in ended)
    return sum(line["return"] * line["episodes"] for line in ended) / episodes if ended else None
