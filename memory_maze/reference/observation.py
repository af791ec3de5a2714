"""What the reference shows: the copy in NumPy of `memory_maze.engine.observe`. A test holds the two equal."""

import math
from collections import deque
from collections.abc import Callable, Iterable

import numpy as np

from memory_maze.options import Options
from memory_maze.scenario import Scenario, layout_of
from memory_maze.world import BORDER_COLORS, CELL_METRES, COLORS, border_width, cell_to_world, to_cells

Point = tuple[int, int]  # (x, y) in cells, from the bottom left


class Observer:
    """Builds the observations of one episode."""

    def __init__(self, scenario: Scenario, options: Options) -> None:
        self._options = options
        self._size = scenario.size
        self._layout = layout_of(scenario)
        self._objects = np.array([cell_to_world(cell, scenario.grid) for cell in scenario.objects])
        self._colors = scenario.colors

    def observe(
        self,
        names: Iterable[str],
        camera: Callable[[], np.ndarray],
        position: np.ndarray,
        axes: np.ndarray,
        target: int,
    ) -> dict[str, np.ndarray]:
        """The observations of these names.

        Args:
            names: Of those in `memory_maze.observation`.
            camera: Takes the picture, which is drawn over.
            position: (2,) of the agent, in metres.
            axes: (2, 2), the agent's right and forward directions as columns.
            target: The object that is asked for.
        """
        options, color = self._options, self._colors[target]
        place, forward = to_cells(position, self._size), np.clip(axes[:, 1], -1, 1)
        places = to_cells(self._objects, self._size)
        vectors = (self._objects - position) @ axes / CELL_METRES
        layout = self._layout
        if options.show_path:
            layout = mark_path(layout, place, places[target])

        def image() -> np.ndarray:
            picture = camera()
            if options.target_color_in_image:
                draw_border(picture, BORDER_COLORS[color])
            if options.show_path:
                draw_minimap(picture, layout, place, forward)
            return picture

        makers: dict[str, Callable[[], np.ndarray]] = {
            "image": image,
            "target_color": lambda: COLORS[color],
            "agent_pos": lambda: place,
            "agent_dir": lambda: forward,
            "targets_vec": lambda: vectors,
            "targets_pos": lambda: places,
            "target_vec": lambda: vectors[target],
            "target_pos": lambda: places[target],
            "maze_layout": lambda: layout,
        }
        return {name: makers[name]() for name in names}


def draw_border(image: np.ndarray, color: np.ndarray) -> None:
    """Frames the image in a colour, in place."""
    width = border_width(len(image))
    image[:width] = image[-width:] = color
    image[:, :width] = image[:, -width:] = color


def mark_path(layout: np.ndarray, start: np.ndarray, finish: np.ndarray) -> np.ndarray:
    """The layout with 2 in the cells of a shortest path between two places."""
    layout = layout.copy()
    for x, y in shortest_path(layout, _cell_at(start), _cell_at(finish)):
        layout[y, x] = 2
    return layout


def _cell_at(place: np.ndarray) -> Point:
    x, y = place
    return int(x), int(y)


def shortest_path(layout: np.ndarray, start: Point, finish: Point) -> list[Point]:
    """Cells from start to finish, both included; neighbours are tried left, right, down, up."""
    parents: dict[Point, Point | None] = {start: None}
    queue = deque([start])
    while queue and finish not in parents:
        x, y = queue.popleft()
        for cell in ((x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)):
            inside = 0 <= cell[0] < layout.shape[1] and 0 <= cell[1] < layout.shape[0]
            if inside and layout[cell[1], cell[0]] and cell not in parents:
                parents[cell] = (x, y)
                queue.append(cell)
    path: list[Point] = []
    step: Point | None = finish if finish in parents else None
    while step is not None:
        path.append(step)
        step = parents[step]
    return path[::-1]


def draw_minimap(image: np.ndarray, layout: np.ndarray, position: np.ndarray, forward: np.ndarray) -> None:
    """Blends a map around the agent, turned so that forward is up, into the top right corner.

    Free cells are white, the path green, the agent red. The sampling is that of Pillow's nearest
    filter, which the published environment draws with.
    """
    cells = layout.shape[0]
    size = 2 * cells
    x, y = position
    colors = np.array([[0, 0, 0], [255, 255, 255], [0, 255, 0]], np.uint8)
    picture = colors[layout]
    picture[int(y), int(x)] = (255, 0, 0)
    picture = picture[::-1].repeat(2, axis=0).repeat(2, axis=1)
    picture = _shift(picture, (x - cells / 2) / cells * size, -(y - cells / 2) / cells * size)
    picture = _rotate(picture, math.atan2(forward[0], forward[1]) / math.pi * 180)
    corner = image[:size, -size:]
    corner[:] = corner // 2 + picture // 2


def _shift(picture: np.ndarray, dx: float, dy: float) -> np.ndarray:
    size = len(picture)
    columns = np.floor(np.arange(size) + 0.5 + dx).astype(int)
    rows = np.floor(np.arange(size) + 0.5 + dy).astype(int)
    return _gather(picture, rows[:, None], columns[None])


def _rotate(picture: np.ndarray, degrees: float) -> np.ndarray:
    """Counter-clockwise about the middle, in 16-bit fixed point."""
    degrees %= 360.0
    if degrees in (0, 90, 180, 270):
        return np.rot90(picture, round(degrees / 90))
    angle, middle = -math.radians(degrees), len(picture) / 2
    cos, sin = round(math.cos(angle), 15), round(math.sin(angle), 15)
    x0 = cos * -middle + sin * -middle + middle
    y0 = -sin * -middle + cos * -middle + middle
    index = np.arange(len(picture))
    fixed_x = _fix(x0 + cos * 0.5 + sin * 0.5) + _fix(sin) * index[:, None] + _fix(cos) * index[None]
    fixed_y = _fix(y0 - sin * 0.5 + cos * 0.5) + _fix(cos) * index[:, None] + _fix(-sin) * index[None]
    return _gather(picture, fixed_y >> 16, fixed_x >> 16)


def _fix(value: float) -> int:
    return math.floor(value * 65536.0 + 0.5)


def _gather(picture: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Pixels at the given places, black outside."""
    size = len(picture)
    inside = (rows >= 0) & (rows < size) & (columns >= 0) & (columns < size)
    pixels = picture[np.clip(rows, 0, size - 1), np.clip(columns, 0, size - 1)]
    return np.where(inside[..., None], pixels, 0).astype(np.uint8)
