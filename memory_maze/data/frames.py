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
from memory_maze.engine.env import draw_image
from memory_maze.engine.picture.textures import Atlas, load_atlas
from memory_maze.engine.types import Body, Maze, State
from memory_maze.observation import Observer, finish_image, to_cells
from memory_maze.options import ACTIONS, DEFAULT, Options
from memory_maze.scenario import CELL_METRES, COLORS
from memory_maze.system.cpu import num_cores

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
    size = scenes.walls.shape[1]
    take = lambda array, times=times: array[trajectories, times]  # noqa: E731
    pose = take(scenes.poses)
    target = take(scenes.targets).astype(jnp.int32)
    before = jnp.maximum(times - 1, 0)
    moved = times > 0
    cells = scenes.objects[trajectories].astype(jnp.int32)
    objects = jnp.stack([cells % size, cells // size], axis=-1) + 0.5  # in cells from the bottom left
    position = to_cells(pose[..., :2], size)
    forward = jnp.stack([jnp.cos(-pose[..., 3]), jnp.sin(-pose[..., 3])], axis=-1)
    right = jnp.stack([forward[..., 1], -forward[..., 0]], axis=-1)
    offsets = objects - position[..., None, :]
    vectors = jnp.stack([(offsets * axis[..., None, :]).sum(-1) for axis in (right, forward)], axis=-1)
    of_target = lambda array: jnp.take_along_axis(array, target[..., None, None], axis=-2)[..., 0, :]  # noqa: E731
    color = jnp.take_along_axis(scenes.colors[trajectories].astype(jnp.int32), target[..., None], axis=-1)
    makers = {
        "image": lambda: _draw(scenes, atlas, trajectories, times, options),
        "action": lambda: jax.nn.one_hot(take(scenes.actions, before), len(ACTIONS)) * moved[..., None],
        "reward": lambda: take(scenes.rewards, before) * moved,
        "maze_layout": lambda: (
            1 - (scenes.walls[trajectories][..., None] >> jnp.arange(size, dtype=jnp.uint32) & 1)
        ),
        "agent_pos": lambda: position,
        "agent_dir": lambda: forward,
        "targets_pos": lambda: objects,
        "targets_vec": lambda: vectors,
        "target_pos": lambda: of_target(objects),
        "target_vec": lambda: of_target(vectors),
        "target_color": lambda: jnp.asarray(COLORS, jnp.float32)[color[..., 0]],
    }
    made = {key: makers[key]().astype(KEYS[key].dtype) for key in keys if key in makers}
    return made | ({RESET: ~moved} if RESET in keys else {})


def _draw(
    scenes: Scenes, atlas: Atlas, trajectories: jax.Array, times: jax.Array, options: Options
) -> jax.Array:
    """(B, T, R, R, 3) uint8."""
    shape = trajectories.shape
    states = _states(scenes, trajectories.reshape(-1), times.reshape(-1))
    images = jax.vmap(functools.partial(draw_image, options, atlas))(states)
    return images.reshape(*shape, *images.shape[1:])


def _states(scenes: Scenes, trajectories: jax.Array, times: jax.Array) -> State:
    """What pictures are drawn from, (F,)."""
    size = scenes.walls.shape[1]
    cells = scenes.objects[trajectories].astype(jnp.int32)
    places = jnp.stack([cells % size, cells // size], axis=-1).astype(jnp.float32)
    x, y, z, steer = jnp.moveaxis(scenes.poses[trajectories, times].astype(jnp.float32), -1, 0)
    zero = jnp.zeros_like(x)
    return State(
        key=jax.random.split(jax.random.key(0), len(times)),
        maze=Maze(
            walls=scenes.walls[trajectories],
            rooms=scenes.rooms[trajectories],
            textures=scenes.textures[trajectories].astype(jnp.int32),
            objects=(places - (size - 1) / 2) * CELL_METRES,
            colors=scenes.colors[trajectories].astype(jnp.int32),
        ),
        body=Body(x, y, z, steer, zero, zero, zero, zero, zero),
        target=scenes.targets[trajectories, times].astype(jnp.int32),
        touched=scenes.hidden[trajectories] & (times == 0)[:, None],
        paid=jnp.zeros_like(x, bool),
        draws=jnp.zeros((len(times), 0), jnp.int32),
        draws_used=jnp.zeros_like(times),
        step=times,
    )


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
            scenario = to_scenario(scenes, index)
            engine.reset(scenario)
            self._observer, self._loaded = Observer(scenario), index
        engine.show(scenes.poses[index, time], scenes.hidden[index] & (time == 0))
        image = engine.image()
        target = int(scenes.targets[index, time])
        finish_image(image, self._options, self._observer, (engine.position, engine.axes), target)
        return image
