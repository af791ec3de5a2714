"""The first step: rooms at random places."""

import functools
import itertools

from memory_maze.maze.grid import Room, make_grid
from memory_maze.maze.settings import Settings
from memory_maze.maze.words import Words


class RoomPlan:
    """What rooms can be drawn with some settings. Sides of rooms are in steps of the lattice here."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._grid = make_grid(settings.height, settings.width)
        self._low = (settings.room_min_size - 1) // 2
        self._high = (settings.room_max_size - 1) // 2
        self._middle = (self._low + self._high) // 2
        # Sets of rooms: those that can be drawn, and those that cover each point of the lattice.
        self._drawable, self._covering = 0, [0] * len(self._grid.cells)
        for index, room in enumerate(self._list_rooms()):
            self._drawable |= 1 << index
            for point in room.points:
                self._covering[point] |= 1 << index

    def draw(self, words: Words) -> list[Room]:
        """Rooms are tried until there are enough of them, or too many overlapped others."""
        settings = self._settings
        rooms: list[Room] = []
        taken, possible = 0, self._drawable
        area, most_area = 0, settings.height * settings.width
        failures, most_failures = 0, settings.retry_count
        while failures < most_failures and area < most_area:
            if not possible and self._words_per_room:
                words.skip((most_failures - failures) * self._words_per_room)
                break
            room = self._draw_room(words)
            if room.overlap & taken:
                failures += 1
                continue
            rooms.append(room)
            if len(rooms) == settings.max_rooms:
                break
            taken |= room.overlap
            area += len(room.cells)
            for point in room.points:
                possible &= ~self._covering[point]
        words.shuffle(rooms)
        return rooms

    def _draw_room(self, words: Words) -> Room:
        pick, grid = words.pick, self._grid
        low, middle, high = self._low, self._middle, self._high
        width = height = low
        if low < middle:
            width, height = pick(low, middle), pick(low, middle)
        if pick(0, 1) == 0:
            width += pick(middle, high) - middle
        else:
            height += pick(middle, high) - middle
        row = pick(0, grid.rows - height - 1)
        column = pick(0, grid.columns - width - 1)
        return grid.rooms[row, column, height, width]

    @functools.cached_property
    def _words_per_room(self) -> int:
        """How many words each room takes, or 0 if that depends on the room."""
        if min(self._grid.rows, self._grid.columns) - self._high <= 1:
            return 0
        return 3 + 2 * (self._middle > self._low) + (self._high > self._middle)

    def _list_rooms(self) -> list[Room]:
        short, long = range(self._low, self._middle + 1), range(self._low, self._high + 1)
        return [
            self._grid.rooms[row, column, height, width]
            for height, width in {*itertools.product(short, long), *itertools.product(long, short)}
            for row in range(self._grid.rows - height)
            for column in range(self._grid.columns - width)
        ]


plan_rooms = functools.cache(RoomPlan)
"""The plan for some settings: always the same one, for it takes longer to make than a layout."""
