"""The colours of maps that people see, in windows, pictures and films; the pages' scripts repeat them."""

import numpy as np

from memory_maze.world import COLORS

Color = tuple[int, int, int]

INK: Color = (20, 22, 26)
WALL: Color = (66, 72, 84)
FLOOR: Color = (246, 246, 243)
# Wrong answers: free cells taken for walls, and walls for free cells.
FALSE_WALL: Color = (200, 60, 60)
FALSE_FLOOR: Color = (245, 165, 150)


def to_rgb(color: np.ndarray) -> Color:
    """A colour of numbers from 0 to 1 as one of 0 to 255."""
    red, green, blue = np.rint(255 * np.asarray(color, float)).astype(int).tolist()
    return red, green, blue


OBJECTS: tuple[Color, ...] = tuple(map(to_rgb, COLORS))
