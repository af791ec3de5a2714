"""How a run ends before its time: asked to, or because its numbers are none."""

import math
import signal
import time
from typing import Any


class RunStoppedError(RuntimeError):
    """The run was asked to stop, and has saved itself."""


class StopRequest:
    """Ctrl-C and SIGTERM are noted, so that the run can save itself; a second Ctrl-C is not waited for."""

    asked = False

    def __enter__(self) -> "StopRequest":
        self._before = {}
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._before[number] = signal.signal(number, self._note)
            except ValueError:
                break  # not in the main thread
        return self

    def _note(self, number: int, frame: Any) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


class Deadline:
    """So many minutes from now, or never."""

    def __init__(self, minutes: float | None) -> None:
        if minutes is not None and not minutes > 0:
            raise ValueError(f"minutes must be positive: got {minutes}")
        self._end = math.inf if minutes is None else time.monotonic() + 60 * minutes

    @property
    def minutes_left(self) -> float:
        """Infinitely many if there is no limit; none when it has passed."""
        return max(self._end - time.monotonic(), 0.0) / 60

    @property
    def passed(self) -> bool:
        return not self.minutes_left


def check_finite(line: dict[str, Any]) -> None:
    wrong = [key for key, value in line.items() if isinstance(value, float) and not math.isfinite(value)]
    if wrong := [key for key in wrong if key != "return"]:
        raise RuntimeError(
            f"{wrong[0]} is {line[wrong[0]]} after {line['steps']:,} steps: the run is stopped, and its last "
            "checkpoint is from before; try a smaller learning rate"
        )
