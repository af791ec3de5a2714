"""A layout: the walls of a maze, its rooms, and its places for starts and objects."""

import dataclasses
import functools
import operator
import string

from memory_maze.maze.grid import Grid, Room, members

WALL, FLOOR, CORRIDOR = "*", " ", "."
SPAWN, OBJECT = "P", "G"


@dataclasses.dataclass(frozen=True)
class Layout:
    """What a generator draws. Sets of cells are as in `grid`."""

    grid: Grid
    floor: int
    """The cells that are no wall, as a set."""
    rooms: tuple[Room, ...]
    spawns: int
    """Places for starts, as a set."""
    objects: int
    """Places for objects, as a set."""
    max_variations: int

    def walls(self) -> tuple[str, ...]:
        """Rows from the top: `*` is wall, space is floor."""
        return self._rows(self._characters())

    def entities(self) -> tuple[str, ...]:
        """Rows like `walls`, with `P` at places for starts and `G` at places for objects."""
        characters = self._characters()
        for cell in members(self.spawns):
            characters[cell] = SPAWN
        for cell in members(self.objects):
            characters[cell] = OBJECT
        return self._rows(characters)

    def variations(self) -> tuple[str, ...]:
        """Rows like `walls`: `A`, `B`, ... are the rooms, `.` is everything else."""
        characters = [CORRIDOR] * (self.grid.height * self.grid.stride)
        for index, room in enumerate(self.rooms):
            letter = string.ascii_uppercase[index % self.max_variations]
            for cell in room.cells:
                characters[cell] = letter
        return self._rows(characters)

    @property
    def room_cells(self) -> int:
        """The cells of all rooms, as a set."""
        return functools.reduce(operator.or_, (room.area for room in self.rooms), 0)

    def bit_rows(self, cells: int) -> list[int]:
        """What of a set is inside the outer wall: for each row from the bottom, a bit for each column."""
        stride, inside = self.grid.stride, (1 << self.grid.width - 2) - 1
        return [cells >> row * stride + 1 & inside for row in range(self.grid.height - 2, 0, -1)]

    def places(self, cells: int) -> list[tuple[int, int]]:
        """Row and column of each cell of a set."""
        return [divmod(cell, self.grid.stride) for cell in members(cells)]

    def _characters(self) -> list[str]:
        bits = format(self.floor, f"0{self.grid.height * self.grid.stride}b")[::-1]
        return list(bits.replace("0", WALL).replace("1", FLOOR))

    def _rows(self, characters: list[str]) -> tuple[str, ...]:
        text, stride = "".join(characters), self.grid.stride
        return tuple([text[start : start + stride - 1] for start in range(0, len(text), stride)])
