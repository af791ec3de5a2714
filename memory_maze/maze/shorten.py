"""What is done to corridors once they are dug: dead ends are filled up, and bends are pulled straight."""

import functools
import operator

from memory_maze.maze.grid import Grid


def fill_dead_ends(grid: Grid, floor: int, gates: int) -> int:
    """The floor without its cells that have fewer than two open neighbours, until there is none."""
    stride = grid.stride
    while True:
        ways = floor | gates
        down, up, right, left = ways >> stride, ways << stride, ways >> 1, ways << 1
        kept = floor & (down & up | right & left | (down | up) & (right | left))
        if kept == floor:
            return floor
        floor = kept


def pull_bends(grid: Grid, floor: int, gates: int) -> int:
    """The floor without the bends at which a corridor goes one row aside, along it, and back.

    After a short bend the other short ones are left until a longer one is pulled, as in the published mazes.
    """
    bends = find_bends(grid, floor, gates)
    size = 1
    while size + 3 < grid.width:
        if size not in bends:
            size += 1
            continue
        first = functools.reduce(operator.or_, bends[size].values())
        cell = (first & -first).bit_length() - 1
        while sides := [side for side, cells in bends.get(size, {}).items() if cells >> cell & 1]:
            floor = _pull(grid, floor, cell, sides[0], size)
            cell -= sides[0]
            bends = find_bends(grid, floor, gates)
        size = 1 if size > 1 else 2
    return floor


def find_bends(grid: Grid, floor: int, gates: int) -> dict[int, dict[int, int]]:
    """By size and by side, the cells at which a corridor goes aside, so many cells along, and back.

    With `#` wall, `o` floor and `.` anything, x is the cell of a bend of size 2 to the side above it:

        . # # # # .
        # o o o o #
        . o x # o .
        . . # # . .
    """
    walls = grid.everywhere & ~(floor | gates)
    bends: dict[int, dict[int, int]] = {}
    for side, along in grid.sides:
        aside = _at(floor, side) & _at(walls, 2 * side)
        turn = floor & aside
        straight = walls & aside & _at(walls, -side)
        begun = straight & _at(turn, -along) & _at(walls, side - 2 * along)
        size = 1
        while begun:
            end = _at(turn & _at(walls, side + along), size * along)
            if begun & end:
                bends.setdefault(size, {})[side] = begun & end
            begun &= _at(straight, size * along)
            size += 1
    return bends


def _pull(grid: Grid, floor: int, cell: int, side: int, size: int) -> int:
    along = dict(grid.sides)[side]
    for index in range(-1, size + 1):
        floor &= ~(1 << cell + index * along + side)
    for index in range(size):
        floor |= 1 << cell + index * along
    return floor


def _at(cells: int, offset: int) -> int:
    """The cells from which a step of `offset` leads into the set."""
    return cells >> offset if offset > 0 else cells << -offset
