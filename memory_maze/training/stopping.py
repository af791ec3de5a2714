"""How a run ends before its time: asked to, out of time, or because its loss is NaN."""

import concurrent.futures
import math
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")
Tell = Callable[[str], None]  # called with a sentence for whoever watches
_THREAD = "training"
_POLL = 0.1  # seconds


class RunStoppedError(RuntimeError):
    """The run was asked to stop, and has saved itself."""

    def __init__(self, message: str, signal_number: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = 128 + (signal_number or signal.SIGTERM)


class StopRequest:
    """Ctrl-C and SIGTERM are noted, so that a run can save itself; a second Ctrl-C is not waited for.

    Args:
        tell: Told at once that the run will stop.
    """

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._signals: list[int] = []
        self.worth_saving = False
        """Whether a stop has to wait until the run has saved itself."""
        self.given_up = False
        """The run is to end without saving."""

    @property
    def asked(self) -> bool:
        return bool(self._signals)

    @property
    def signal_number(self) -> int | None:
        """The first signal that came to this process."""
        return self._signals[0] if self._signals else None

    def heed(self, work: Callable[[], Result]) -> Result:
        """Calls a function in a thread of its own: Python hears of signals in the main thread alone, and not
        while that waits for a device.

        Raises `KeyboardInterrupt` if it is not to be waited for.
        """
        if threading.current_thread() is not threading.main_thread():
            return work()
        done: concurrent.futures.Future[Result] = concurrent.futures.Future()
        before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            threading.Thread(target=_settle, args=(done, work), name=_THREAD, daemon=True).start()
            heard = 0
            while not concurrent.futures.wait([done], _POLL).done:
                if len(self._signals) > heard:
                    heard = len(self._signals)
                    self._answer()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return done.result()

    def _note(self, number: int, frame: Any) -> None:
        self._signals.append(number)

    def _answer(self) -> None:
        if not self.worth_saving or self._signals[1:].count(signal.SIGINT):
            self.given_up = True
            if signal.SIGINT not in self._signals:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                signal.raise_signal(signal.SIGTERM)
            raise KeyboardInterrupt
        self._tell("stopping after this update; Ctrl-C again stops at once, without saving")


def _settle(done: concurrent.futures.Future, work: Callable[[], Any]) -> None:
    try:
        done.set_result(work())
    except BaseException as error:
        done.set_exception(error)


def is_computing() -> bool:
    """Whether a run that was given up still computes: Python would wait for it before it ends."""
    return any(thread.name == _THREAD for thread in threading.enumerate())


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
            f"{wrong[0]} is {line[wrong[0]]} after {line['steps']:,} steps: the run stopped, and its last "
            "checkpoint precedes it; try a smaller learning rate"
        )
