"""How far a run is and how fast, without making the device wait."""

import time
from typing import Any

import jax
import numpy as np

_COUNTED = ("episodes", "return_sum", "updates")


class Meter:
    """Collects metrics on the device and reads them now and then, for reading waits for the device.

    Args:
        every: Seconds between two readings.
        unit: Steps that each metrics are of.
        steps: Made before.
        began: When the run began by `time.perf_counter`, less the time that earlier calls took.
        compile_seconds: How long compiling took; by default that is the first update.
    """

    def __init__(
        self, every: float, unit: int, steps: int, began: float, compile_seconds: float | None = None
    ) -> None:
        self._every, self._unit, self._steps, self._began = every, unit, steps, began
        self._compile_seconds = compile_seconds
        self._since = time.perf_counter()
        self.pending: list[dict[str, jax.Array]] = []

    @property
    def due(self) -> bool:
        # The program runs ahead of the clock: wait for what was asked of it before the last.
        if len(self.pending) > 1:
            jax.block_until_ready(self.pending[-2])
        return time.perf_counter() - self._since > self._every

    def add(self, metrics: dict[str, jax.Array]) -> None:
        # The first call returns when the program is compiled, not when it has run.
        if self._compile_seconds is None:
            self._compile_seconds = time.perf_counter() - self._since
        self.pending.append(metrics)

    def read(self) -> dict[str, Any]:
        """A line for the log: steps, seconds, speed, and the means of all metrics.

        `episodes` and `updates` are counted, and `return_sum` becomes the episodes' mean `return`. Where
        updates are counted, losses and the like are their means: None before the first.
        """
        made = jax.device_get(self.pending)
        now = time.perf_counter()
        self._steps += len(made) * self._unit
        line: dict[str, Any] = {
            "steps": self._steps,
            "seconds": now - self._began,
            "steps_per_second": len(made) * self._unit / (now - self._since),
        }
        if "episodes" in made[0]:
            episodes = int(sum(metrics["episodes"] for metrics in made))
            total = float(sum(metrics["return_sum"] for metrics in made))
            line |= {"episodes": episodes, "return": total / episodes if episodes else None}
        others = [key for key in made[0] if key not in _COUNTED]
        if "updates" in made[0]:
            line["updates"] = int(sum(metrics["updates"] for metrics in made))
            made = [metrics for metrics in made if metrics["updates"]]
        line |= {key: float(np.mean([metrics[key] for metrics in made])) if made else None for key in others}
        if self._compile_seconds:
            line["compile_seconds"], self._compile_seconds = self._compile_seconds, 0.0
        self.pending, self._since = [], now
        return line
