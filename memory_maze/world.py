"""The world of both engines: its sizes in metres, its colours, and how places are counted."""

import math
from typing import Any

import numpy as np

CELL_METRES = 2.0
BALL_RADIUS = 0.2  # of the ball that the agent rolls on
OBJECT_RADIUS = 0.6  # of a sphere around a point of the floor
# With good visibility walls are low, and the objects float.
WALL_HEIGHT, LOW_WALL_HEIGHT = 1.5, 0.4
FLOATING_HEIGHT = OBJECT_RADIUS + 0.5  # of an object's centre
# The camera above is far away, so that walls hardly hide the floor behind them, and sees a tenth more.
TOP_HEIGHT, TOP_PADDING = 100.0, 1.1

COLOR_NAMES = ("red", "green", "blue", "purple", "yellow", "salmon")
# RGB over 220 is the published target colour; the brightest channels are 1.0.
COLORS = (
    np.array([(170, 38, 30), (99, 170, 88), (39, 140, 217), (93, 105, 199), (220, 193, 59), (220, 128, 107)])
    / 220
)
BORDER_COLORS = (COLORS * 255 * 0.7).astype(np.uint8)  # of the frame around an image


def border_width(resolution: int) -> int:
    """Pixels of the frame around an image."""
    return max(1, int(2 * math.sqrt(resolution // 64)))


def cell_to_world(cell: tuple[float, float], grid: int) -> tuple[float, float]:
    """Centre of a cell in metres: x to the right, y up, the middle of the maze is the origin."""
    middle = (grid - 1) / 2
    return (cell[1] - middle) * CELL_METRES, -(cell[0] - middle) * CELL_METRES


def to_cells(metres: Any, size: int) -> Any:
    """World metres as cells from the bottom left inner corner; cell centres are at k + 0.5."""
    return metres / CELL_METRES + size / 2


def bit_rows(cells: np.ndarray) -> np.ndarray:
    """(N,) uint32: bit c of row r tells of cell (r, c)."""
    bits = np.uint32(1) << np.arange(cells.shape[1], dtype=np.uint32)
    return (cells * bits).sum(axis=1, dtype=np.uint32)


def bits_of(rows: Any) -> Any:
    """(..., N, N) bool of (..., N) bit rows, which may be NumPy's or JAX's."""
    return rows[..., None] >> np.arange(rows.shape[-1], dtype=np.uint32) & 1 == 1
