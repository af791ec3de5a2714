"""Cells, sets of cells, and the lattice of a grid.

A set of cells is one integer with a bit for each cell, so that a few shifts look at a whole grid. Rows have
one bit more than the grid has columns, for a cell that is in no set: no pattern goes on in the next row.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Room(NamedTuple):
    """A rectangle of floor."""

    points: tuple[int, ...]
    """Its points of the lattice."""
    overlap: int
    """The same as a set."""
    cells: tuple[int, ...]
    """Its cells, row by row."""
    area: int
    """The same as a set."""


class Edge(NamedTuple):
    """From a point of the lattice to the next one in a direction."""

    start: int
    end: int
    middle: int
    """The cell between the two."""
    step: int
    """From a cell to the next one in this direction."""
    corridor: int
    """The cells of the middle and of the end, as a set."""


@dataclasses.dataclass(frozen=True, eq=False)
class Grid:
    """Height x width cells, both odd. The lattice are the cells with odd row and odd column."""

    height: int
    width: int

    @functools.cached_property
    def stride(self) -> int:
        """From a cell to the one below."""
        return self.width + 1

    @functools.cached_property
    def rows(self) -> int:
        """Of the lattice."""
        return (self.height - 1) // 2

    @functools.cached_property
    def columns(self) -> int:
        """Of the lattice."""
        return (self.width - 1) // 2

    @functools.cached_property
    def steps(self) -> tuple[int, int, int, int]:
        """Down, up, right, left: the order in which directions are tried."""
        return self.stride, -self.stride, 1, -1

    @functools.cached_property
    def sides(self) -> tuple[tuple[int, int], ...]:
        """Each direction, and the one in which corridors that bend to this side are followed."""
        down, up, right, left = self.steps
        return (down, left), (up, right), (right, down), (left, up)

    @functools.cached_property
    def everywhere(self) -> int:
        """All cells, as a set."""
        row = (1 << self.width) - 1
        return sum(row << r * self.stride for r in range(self.height))

    @functools.cached_property
    def cells(self) -> tuple[int, ...]:
        """The cell of each point of the lattice."""
        points = itertools.product(range(self.rows), range(self.columns))
        return tuple((2 * r + 1) * self.stride + 2 * c + 1 for r, c in points)

    @functools.cached_property
    def edges(self) -> tuple[Edge, ...]:
        """Those of the first point of the lattice in all directions, those of the second, and so on."""
        return tuple(itertools.chain(*self.edges_from))

    @functools.cached_property
    def edges_from(self) -> tuple[tuple[Edge, ...], ...]:
        """Those that start at each point of the lattice."""
        point = {cell: index for index, cell in enumerate(self.cells)}
        return tuple(
            tuple(
                Edge(start, point[end], middle, step, 1 << middle | 1 << end)
                for step in self.steps
                if (end := (middle := cell + step) + step) in point
            )
            for start, cell in enumerate(self.cells)
        )

    @functools.cached_property
    def rooms(self) -> dict[tuple[int, int, int, int], Room]:
        """All rooms, by row and column of their first point, and rows and columns to the last."""
        return _Rooms(self)


class _Rooms(dict[tuple[int, int, int, int], Room]):
    """Made as they are asked for."""

    def __init__(self, grid: Grid) -> None:
        super().__init__()
        self._grid = grid

    def __missing__(self, place: tuple[int, int, int, int]) -> Room:
        row, column, height, width = place
        grid = self._grid
        points = [
            r * grid.columns + c
            for r in range(row, row + height + 1)
            for c in range(column, column + width + 1)
        ]
        cells = [
            r * grid.stride + c
            for r in range(2 * row + 1, 2 * (row + height) + 2)
            for c in range(2 * column + 1, 2 * (column + width) + 2)
        ]
        room = Room(tuple(points), make_set(points), tuple(cells), make_set(cells))
        self[place] = room
        return room


@functools.cache
def make_grid(height: int, width: int) -> Grid:
    """The grid of a size: always the same one, for what is known of it is kept."""
    return Grid(height, width)


def make_set(cells: Iterable[int]) -> int:
    """The set of these cells."""
    return sum(1 << cell for cell in cells)


def members(cells: int) -> Iterator[int]:
    """The members of a set, in their order."""
    while cells:
        lowest = cells & -cells
        yield lowest.bit_length() - 1
        cells ^= lowest
