"""An episode to look at: where everything was at each step, and what was seen."""

import base64
import dataclasses
import functools
import threading
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from memory_maze.data.frames import Reader
from memory_maze.data.scenes import Scenes
from memory_maze.data.tracks import Tracks, tracks_of_arrays, tracks_of_scenes
from memory_maze.options import DEFAULT, Options
from memory_maze.palette import OBJECTS, Color, to_rgb

DRAWN = 64  # pictures that a program draws at once
_UNKNOWN = (160, 160, 160)  # colour of an object that was never asked for, where the data does not tell it


@dataclasses.dataclass(frozen=True, eq=False)
class Trace:
    """An episode of S actions, in a maze of N x N cells with T objects.

    Places are in cells, (x, y) from the bottom left.
    """

    name: str
    tracks: Tracks  # of it alone
    targets: np.ndarray  # (S + 1,) int: the object that is asked for
    colors: list[Color]
    """Of the objects; grey where the data does not tell, for an object that was never asked for."""
    source: Any
    """Its scene or arrays, which `pictures` reads."""
    engine: str = "jax"
    """What draws the pictures of a scene."""
    options: Options = DEFAULT
    """Of the variant that it was recorded in."""
    walls: np.ndarray | None = None  # (S + 1, N, N) bool: what a probe takes for free
    places: np.ndarray | None = None  # (S + 1, T, 2) float: where a probe takes the objects to be

    @property
    def layout(self) -> np.ndarray:
        """(N, N) bool: where it is free; row 0 is the bottom row."""
        return self.tracks.layouts[0]

    @property
    def objects(self) -> np.ndarray:
        """(T, 2) float."""
        return self.tracks.objects[0]

    @property
    def positions(self) -> np.ndarray:
        """(S + 1, 2) float."""
        return self.tracks.positions[0]

    @property
    def directions(self) -> np.ndarray:
        """(S + 1, 2) float: unit vectors."""
        return self.tracks.directions[0]

    @property
    def rewards(self) -> np.ndarray:
        """(S,) number."""
        return self.tracks.rewards[0]

    @property
    def steps(self) -> int:
        """Actions."""
        return len(self.rewards)

    @functools.cached_property
    def scores(self) -> np.ndarray:
        """(S + 1,) float: the score at each step."""
        return np.concatenate([[0.0], np.cumsum(self.rewards, dtype=float)])

    @property
    def has_answers(self) -> bool:
        """Whether probes were asked."""
        return self.walls is not None or self.places is not None

    def answers_at(self, step: int) -> dict[str, np.ndarray]:
        """What probes answer at a step: walls, places, or nothing."""
        pairs = (("walls", self.walls), ("places", self.places))
        return {key: array[step] for key, array in pairs if array is not None}

    def pictures(self, steps: Sequence[int] | np.ndarray) -> np.ndarray:
        """First-person views at some steps, (n, R, R, 3) uint8. May be called by several threads."""
        steps = np.asarray(steps, int)
        if not len(steps) or steps.min() < 0 or steps.max() > self.steps:
            raise ValueError(f"steps must be from 0 to {self.steps}")
        if isinstance(self.source, dict):
            return self.source["image"][steps]
        return np.concatenate([self._draw(part) for part in _divide(steps)])

    def _draw(self, steps: np.ndarray) -> np.ndarray:
        """At most `DRAWN`: always as many, for one program."""
        times = (
            np.pad(steps, (0, DRAWN - len(steps)), mode="edge")[None] if self.engine == "jax" else steps[None]
        )
        reader, lock = self._reader
        with lock:  # the reference's graphics are of one thread at a time
            images = reader.read(np.zeros_like(times), times, ("image",))["image"]
            return np.asarray(jax.device_get(images))[0, : len(steps)]

    @functools.cached_property
    def _reader(self) -> tuple[Reader, threading.Lock]:
        return Reader(self.source, self.engine, self.options), threading.Lock()

    def describe(self) -> dict[str, Any]:
        """Plain data for the page; headings are in radians, from the right and to the left."""
        headings = np.arctan2(self.directions[:, 1], self.directions[:, 0])
        changes = np.flatnonzero(np.diff(self.targets, prepend=-1))
        rewarded = np.flatnonzero(self.rewards)
        data = {
            "name": self.name,
            "size": len(self.layout),
            "steps": self.steps,
            "score": _plain(self.scores[-1]),
            "layout": ["".join(".#"[not cell] for cell in row) for row in self.layout],
            "objects": _rounded(self.objects),
            "colors": ["#{:02x}{:02x}{:02x}".format(*color) for color in self.colors],
            "positions": _rounded(self.positions),
            "headings": _rounded(headings),
            # From which step on which object is asked for; and the score from which step on.
            "targets": [[int(step), int(self.targets[step])] for step in changes],
            "rewards": [[int(step) + 1, _plain(self.scores[step + 1])] for step in rewarded],
        }
        if self.walls is not None:
            data["walls"] = _pack(self.walls)
        if self.places is not None:
            data["places"] = _rounded(self.places, 2)
        return data


def _divide(steps: np.ndarray) -> list[np.ndarray]:
    return [steps[start : start + DRAWN] for start in range(0, len(steps), DRAWN)]


def _rounded(array: np.ndarray, digits: int = 3) -> list[Any]:
    return np.round(array.astype(float), digits).tolist()


def _plain(number: float) -> float | int:
    return int(number) if number == int(number) else round(float(number), 3)


def _pack(walls: np.ndarray) -> str:
    """Bits of one step after another, each step in whole bytes, as base64."""
    return base64.b64encode(np.packbits(walls.reshape(len(walls), -1), axis=1).tobytes()).decode()


def trace_of_scene(
    scenes: Scenes, index: int, name: str, engine: str = "jax", options: Options = DEFAULT
) -> Trace:
    """A trajectory of scenes."""
    scene = jax.tree.map(lambda leaf: leaf[index : index + 1], scenes)
    colors = [OBJECTS[color] for color in scene.colors[0]]
    targets = scene.targets[0].astype(int)
    return Trace(name, tracks_of_scenes(scene), targets, colors, scene, engine, options)


def trace_of_arrays(arrays: dict[str, np.ndarray], name: str) -> Trace:
    """A trajectory with the paper's keys."""
    away = np.abs(arrays["targets_pos"] - arrays["target_pos"][:, None]).max(axis=2)
    asked = away.argmin(axis=1)
    colors = [
        to_rgb(arrays["target_color"][np.argmax(asked == index)]) if (asked == index).any() else _UNKNOWN
        for index in range(away.shape[1])
    ]
    return Trace(name, tracks_of_arrays(arrays), asked, colors, {"image": arrays["image"]})
