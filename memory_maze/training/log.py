"""What a run tells: JSON lines first; TensorBoard and Weights & Biases from the same numbers."""

import json
import os
import time
import uuid
from pathlib import Path
from typing import Any, Protocol

from memory_maze.agents.folder import METRICS
from memory_maze.results.metrics import read_metrics
from memory_maze.system.extras import missing
from memory_maze.system.files import replacing

_WANDB = "wandb-id"  # file with the name of the run there, for when it goes on


class Board(Protocol):
    """Where numbers are shown too."""

    def write(self, steps: int, numbers: dict[str, float]) -> None: ...

    def close(self) -> None: ...


class Log:
    """Metrics of a run. Lines after `steps` are of a part that is played again, and are dropped.

    Args:
        folder: Of the run.
        steps: At the checkpoint that it goes on from.
        described: What is trained, if Weights & Biases are to be told.
    """

    def __init__(self, folder: Path, steps: int, described: dict[str, Any] | None = None) -> None:
        self._boards: list[Board] = [] if described is None else [_Wandb(folder, described)]
        self._path = folder / METRICS
        kept = [line for line in read_metrics(folder) if line["steps"] <= steps]
        self.seconds: float = kept[-1].get("seconds", 0.0) if kept else 0.0
        """Of training, up to the last line that is kept."""
        with replacing(self._path) as path:
            path.write_text("".join(json.dumps(line) + "\n" for line in kept))
        self._file = self._path.open("a")
        self._boards += _open_tensorboard(folder)

    def write(self, metrics: dict[str, Any]) -> None:
        """One line, which has `steps`."""
        self._file.write(json.dumps(metrics) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        numbers = {key: value for key, value in metrics.items() if isinstance(value, float)}
        for board in self._boards:
            board.write(metrics["steps"], numbers)

    def close(self) -> None:
        self._file.close()
        for board in self._boards:
            board.close()


class _TensorBoard:
    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def write(self, steps: int, numbers: dict[str, float]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=key, simple_value=value) for key, value in numbers.items()]
        self._writer.add_event(Event(step=steps, wall_time=time.time(), summary=Summary(value=values)))

    def close(self) -> None:
        self._writer.close()


def _open_tensorboard(folder: Path) -> list[Board]:
    """None without TensorBoard."""
    try:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError:
        return []
    return [_TensorBoard(EventFileWriter(str(folder / "tensorboard")))]


class _Wandb:
    """A run of Weights & Biases, the same for all calls that train in a folder."""

    def __init__(self, folder: Path, described: dict[str, Any]) -> None:
        wandb = import_wandb()
        if not (folder / _WANDB).exists():
            with replacing(folder / _WANDB) as path:
                path.write_text(uuid.uuid4().hex[:8] + "\n")
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "memory-maze"),
            id=(folder / _WANDB).read_text().strip(),
            resume="allow",
            name=folder.name,
            dir=str(folder),
            config=described,
            settings=wandb.Settings(silent=True, console="off"),
        )

    def write(self, steps: int, numbers: dict[str, float]) -> None:
        self._run.log(numbers, step=steps)

    def close(self) -> None:
        self._run.finish()


def import_wandb() -> Any:
    """Weights & Biases, or how to install it."""
    try:
        import wandb
    except ModuleNotFoundError as error:
        raise missing("--wandb needs wandb", error.name, "wandb") from error
    return wandb
