"""The pictures of the report: both engines and their difference, and the same walks over each other."""

from pathlib import Path
from typing import Any

import numpy as np

from memory_maze.compare import replay
from memory_maze.compare.record import Job, Record, draw_scenarios
from memory_maze.options import Options
from memory_maze.scenario import Scenario
from memory_maze.system.files import replacing
from memory_maze.tasks import parse_task
from memory_maze.world import CELL_METRES, TOP_PADDING

DIFFERENCE = 8  # times as bright
_MAP = 384
_MUJOCO, _JAX = (255, 255, 255), (255, 60, 200)
_CAPTION = 22
_SOME = 20  # walks, of which the longest are shown

Cell = tuple[str, np.ndarray]


def save_all(out: Path, pictures: dict[str, Any]) -> None:
    """engines.png for all sizes; for each size pictures-*.png, views-*.png and walks-*.png."""
    save(out / "engines.png", overview(pictures))
    for task, found in pictures.items():
        ours, theirs, decibels = found["pairs"]["64"]
        order = np.argsort(decibels)
        chosen = [*order[:3], *order[np.linspace(3, len(order) - 1, 5, dtype=int)]]
        rows = [triple(ours[i], theirs[i], f"{decibels[i]:.1f} dB") for i in chosen]
        save(out / f"pictures-{task}.png", sheet([cell for row in rows for cell in row], 6, 192))
        rows = [worst(*pair, name) for name, pair in found["pairs"].items() if name != "64"]
        if rows:
            save(out / f"views-{task}.png", sheet([cell for row in rows for cell in row], 3, 256))
        maps = [draw_walk(*found["walks"][name], rank) for name in ("random", "forward") for rank in range(3)]
        save(out / f"walks-{task}.png", sheet(maps, 3, _MAP))


def overview(pictures: dict[str, Any]) -> np.ndarray:
    """Of each size the least alike pair, the one with most to see, and a walk from above."""
    cells = []
    for task, found in pictures.items():
        ours, theirs, decibels = found["pairs"]["64"]
        rich = np.argmax([len(np.unique(image.reshape(-1, 3) // 48, axis=0)) for image in theirs])
        cells += worst(ours, theirs, decibels, f"{task}, least alike")
        cells += triple(ours[rich], theirs[rich], f"{task}, {decibels[rich]:.1f} dB")
        cells.append(draw_walk(*found["walks"]["forward"], 0))
    return sheet(cells, 7, 192)


def worst(ours: np.ndarray, theirs: np.ndarray, decibels: np.ndarray, name: str) -> list[Cell]:
    """The pair that is least alike."""
    index = int(np.argmin(decibels))
    return triple(ours[index], theirs[index], f"{name}, {decibels[index]:.1f} dB")


def triple(ours: np.ndarray, theirs: np.ndarray, name: str) -> list[Cell]:
    """The JAX engine's picture, the reference's, and their difference."""
    apart = np.clip(DIFFERENCE * np.abs(ours.astype(int) - theirs), 0, 255).astype(np.uint8)
    return [(f"JAX: {name}", ours), ("MuJoCo", theirs), (f"{DIFFERENCE} x difference", apart)]


def draw_walk(job: Job, record: Record, walk: replay.Outcome, rank: int) -> Cell:
    """The same actions in both engines, over each other on the map; rank 0 of some is the longest."""
    from PIL import Image, ImageDraw

    run = int(np.argsort(-replay.path_lengths(replay.reference_places(record))[:_SOME])[rank])
    scenario = draw_scenarios(job)[run]
    options = Options(top_camera=True, camera_resolution=_MAP)
    state = record.before[run, 0]
    image = Image.fromarray(replay.draw_reference(parse_task(job.task), options, [(scenario, state)])[0])
    pen = ImageDraw.Draw(image)
    ways = (replay.reference_places(record)[run], replay.own_places(record, walk)[run])
    for way, color, width in zip(ways, (_MUJOCO, _JAX), (5, 2), strict=True):
        pen.line(_to_pixels(way, scenario), fill=color, width=width)
    return f"{job.policy}: JAX (pink) on MuJoCo", np.asarray(image)


def _to_pixels(way: np.ndarray, scenario: Scenario) -> list[tuple[float, float]]:
    """Where the top camera shows the floor at a place; it sees a tenth more than the maze."""
    half = TOP_PADDING * CELL_METRES / 2 * scenario.grid
    return [tuple((_MAP * (0.5 + np.array([x, -y]) / (2 * half))).tolist()) for x, y in way]


def sheet(cells: list[Cell], columns: int, size: int) -> np.ndarray:
    """Pictures at one size with a caption above each, `columns` to a row."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(size=12)
    rows = -(-len(cells) // columns)
    picture = Image.new("RGB", (columns * (size + 6), rows * (size + _CAPTION)), "white")
    for index, (caption, cell) in enumerate(cells):
        left, top = index % columns * (size + 6) + 3, index // columns * (size + _CAPTION)
        ImageDraw.Draw(picture).text((left, top + 4), caption, fill="black", font=font)
        filter = Image.Resampling.NEAREST if len(cell) <= size else Image.Resampling.BOX
        picture.paste(Image.fromarray(cell).resize((size, size), filter), (left, top + _CAPTION - 2))
    return np.asarray(picture)


def save(path: Path, picture: np.ndarray) -> None:
    from PIL import Image

    with replacing(path) as temporary:
        Image.fromarray(picture).save(temporary, optimize=True)
