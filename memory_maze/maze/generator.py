"""Draws layouts: rooms first, corridors in what is left, gates between them, then what shortens ways.

For the same settings and seed the layouts are those of labmaze 1.0.6 as its Linux wheels draw them, which the
published environment plays (labmaze: Copyright 2016-2019 Google LLC, 2019 DeepMind Technologies Limited,
Apache-2.0).
"""

import itertools

import numpy as np

from memory_maze.maze.grid import Room, make_grid, make_set
from memory_maze.maze.layout import Layout
from memory_maze.maze.rooms import plan_rooms
from memory_maze.maze.settings import Settings
from memory_maze.maze.shorten import fill_dead_ends, pull_bends
from memory_maze.maze.words import Words


class LayoutGenerator:
    """An endless sequence of layouts: the same for the same settings and seed."""

    def __init__(self, settings: Settings, seed: int) -> None:
        self._settings = settings
        self._words = Words(seed)
        self._grid = make_grid(settings.height, settings.width)
        self._plan = plan_rooms(settings)
        self._extra = float(np.float32(settings.extra_connection_probability))

    def draw(self) -> Layout:
        """The next layout."""
        settings, grid = self._settings, self._grid
        rooms = self._plan.draw(self._words)
        owners, floor = self._dig_corridors(rooms)
        gates = self._draw_gates(owners)
        if settings.simplify:
            closed = make_set(gates)
            floor = pull_bends(grid, fill_dead_ends(grid, floor, closed), closed)
        spawns = self._draw_places(rooms, floor, settings.spawns_per_room)
        objects = self._draw_places(rooms, floor & ~spawns, settings.objects_per_room)
        # Gates that lead nowhere any more are closed; only the side of the larger owner is looked at.
        floor |= make_set(gate for gate, step in gates.items() if floor >> gate + step & 1)
        return Layout(grid, floor, tuple(rooms), spawns, objects, settings.max_variations)

    def _dig_corridors(self, rooms: list[Room]) -> tuple[list[int], int]:
        """Who owns each point of the lattice, rooms from 1 and then corridors; and the floor."""
        grid, below = self._grid, self._words.below
        owners = [0] * len(grid.cells)
        floor = 0
        for owner, room in enumerate(rooms, 1):
            floor |= room.area
            for point in room.points:
                owners[point] = owner
        owner = len(rooms)
        for start, cell in enumerate(grid.cells):
            if owners[start]:
                continue
            owner += 1
            owners[start] = owner
            floor |= 1 << cell
            way = [start]
            while way:
                free = [edge for edge in grid.edges_from[way[-1]] if not owners[edge.end]]
                if not free:
                    way.pop()
                    continue
                edge = free[below(len(free))]
                owners[edge.end] = owner
                floor |= edge.corridor
                way.append(edge.end)
        return owners, floor

    def _draw_gates(self, owners: list[int]) -> dict[int, int]:
        """The cells of gates, one for each two neighbours, with the step to the larger owner."""
        words = self._words
        possible: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for start, end, middle, step, _ in self._grid.edges:
            first, second = owners[start], owners[end]
            if first < second:
                possible.setdefault((first, second), []).append((middle, step))
        pairs = [possible[pair] for pair in sorted(possible)]
        gates = [ways[words.below(len(ways))] for ways in pairs]
        every = list(itertools.chain(*pairs))
        if self._extra > 0:
            gates += [gate for gate in every if words.real() <= self._extra]
        else:
            words.skip(len(every))
        return dict(gates)

    def _draw_places(self, rooms: list[Room], free: int, count: int) -> int:
        """So many free cells of each room (all of them if `count` is negative), as a set."""
        places = 0
        for room in rooms:
            cells = [cell for cell in room.cells if free >> cell & 1]
            self._words.shuffle(cells)
            for cell in cells if count < 0 else cells[:count]:
                places |= 1 << cell
        return places
