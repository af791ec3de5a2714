"""Strips of images that a world model imagines, above those that were really seen."""

from pathlib import Path

import numpy as np

from memory_maze.palette import INK
from memory_maze.system.files import replacing
from memory_maze.system.video import import_pictures

SEEN, LENGTH, ROWS = 5, 50, 4  # images that the model sees, images in all, episodes
_COLUMNS = (0, 2, 4, 5, 9, 14, 19, 24, 29, 34, 39, 44, 49)
_SIDE, _GAP = 64, 8  # pixels


def write_strip(path: Path, imagined: np.ndarray, seen: np.ndarray) -> None:
    """Writes (LENGTH, B, S, S, 3) images of B episodes, two rows each; a line is where imagination begins."""
    imageio = import_pictures()
    columns = [
        np.concatenate([_pair(a, b) for a, b in zip(*pair, strict=True)])
        for pair in zip(imagined[list(_COLUMNS)], seen[list(_COLUMNS)], strict=True)
    ]
    line = np.full((len(columns[0]), _GAP // 2, 3), INK, np.uint8)
    columns.insert(_COLUMNS.index(SEEN), line)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as place:
        imageio.imwrite(place, np.concatenate(columns, axis=1), format="PNG")


def _pair(imagined: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """One above the other, with a margin."""
    both = np.concatenate([_enlarge(imagined), _enlarge(seen)])
    return np.pad(both, ((_GAP // 2,) * 2, (_GAP // 4,) * 2, (0, 0)), constant_values=255)


def _enlarge(image: np.ndarray) -> np.ndarray:
    """Images that were downsampled, as large as others."""
    times = _SIDE // len(image)
    return image.repeat(times, axis=0).repeat(times, axis=1)
