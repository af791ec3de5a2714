"""Any elements of any trajectories of scenes, pictures included."""

import concurrent.futures
import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from memory_maze.data.scenes import Scenes, to_scenario
from memory_maze.data.schema import KEYS, RESET
from memory_maze.engine.observe import make_view, observe, visible_state
from memory_maze.engine.picture.render import View
from memory_maze.engine.picture.textures import Atlas, load_atlas
from memory_maze.engine.types import Maze, State
from memory_maze.options import ACTIONS, DEFAULT, Options
from memory_maze.system.cpu import num_cores
from memory_maze.world import CELL_METRES

FEW = 128  # frames that are not worth dividing


@functools.partial(jax.jit, static_argnames=("keys", "options"))
def read_frames(
    scenes: Scenes,
    atlas: Atlas,
    trajectories: jax.Array,
    times: jax.Array,
    keys: tuple[str, ...],
    options: Options = DEFAULT,
) -> dict[str, jax.Array]:
    """The arrays of `keys` for any elements of any trajectories: two (B, T) int32 arrays name them.

    Pictures are those of the variant with these options.
    """
    moved, before = times > 0, jnp.maximum(times - 1, 0)
    happened = {
        "action": jax.nn.one_hot(scenes.actions[trajectories, before], len(ACTIONS)) * moved[..., None],
        "reward": scenes.rewards[trajectories, before] * moved,
        RESET: ~moved,
    }
    states, view = _states(scenes, trajectories, times), make_view(options)

    def see(view: View, names: list[str]) -> dict[str, jax.Array]:
        return jax.vmap(jax.vmap(functools.partial(observe, view, atlas, names=names)))(states)

    # The way to the target is drawn in the pictures of some variants, but never marked in layouts.
    pictures = see(view, [key for key in keys if key == "image"])
    view = dataclasses.replace(view, minimap=False)
    made = happened | pictures | see(view, [key for key in keys if key not in ("image", *happened)])
    return {key: made[key].astype(bool if key == RESET else KEYS[key].dtype) for key in keys}


def _states(scenes: Scenes, trajectories: jax.Array, times: jax.Array) -> State:
    """The states at these times, (B, T), as far as they can be seen."""
    size = scenes.walls.shape[1]
    cells = scenes.objects[trajectories].astype(jnp.int32)
    places = jnp.stack([cells % size, cells // size], axis=-1).astype(jnp.float32)
    maze = Maze(
        walls=scenes.walls[trajectories],
        rooms=scenes.rooms[trajectories],
        textures=scenes.textures[trajectories].astype(jnp.int32),
        objects=(places - (size - 1) / 2) * CELL_METRES,
        colors=scenes.colors[trajectories].astype(jnp.int32),
    )
    targets = scenes.targets[trajectories, times].astype(jnp.int32)
    touched = scenes.hidden[trajectories] & (times == 0)[..., None]
    return visible_state(maze, scenes.poses[trajectories, times], targets, touched, times)


class Reader:
    """Reads frames of scenes: by one program on the device, or pictures by the reference.

    Args:
        scenes: What to read from; a copy of it is put on the device.
        engine: What draws: "jax", or "mujoco" for scenes that it recorded.
        options: The variant that they were recorded in.
    """

    def __init__(self, scenes: Scenes, engine: str = "jax", options: Options = DEFAULT) -> None:
        self._scenes = jax.device_put(dataclasses.replace(scenes, poses=scenes.poses.astype(np.float32)))
        self._atlas = load_atlas()
        self._options = options
        self._reference = ReferencePictures(scenes, options) if engine == "mujoco" else None
        # One program draws with one core.
        self._cores = num_cores() if jax.default_backend() == "cpu" else 1
        self._pool = concurrent.futures.ThreadPoolExecutor(self._cores)

    def read(self, trajectories: np.ndarray, times: np.ndarray, keys: tuple[str, ...]) -> dict[str, Any]:
        """Arrays on the device, of elements that two (B, T) arrays name."""
        trajectories, times = np.asarray(trajectories, np.int32), np.asarray(times, np.int32)
        parts = min(self._cores, times.size // FEW)
        if "image" not in keys or (self._reference is None and parts < 2):
            return self._read(trajectories, times, keys)
        others = tuple(key for key in keys if key != "image")
        arrays = self._read(trajectories, times, others)
        if self._reference is not None:
            return arrays | {"image": jnp.asarray(self._reference.draw(trajectories, times))}
        return arrays | {"image": jnp.asarray(self._draw_in_parts(trajectories, times, parts))}

    def _draw_in_parts(self, trajectories: np.ndarray, times: np.ndarray, parts: int) -> np.ndarray:
        """(B, T, R, R, 3) uint8, in as many parts of one size at once."""
        length = -(-times.size // parts)
        pieces = np.stack([np.resize(array, parts * length) for array in (trajectories, times)])
        images = self._pool.map(self._draw_part, *pieces.reshape(2, parts, 1, length))
        joined = np.concatenate(list(images))
        return joined[: times.size].reshape(*times.shape, *joined.shape[1:])

    def _draw_part(self, trajectories: np.ndarray, times: np.ndarray) -> np.ndarray:
        return np.asarray(self._read(trajectories, times, ("image",))["image"][0])

    def _read(self, trajectories: np.ndarray, times: np.ndarray, keys: tuple[str, ...]) -> dict[str, Any]:
        # Options matter for pictures alone: without them one program serves all variants.
        options = self._options if "image" in keys else DEFAULT
        return read_frames(self._scenes, self._atlas, trajectories, times, keys, options)


class ReferencePictures:
    """Pictures of scenes as MuJoCo draws them: some hundreds a second."""

    def __init__(self, scenes: Scenes, options: Options = DEFAULT) -> None:
        from memory_maze.reference.engine import MujocoEngine

        self._scenes, self._options = scenes, options
        self._engine = MujocoEngine(scenes.size + 2, options)
        self._loaded: int | None = None

    def draw(self, trajectories: np.ndarray, times: np.ndarray) -> np.ndarray:
        """(B, T, R, R, 3) uint8."""
        side = self._options.camera_resolution
        images = np.zeros((*times.shape, side, side, 3), np.uint8)
        # A maze takes longer to load than a picture to draw.
        for place in sorted(np.ndindex(times.shape), key=lambda place: trajectories[place]):
            images[place] = self._draw_one(int(trajectories[place]), int(times[place]))
        return images

    def _draw_one(self, index: int, time: int) -> np.ndarray:
        scenes, engine = self._scenes, self._engine
        if self._loaded != index:
            engine.reset(to_scenario(scenes, index))
            self._loaded = index
        hidden, target = scenes.hidden[index] & (time == 0), int(scenes.targets[index, time])
        engine.show(scenes.poses[index, time], hidden, target)
        return engine.observe(("image",))["image"]
