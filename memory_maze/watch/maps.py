"""Mazes from above, with the way of an agent; pictures are Pillow's."""

import itertools
from typing import Any

import numpy as np

from memory_maze.palette import FALSE_FLOOR, FALSE_WALL, FLOOR, INK, WALL, Color
from memory_maze.watch.trace import Trace

_FINE = 3  # maps are drawn so many times larger, for smooth lines
_WHITE = (255, 255, 255)
# From the first to the last step: dark blue, blue green, orange; light enough to see, and no object's colour.
_TIME = np.array([(40, 30, 120), (0, 150, 160), (255, 150, 0)], float)


class Map:
    """The maze of an episode from above.

    Args:
        trace: The episode.
        end: The step at which the last of the trail's colours is reached.
        pixels: Of a side.
    """

    def __init__(self, trace: Trace, end: int, pixels: int) -> None:
        self._trace, self._end, self._pixels = trace, end, pixels
        self._size = len(trace.layout)
        self._cell = pixels * _FINE / (self._size + 2)
        # Lines and the agent are as thick in large mazes.
        self._mark = max(self._cell, pixels * _FINE / 12)
        # The trail grows from picture to picture, so what is drawn of it is kept.
        self._ground, self._walked = self._draw_ground(trace.layout), 0

    def draw(self, step: int, target: bool = False) -> Any:
        """The way until a step and the agent there; with a ring around the object that is asked for."""
        if step < self._walked:
            self._ground, self._walked = self._draw_ground(self._trace.layout), 0
        self._walk(step)
        image = self._ground.copy()
        canvas = _canvas(image)
        self._draw_dot(canvas, self._trace.positions[0], 0.14 * self._mark, _WHITE)
        self._draw_objects(canvas, step if target else None)
        self._draw_agent(canvas, step)
        return self._reduce(image)

    def draw_answers(self, step: int) -> Any:
        """What probes answer: walls and floors with those that are wrong, crosses for objects."""
        answers = self._trace.answers_at(step)
        image = self._draw_ground(answers.get("walls", self._trace.layout))
        canvas = _canvas(image)
        self._draw_objects(canvas, step)
        for place, color in zip(answers.get("places", ()), self._trace.colors, strict=False):
            self._draw_cross(canvas, place, color)
        self._draw_agent(canvas, step)
        return self._reduce(image)

    def _place(self, x: float, y: float) -> tuple[float, float]:
        return (x + 1) * self._cell, (self._size + 1 - y) * self._cell

    def _draw_ground(self, answer: np.ndarray) -> Any:
        from PIL import Image

        layout = self._trace.layout
        image = Image.new("RGB", (self._pixels * _FINE, self._pixels * _FINE), WALL)
        canvas = _canvas(image)
        for row, column in np.argwhere(layout | answer):
            color = FALSE_FLOOR if not layout[row, column] else FLOOR if answer[row, column] else FALSE_WALL
            corners = [self._place(column, row + 1), self._place(column + 1, row)]
            canvas.rectangle(corners, fill=color)
        return image

    def _walk(self, step: int) -> None:
        canvas = _canvas(self._ground)
        points = [self._place(x, y) for x, y in self._trace.positions[self._walked : step + 1]]
        for index, pair in enumerate(itertools.pairwise(points), self._walked):
            canvas.line(pair, fill=time_color(index / max(self._end - 1, 1)), width=int(0.11 * self._mark))
        self._walked = step

    def _draw_objects(self, canvas: Any, step: int | None) -> None:
        """With a ring around that which is asked for at the step."""
        target = None if step is None else self._trace.targets[step]
        for index, (place, color) in enumerate(zip(self._trace.objects, self._trace.colors, strict=True)):
            if index == target:
                self._draw_dot(canvas, place, 0.66 * self._cell, color)
                self._draw_dot(canvas, place, 0.5 * self._cell, _WHITE)
            self._draw_dot(canvas, place, 0.36 * self._cell, color)

    def _draw_dot(self, canvas: Any, place: np.ndarray, radius: float, color: Color) -> None:
        x, y = self._place(*place)
        box = [x - radius, y - radius, x + radius, y + radius]
        canvas.ellipse(box, fill=color, outline=INK, width=max(int(self._cell / 18), 2))

    def _draw_cross(self, canvas: Any, place: np.ndarray, color: Color) -> None:
        x, y = self._place(*place)
        radius = 0.4 * self._cell
        for fill, part in ((INK, 0.26), (color, 0.16)):
            for sign in (1, -1):
                line = (x - radius, y - sign * radius, x + radius, y + sign * radius)
                canvas.line(line, fill=fill, width=int(part * self._cell))

    def _draw_agent(self, canvas: Any, step: int) -> None:
        radius, center = 0.36 * self._mark, np.array(self._place(*self._trace.positions[step]))
        ahead = self._trace.directions[step] * (1, -1)
        aside = np.array([-ahead[1], ahead[0]])
        corners = [1.2 * ahead, -0.8 * ahead + 0.8 * aside, -0.8 * ahead - 0.8 * aside]
        points = [tuple(center + radius * corner) for corner in corners]
        canvas.polygon(points, fill=_WHITE, outline=INK, width=max(int(radius / 5), 2))

    def _reduce(self, image: Any) -> Any:
        return image.reduce(_FINE)


def time_color(part: float) -> Color:
    """Of a trail, from 0 at the first step to 1 at the last."""
    places = np.linspace(0, 1, len(_TIME))
    red, green, blue = (int(np.interp(part, places, channel)) for channel in _TIME.T)
    return red, green, blue


def load_font(size: int) -> Any:
    """Pillow's own font."""
    from PIL import ImageFont

    return ImageFont.load_default(size=size)


def _canvas(image: Any) -> Any:
    from PIL import ImageDraw

    return ImageDraw.Draw(image)
