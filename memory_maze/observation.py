"""What the agent is shown: positions in the agent's and the maze's frames, the border, the minimap."""

import dataclasses
import math
from collections import deque
from typing import Any

import numpy as np

from memory_maze.options import Options
from memory_maze.scenario import CELL_METRES, COLORS, WALL, Scenario, cell_to_world
from memory_maze.tasks import Task

Point = tuple[int, int]  # (x, y) in cells, from the bottom left


@dataclasses.dataclass(frozen=True)
class Array:
    """Shape, type and bounds of one observation."""

    shape: tuple[int, ...]
    dtype: Any
    low: float
    high: float


def observation_arrays(task: Task, options: Options, floats: Any = np.float64) -> dict[str, Array]:
    """What each observation looks like; `image` stands alone with `image_only_obs`."""
    size, count, resolution = task.size, task.objects, options.camera_resolution
    image = Array((resolution, resolution, 3), np.uint8, 0, 255)
    if options.image_only_obs:
        return {"image": image}
    arrays = {"image": image, "target_color": Array((3,), floats, 0, 1)}
    if options.global_observables:
        far = 1.5 * size  # more than the diagonal
        arrays |= {
            "agent_pos": Array((2,), floats, 0, size),
            "agent_dir": Array((2,), floats, -1, 1),
            "targets_vec": Array((count, 2), floats, -far, far),
            "targets_pos": Array((count, 2), floats, 0, size),
            "target_vec": Array((2,), floats, -far, far),
            "target_pos": Array((2,), floats, 0, size),
            "maze_layout": Array((size, size), np.uint8, 0, 2 if options.show_path else 1),
        }
    return arrays


def check_minimap(task: Task, options: Options) -> None:
    """Refuses pictures that are too small for the minimap that they are to show."""
    if options.show_path and options.camera_resolution < 2 * task.size:
        raise ValueError(f"the minimap takes {2 * task.size} pixels: camera_resolution is too small for it")


def layout_of(scenario: Scenario) -> np.ndarray:
    """(size, size) uint8: 1 is free; row 0 is the bottom row, the outer wall is left out."""
    walls = np.array([[char == WALL for char in row] for row in scenario.walls])
    return (~walls[1:-1, 1:-1][::-1]).astype(np.uint8)


def bit_rows(cells: np.ndarray) -> np.ndarray:
    """(N,) uint32: bit c of row r tells of cell (r, c)."""
    bits = np.uint32(1) << np.arange(cells.shape[1], dtype=np.uint32)
    return (cells * bits).sum(axis=1, dtype=np.uint32)


def to_cells(metres: Any, size: int) -> Any:
    """World metres as cells from the bottom left inner corner; cell centres are at k + 0.5."""
    return metres / CELL_METRES + size / 2


class Observer:
    """Builds the global observations of one episode."""

    def __init__(self, scenario: Scenario) -> None:
        self.size = scenario.size
        self.layout = layout_of(scenario)
        self.targets = np.array([cell_to_world(cell, scenario.grid) for cell in scenario.objects])
        self.colors = COLORS[list(scenario.colors)]

    def observe(self, position: np.ndarray, axes: np.ndarray, target: int) -> dict[str, np.ndarray]:
        """`position` in metres, `axes` the agent's right and forward directions as columns."""
        targets_vec = (self.targets - position) @ axes / CELL_METRES
        targets_pos = to_cells(self.targets, self.size)
        return {
            "agent_pos": to_cells(position, self.size),
            "agent_dir": np.clip(axes[:, 1], -1, 1),
            "targets_vec": targets_vec,
            "targets_pos": targets_pos,
            "target_vec": targets_vec[target].copy(),
            "target_pos": targets_pos[target].copy(),
            "maze_layout": self.layout.copy(),
        }


def draw_border(image: np.ndarray, color: np.ndarray) -> None:
    """Frames the image in the colour of the current target, in place."""
    width = max(1, int(2 * math.sqrt(image.shape[0] // 64)))
    rgb = (color * 255 * 0.7).astype(np.uint8)
    image[:width] = image[-width:] = rgb
    image[:, :width] = image[:, -width:] = rgb


def finish_image(
    image: np.ndarray, options: Options, observer: Observer, pose: tuple[np.ndarray, np.ndarray], target: int
) -> None:
    """Draws what a variant shows over the camera's picture, in place; `pose` is position and axes."""
    if options.target_color_in_image:
        draw_border(image, observer.colors[target])
    if options.show_path:
        draw_path(image, observer.observe(*pose, target))


def draw_path(image: np.ndarray, seen: dict[str, np.ndarray]) -> None:
    """Marks the path to the target in the observed layout, and draws the minimap, in place."""
    layout, start, finish = seen["maze_layout"], seen["agent_pos"], seen["target_pos"]
    mark_path(layout, (int(start[0]), int(start[1])), (int(finish[0]), int(finish[1])))
    draw_minimap(image, layout, start, seen["agent_dir"])


def mark_path(layout: np.ndarray, start: Point, finish: Point) -> None:
    """Sets the cells of a shortest path to 2, in place."""
    for x, y in shortest_path(layout, start, finish):
        layout[y, x] = 2


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
