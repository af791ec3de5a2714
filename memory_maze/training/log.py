"""What a run tells: JSON lines first, TensorBoard from the same numbers."""

import json
import os
import time
from pathlib import Path
from typing import Any

from memory_maze.agents.folder import METRICS
from memory_maze.results.metrics import read_metrics
from memory_maze.system.files import replacing


class Log:
    """Metrics of a run. Lines after `steps` are of a part that is played again, and are dropped."""

    def __init__(self, folder: Path, steps: int) -> None:
        self._path = folder / METRICS
        kept = [line for line in read_metrics(folder) if line["steps"] <= steps]
        self.seconds: float = kept[-1].get("seconds", 0.0) if kept else 0.0
        """Of training, up to the last line that is kept."""
        with replacing(self._path) as path:
            path.write_text("".join(json.dumps(line) + "\n" for line in kept))
        self._file = self._path.open("a")
        self._board = _open_board(folder)

    def write(self, metrics: dict[str, Any]) -> None:
        """One line, which has `steps`."""
        self._file.write(json.dumps(metrics) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        if self._board is not None:
            _write_board(self._board, metrics)

    def close(self) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()


def _open_board(folder: Path) -> Any:
    """Without TensorBoard there are only JSON lines."""
    try:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError:
        return None
    return EventFileWriter(str(folder / "tensorboard"))


def _write_board(board: Any, metrics: dict[str, Any]) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    numbers = {key: value for key, value in metrics.items() if isinstance(value, float)}
    values = [Summary.Value(tag=key, simple_value=value) for key, value in numbers.items()]
    board.add_event(Event(step=metrics["steps"], wall_time=time.time(), summary=Summary(value=values)))
