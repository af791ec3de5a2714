"""In which order training sequences are read: random windows, or whole trajectories one after another."""

import abc
import collections
from typing import Any, ClassVar

import numpy as np


class Order(abc.ABC):
    """Says which elements come next.

    Args:
        trajectories: (n,) int: the numbers of those that are read.
        lengths: (n,) int: how many elements they have.
        batch: Sequences in a batch, B.
        time: Elements of each, T.
        seed: Of all that is drawn.
        position: Of an order like this one, to go on from there.
        interleave: Batches whose rows are others; has no meaning for windows.
    """

    kind: ClassVar[str]

    def __init__(
        self,
        trajectories: np.ndarray,
        lengths: np.ndarray,
        batch: int,
        time: int,
        seed: int,
        position: dict[str, Any] | None = None,
        interleave: int = 1,
    ) -> None:
        self._trajectories, self._lengths = trajectories, lengths
        self._shape, self._seed, self._interleave = (batch, time), seed, interleave
        mine = self._describe()
        theirs = mine if position is None else {key: position.get(key) for key in mine}
        if theirs != mine:
            raise ValueError(f"the position belongs to a different iterator: {theirs}, not {mine}")
        self._begin(position)

    def _describe(self) -> dict[str, Any]:
        return {"order": self.kind, "seed": self._seed, "shape": list(self._shape)}

    @abc.abstractmethod
    def _begin(self, position: dict[str, Any] | None) -> None:
        """Goes to a position, or to the start."""

    @property
    @abc.abstractmethod
    def position(self) -> dict[str, Any]:
        """Plain data, from which it goes on."""

    @abc.abstractmethod
    def draw(self) -> tuple[np.ndarray, np.ndarray]:
        """Two (B, T) int32 arrays: trajectories, and elements of them in time."""


class Windows(Order):
    """Windows of any trajectories, all as likely; the k-th batch depends on the seed and k alone."""

    kind = "windows"

    def _begin(self, position: dict[str, Any] | None) -> None:
        if (shortest := self._lengths.min()) < self._shape[1]:
            raise ValueError(f"windows of {self._shape[1]} elements: the shortest trajectory has {shortest}")
        self._batches = 0 if position is None else int(position["batches"])

    @property
    def position(self) -> dict[str, Any]:
        return self._describe() | {"batches": self._batches}

    def draw(self) -> tuple[np.ndarray, np.ndarray]:
        batch, time = self._shape
        rng = np.random.default_rng([self._seed, self._batches])
        picks = rng.integers(len(self._trajectories), size=batch)
        starts = rng.integers(self._lengths[picks] - time + 1)
        self._batches += 1
        times = starts[:, None] + np.arange(time)
        return np.broadcast_to(self._trajectories[picks, None], times.shape).astype(np.int32), times.astype(
            np.int32
        )


class Replay(Order):
    """Whole trajectories in order, as truncated backpropagation through time needs them.

    Each row of a batch goes on where it stopped `interleave` batches before, and from the end of a
    trajectory to the start of the next, which no other row is reading. The first of each row starts anywhere.
    """

    kind = "replay"

    def _describe(self) -> dict[str, Any]:
        return super()._describe() | {"interleave": self._interleave}

    def _begin(self, position: dict[str, Any] | None) -> None:
        batch, count = self._shape[0], len(self._trajectories)
        if count < batch:
            raise ValueError(
                f"{batch} different trajectories per batch, but only {count} exist: collect more, or choose "
                "a smaller batch"
            )
        self._epoch, self._taken = (0, 0) if position is None else position["next"]
        self._turn = 0 if position is None else int(position["turn"])
        self._permutation = self._shuffle()
        self._rows: list[tuple[int, int]] = []
        self._reading: collections.Counter[int] = collections.Counter()  # of all rows
        if position is not None:
            self._rows = [(int(pick), int(start)) for pick, start in position["rows"]]
            self._reading.update(pick for pick, _ in self._rows)
            return
        rng = np.random.default_rng([self._seed, 0, 1])
        for row in range(self._interleave * batch):
            pick = self._next(row, set())
            self._rows.append((pick, int(rng.integers(self._lengths[pick]))))

    @property
    def position(self) -> dict[str, Any]:
        # Asked for with every batch, so the rows are not taken apart.
        rows = self._rows.copy()
        return self._describe() | {"next": [self._epoch, self._taken], "turn": self._turn, "rows": rows}

    def draw(self) -> tuple[np.ndarray, np.ndarray]:
        batch = self._shape[0]
        trajectories, times = np.zeros(self._shape, np.int32), np.zeros(self._shape, np.int32)
        first = self._turn * batch
        seen = {pick for pick, _ in self._rows[first : first + batch]}
        for row in range(batch):
            self._fill(trajectories[row], times[row], first + row, seen)
        self._turn = (self._turn + 1) % self._interleave
        return trajectories, times

    def _fill(self, trajectories: np.ndarray, times: np.ndarray, row: int, seen: set[int]) -> None:
        filled = 0
        while filled < len(times):
            pick, start = self._rows[row]
            count = min(len(times) - filled, int(self._lengths[pick]) - start)
            trajectories[filled : filled + count] = self._trajectories[pick]
            times[filled : filled + count] = np.arange(start, start + count)
            filled += count
            self._rows[row] = pick, start + count
            if start + count == self._lengths[pick]:
                self._leave(pick)
                self._rows[row] = self._next(row, seen), 0
                seen.add(self._rows[row][0])

    def _shuffle(self) -> np.ndarray:
        return np.random.default_rng([self._seed, self._epoch]).permutation(len(self._trajectories))

    def _next(self, row: int, seen: set[int]) -> int:
        """The next in random order that no other row of its batch is reading.

        If possible it is not in this batch already, and not read by any row of the other batches.
        """
        first = row - row % self._shape[0]
        mates = enumerate(self._rows[first : first + self._shape[0]], first)
        taken = {pick for other, (pick, _) in mates if other != row}
        for wish in (seen, set(self._reading)):
            taken = taken | wish if len(taken | wish) < len(self._trajectories) else taken
        while True:
            if self._taken == len(self._permutation):
                self._epoch, self._taken = self._epoch + 1, 0
                self._permutation = self._shuffle()
            pick = int(self._permutation[self._taken])
            self._taken += 1
            if pick not in taken:
                self._reading[pick] += 1
                return pick

    def _leave(self, pick: int) -> None:
        self._reading[pick] -= 1
        if not self._reading[pick]:
            del self._reading[pick]


ORDERS = {"windows": Windows, "replay": Replay}


def split_between(count: int, part: tuple[int, int]) -> np.ndarray:
    """The trajectories of one of several processes."""
    index, parts = part
    if not 0 <= index < parts:
        raise ValueError(f"part {index} of {parts}: give (index, count) with index from 0 to count - 1")
    return np.arange(count)[index::parts]


def check_sizes(**sizes: int) -> None:
    for name, value in sizes.items():
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be a positive integer: got {value!r}")
