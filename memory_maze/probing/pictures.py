"""Pictures of what probes answer: strips as in the paper, and videos."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from memory_maze.palette import FALSE_FLOOR, FALSE_WALL, FLOOR, INK, WALL
from memory_maze.probing.predictions import Predictions, mean_score
from memory_maze.system.files import replacing
from memory_maze.system.video import import_pictures, write_video

FPS = 12
_SIDE, _GAP, _TEXT = 192, 16, 32  # pixels; multiples of 16, as codecs want it
_PATH = (0, 130, 150)


def write_strip(path: Path, predictions: Predictions, columns: int = 6) -> None:
    """Writes rows of what was seen, where the agent had been, and what was answered."""
    imageio = import_pictures()
    steps = np.linspace(0, len(predictions.images) - 1, columns).round().astype(int)
    strip = np.concatenate([draw_panels(predictions, int(step)) for step in steps], axis=1)
    with replacing(path) as place:
        imageio.imwrite(place, strip, format="PNG")


def write_predictions(path: Path, predictions: Predictions, every: int = 2) -> None:
    """Writes the same as a video, of every so many steps."""
    frames = (
        draw_panels(predictions, step, across=True) for step in range(0, len(predictions.images), every)
    )
    write_video(path, frames, FPS)


def draw_panels(predictions: Predictions, step: int, across: bool = False) -> np.ndarray:
    """All pictures of one step, below each other or beside each other."""
    from PIL import Image

    panels = list(_panels(predictions, step))
    width, height = _SIDE + _GAP, _SIDE + _TEXT
    size = (width * len(panels), height) if across else (width, height * len(panels))
    sheet = Image.new("RGB", size, "white")
    for number, (text, panel) in enumerate(panels):
        corner = (width * number, 0) if across else (0, height * number)
        sheet.paste(panel, (corner[0] + _GAP // 2, corner[1] + _TEXT))
        _write(sheet, (corner[0] + _GAP // 2, corner[1] + 8), text)
    return np.asarray(sheet)


def _panels(predictions: Predictions, step: int) -> Iterator[tuple[str, Any]]:
    from PIL import Image

    seen = Image.fromarray(predictions.images[step]).resize((_SIDE, _SIDE), Image.Resampling.NEAREST)
    yield f"step {step}", seen
    scores = mean_score(predictions, step)
    path = _draw_map(predictions.layout, predictions.layout)
    _draw_path(path, predictions, step)
    _draw_objects(path, predictions, predictions.objects, "circle")
    yield "trajectory", path
    if predictions.walls is not None:
        walls = _draw_map(predictions.layout, predictions.walls[step])
        _draw_agent(walls, predictions, step)
        yield f"walls: {scores['walls']:.0f} % right", walls
    if predictions.places is not None:
        objects = _draw_map(predictions.layout, predictions.layout)
        _draw_objects(objects, predictions, predictions.objects, "circle")
        _draw_objects(objects, predictions, predictions.places[step], "cross")
        _draw_agent(objects, predictions, step)
        yield f"objects: error {scores['objects']:.1f}", objects


def _write(sheet: Any, place: tuple[int, int], text: str) -> None:
    from PIL import ImageDraw, ImageFont

    ImageDraw.Draw(sheet).text(place, text, fill=INK, font=ImageFont.load_default(size=15))


def _draw_map(layout: np.ndarray, answer: np.ndarray) -> Any:
    """Walls and floor as they are answered, and what is wrong of it."""
    from PIL import Image

    cells = np.where(answer[..., None], FLOOR, WALL)
    cells = np.where((layout & ~answer)[..., None], FALSE_WALL, cells)
    cells = np.where((~layout & answer)[..., None], FALSE_FLOOR, cells)
    picture = Image.fromarray(cells[::-1].astype(np.uint8))
    return picture.resize((_SIDE, _SIDE), Image.Resampling.NEAREST)


def _to_pixels(predictions: Predictions, places: np.ndarray) -> list[tuple[float, float]]:
    scale = _SIDE / len(predictions.layout)
    return [(float(x) * scale, _SIDE - float(y) * scale) for x, y in places]


def _draw_path(panel: Any, predictions: Predictions, step: int) -> None:
    from PIL import ImageDraw

    points = _to_pixels(predictions, predictions.positions[: step + 1])
    if len(points) > 1:
        ImageDraw.Draw(panel).line(points, fill=_PATH, width=2)
    _draw_agent(panel, predictions, step)


def _draw_agent(panel: Any, predictions: Predictions, step: int) -> None:
    from PIL import ImageDraw

    place, ahead = predictions.positions[step], predictions.directions[step]
    side = np.array([ahead[1], -ahead[0]])
    corners = [place + 0.5 * ahead, place - 0.3 * ahead + 0.3 * side, place - 0.3 * ahead - 0.3 * side]
    ImageDraw.Draw(panel).polygon(_to_pixels(predictions, np.stack(corners)), fill=INK)


def _draw_objects(panel: Any, predictions: Predictions, places: np.ndarray, shape: str) -> None:
    from PIL import ImageDraw

    draw, radius = ImageDraw.Draw(panel), _SIDE / len(predictions.layout) / 3
    for (x, y), color in zip(_to_pixels(predictions, places), predictions.colors, strict=True):
        if shape == "circle":
            draw.ellipse((x - radius, y - radius, x + radius, y + radius), outline=color, width=3)
        else:
            for sign in (1, -1):
                draw.line((x - radius, y - sign * radius, x + radius, y + sign * radius), fill=color, width=3)
