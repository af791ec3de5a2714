"""Videos of any pictures."""

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from memory_maze.system.extras import missing
from memory_maze.system.files import replacing


def import_pictures() -> Any:
    """imageio with what it needs for pictures, or one line that says what is missing."""
    try:
        import imageio.v2 as imageio
        import PIL  # noqa: F401
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    return imageio


def import_video() -> Any:
    """The same with what it needs for videos."""
    imageio = import_pictures()
    try:
        import imageio_ffmpeg  # noqa: F401
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    return imageio


def _missing(error: ModuleNotFoundError) -> ModuleNotFoundError:
    return missing(f"images and videos need {error.name}", error.name, "video")


def write_video(path: Path, frames: Iterable[np.ndarray], fps: int) -> None:
    """Writes (H, W, 3) uint8 pictures as a video, whole or not at all."""
    imageio = import_video()
    with replacing(path) as temporary, warnings.catch_warnings():
        # JAX warns of forks; the child becomes ffmpeg at once and never uses JAX.
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
        with imageio.get_writer(temporary, format="FFMPEG", fps=fps, macro_block_size=16) as writer:
            for frame in frames:
                writer.append_data(frame)
