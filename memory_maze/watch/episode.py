"""A video of what an agent saw in an episode."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from memory_maze.data.frames import Reader
from memory_maze.data.scenes import UNKNOWN_SEED, from_recording
from memory_maze.options import DEFAULT, Options
from memory_maze.scenario import Scenario
from memory_maze.system.video import write_video

FPS = 12  # three times as fast as the benchmark's own clock
_PICTURE, _TEXT = 448, 32  # pixels; both multiples of 16, as codecs want it


def write_episode(
    path: Path, scenario: Scenario, recording: Any, engine: str, name: str, options: Options = DEFAULT
) -> None:
    """Writes a video of the first episode of a `Recording` as the agent saw it.

    Pictures are drawn from where it was, by the engine that recorded it, and so are those that it saw.
    """
    first = type(recording)(*(array[:1] for array in recording))
    # Pictures show no rewards, and scenes do not hold those of every rule.
    scene = from_recording([scenario], [UNKNOWN_SEED], first._replace(rewards=0 * first.rewards))
    times = np.arange(scene.length)[None]
    pictures = Reader(scene, engine, options).read(np.zeros_like(times), times, ("image",))["image"][0]
    write_video(path, draw_episode(np.asarray(pictures), first.rewards[0], name), FPS)


def draw_episode(pictures: np.ndarray, rewards: np.ndarray, name: str) -> Iterator[np.ndarray]:
    """What an agent saw, enlarged, with the step and the score below.

    Args:
        pictures: (S + 1, R, R, 3) uint8.
        rewards: (S,) of the S actions.
        name: Of the agent.
    """
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(size=18)
    scores = np.concatenate([[0], np.cumsum(rewards)])
    for step, picture in enumerate(pictures):
        frame = Image.new("RGB", (_PICTURE, _PICTURE + _TEXT), "white")
        frame.paste(Image.fromarray(picture).resize((_PICTURE, _PICTURE), Image.Resampling.NEAREST))
        text = f"{name}   step {step}   score {scores[step]:.0f}"
        ImageDraw.Draw(frame).text((8, _PICTURE + 5), text, fill="black", font=font)
        yield np.asarray(frame)
