"""What a run will need: told before it has cost anybody hours, and refused if there is less."""

import math
import threading
import time
from typing import Any

import jax
from rich.filesize import decimal

from memory_maze.system.cpu import memory_free
from memory_maze.system.provenance import format_seconds
from memory_maze.training.stopping import Tell

_TIMED = 3  # updates
_PATIENCE = 20.0  # seconds


def check_memory(program: jax.stages.Compiled, devices: list[jax.Device], tell: Tell) -> None:
    """Tells how much memory an update needs on these devices, where its arguments are already.

    Refuses if there is less.
    """
    analysis = program.memory_analysis()
    if analysis is None:
        return
    needed = analysis.temp_size_in_bytes + analysis.output_size_in_bytes - analysis.alias_size_in_bytes
    if devices[0].platform == "cpu":
        needed, free, where = needed * len(devices), memory_free(), "this machine"
    else:
        stats = devices[0].memory_stats() or {}
        free, where = stats.get("bytes_limit", needed) - stats.get("bytes_in_use", 0), str(devices[0])
    told = f"an update needs {decimal(needed)} of memory, and {where} has {decimal(free)} free"
    if needed > free:
        raise ValueError(f"{told}: choose a smaller preset, or smaller hyperparameters with --set")
    tell(told)


class Forecast:
    """Tells once how long a run will take, from its first updates.

    Args:
        updates: That are left.
        what: "steps", or what else they are called.
        unit: How many each makes.
        tell: Told in a sentence.
        minutes: After which the run stops, wherever it is.
    """

    def __init__(self, updates: int, what: str, unit: int, tell: Tell, minutes: float = math.inf) -> None:
        self._minutes = minutes
        self._updates, self._what, self._unit, self._tell = updates, what, unit, tell
        self._times: list[float] = [time.perf_counter()]
        self._impatience = threading.Timer(_PATIENCE, self._warn)
        self._impatience.daemon = True
        self._impatience.start()

    def __enter__(self) -> "Forecast":
        return self

    def note(self, metrics: Any) -> None:
        """Called after every update; waits for the first ones."""
        if not self._times:
            return
        jax.block_until_ready(metrics)
        self._impatience.cancel()
        if not metrics.get("updates", 1):  # nothing is learned yet, so it is faster than it will be
            self._times = [time.perf_counter()]
            return
        self._times.append(time.perf_counter())
        if len(self._times) > _TIMED or self._times[-1] - self._times[0] > _PATIENCE:
            seconds = self._times[-1] - self._times[-2]  # the first may be slower than all others
            steps, speed = self._updates * self._unit, self._unit / seconds
            if seconds * self._updates > 60 * self._minutes:
                made = round(60 * self._minutes * speed)
                ends = f"about {made:,} in the {self._minutes:.3g} minutes that are left"
            else:
                ends = f"{steps:,} will take about {format_seconds(seconds * self._updates)}"
            self._tell(f"{speed:,.4g} {self._what} per second: {ends}")
            self._times = []

    def _warn(self) -> None:
        left = format_seconds(_PATIENCE * self._updates)
        self._tell(
            f"the first update is still running after {_PATIENCE:.0f} s: the run will take more than {left}"
        )

    def __exit__(self, *_: object) -> None:
        self._impatience.cancel()
