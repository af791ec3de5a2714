"""Samples scenarios in the published order: each seed gives the same episodes as the published package.

The published environment samples everything from one `np.random.RandomState`, including targets during an
episode, so the next maze depends on how many targets were reached in the previous one.
"""

import math

import numpy as np

from memory_maze.maze import Layout, LayoutGenerator, Settings
from memory_maze.options import Options
from memory_maze.scenario import TEXTURE_BLOCKS, WALL, WALL_TEXTURES, Cell, Scenario
from memory_maze.tasks import MAX_OBJECTS, Task
from memory_maze.world import BALL_RADIUS, CELL_METRES, OBJECT_RADIUS, cell_to_world

MAX_SEED = 2**32 - 1
_MAX_REGENERATIONS = 10_000
_MAX_DRAWS = 100_000
_TEXTURE_CHARACTERS = 10  # the published arena draws for '0' to '9' and uses the first nine

_NUM_RAYS = 10
_RAY_HEIGHT = 0.1
_SHELL_HEIGHT = 0.6 - 0.4


class Sampler:
    """Samples the sequence of episodes of a task.

    `draws_used` and `touched` describe the end of the previous episode: how many target draws it used, and
    which objects were still marked as touched (only if it was abandoned before its first step).
    """

    def __init__(
        self,
        task: Task,
        seed: int | None = None,
        *,
        randomize_colors: bool = False,
        objects_on_floor: bool = True,
    ) -> None:
        self.task = task
        self._rng = np.random.RandomState(check_seed(seed))
        self._randomize_colors = randomize_colors
        self._objects_on_floor = objects_on_floor
        self._colors = list(range(MAX_OBJECTS))
        # The published constructor fails for the one seed in two billion that gives 0.
        self._generator = make_generator(task, self._rng.randint(2147483648) or 1)
        # More than an episode can take: objects are more than a second apart.
        self.num_draws = min(2 * math.ceil(task.seconds) + 64, _MAX_DRAWS)

    def sample(self, draws_used: int = 1, touched: tuple[int, ...] = ()) -> Scenario:
        """Samples the next episode."""
        rng, count = self._rng, self.task.objects
        rng.randint(count, size=max(draws_used - 1, 0))
        layout, textures, objects, spawns = self._place()
        if self._randomize_colors:
            touched = ()  # the published objects are new ones then
        target = rng.randint(count)
        while target in touched and len(set(touched)) < count:
            target = rng.randint(count)
        spawn = spawns[rng.randint(0, len(spawns))]
        bias = math.pi * (1 + np.tanh(np.arctanh(rng.uniform(-1, 1))))
        walls = layout.walls()
        farthest = self._farthest_ray(walls, spawn, objects)
        state = rng.get_state()
        later = rng.randint(count, size=self.num_draws).tolist()
        rng.set_state(state)
        centre = (self.task.grid // 2, self.task.grid // 2)
        return Scenario(
            walls=walls,
            rooms=layout.variations(),
            textures=textures,
            objects=objects,
            colors=tuple(self._colors[:count]),
            spawns=(spawn,),
            heading=-_wrap(2 * math.pi * farthest / _NUM_RAYS + bias),
            draws=(target, *later),
            hidden=tuple(i for i, cell in enumerate(objects) if cell == centre),
        )

    def fill(self, scenario: Scenario, draws_used: int = 1) -> Scenario:
        """A hand-written scenario with what it leaves open drawn from this sampler's stream."""
        self._rng.randint(self.task.objects, size=max(draws_used - 1, 0))
        return scenario.fill(self._rng, self.num_draws)

    def _place(self) -> tuple[Layout, tuple[str, ...], tuple[Cell, ...], list[Cell]]:
        """Layouts are drawn until one has room for all objects."""
        for _ in range(_MAX_REGENERATIONS):
            layout = self._generator.draw()
            textures = self._draw_textures()
            if self._randomize_colors:
                self._rng.shuffle(self._colors)
            objects, spawns = layout.places(layout.objects), layout.places(layout.spawns)
            self._rng.shuffle(objects)
            if len(objects) >= self.task.objects and spawns:
                return layout, textures, tuple(objects[: self.task.objects]), spawns
        raise RuntimeError(
            f"no {self.task.name} maze with {self.task.objects} object positions in "
            f"{_MAX_REGENERATIONS} tries: allow more rooms, smaller rooms, or more objects_per_room"
        )

    def _draw_textures(self) -> tuple[str, ...]:
        self._rng.choice(1)  # the default wall, which no cell keeps
        names = [WALL_TEXTURES[self._rng.choice(len(WALL_TEXTURES))] for _ in range(_TEXTURE_CHARACTERS)]
        return tuple(names[: TEXTURE_BLOCKS**2])

    def _farthest_ray(self, walls: tuple[str, ...], spawn: Cell, objects: tuple[Cell, ...]) -> int:
        """Which of ten horizontal rays from the spawn goes farthest: the published heading's offset.

        The published environment casts them while its ball still stands in the middle of the maze.
        Equal lengths are decided by rounding, so the arithmetic follows MuJoCo's ray functions.
        """
        x, y = cell_to_world(spawn, self.task.grid)
        angles = 2 * np.pi * np.arange(_NUM_RAYS) / _NUM_RAYS
        rays = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        lengths = _ray_boxes((x, y), rays, walls)
        spheres = [((0.0, 0.0, _SHELL_HEIGHT), BALL_RADIUS)]
        if self._objects_on_floor:
            spheres += [((*cell_to_world(cell, self.task.grid), 0.0), OBJECT_RADIUS) for cell in objects]
        for centre, radius in spheres:
            lengths = np.minimum(lengths, _ray_sphere((x, y, _RAY_HEIGHT), rays, centre, radius))
        return int(np.argmax(lengths))


def make_sampler(task: Task, seed: int | None, options: Options) -> Sampler:
    """The sampler of a variant."""
    return Sampler(
        task,
        seed,
        randomize_colors=options.randomize_colors,
        objects_on_floor=not options.good_visibility,
    )


def settings_of(task: Task) -> Settings:
    """What the generator of a task's layouts is told."""
    return Settings(
        height=task.grid,
        width=task.grid,
        max_rooms=task.max_rooms,
        room_min_size=task.room_min_size,
        room_max_size=task.room_max_size,
        objects_per_room=task.objects_per_room,
    )


def make_generator(task: Task, seed: int) -> LayoutGenerator:
    """The generator of a task's layouts."""
    generator = LayoutGenerator(settings_of(task), seed)
    generator.draw()  # the published generator draws one when it is made, which is never played
    return generator


def check_seed(seed: int | None) -> int | None:
    """A seed that NumPy's `RandomState` takes, or None for fresh entropy."""
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise TypeError(f"seed must be an integer or None: got {seed!r}")
    if not 0 <= seed <= MAX_SEED:
        raise ValueError(f"seed must be from 0 to {MAX_SEED}: got {seed}")
    return int(seed)


def _wrap(angle: float) -> float:
    """An angle as the published walker stores it: through the half-angle quaternion."""
    w, z = np.cos(angle / 2), np.sin(angle / 2)
    return float(np.arctan2(2 * w * z, 1 - 2 * z**2))


def _ray_boxes(start: tuple[float, float], rays: np.ndarray, walls: tuple[str, ...]) -> np.ndarray:
    """Distance along each ray to the nearest wall cell."""
    cells = np.argwhere(np.array([list(row) for row in walls]) == WALL)
    middle, half = (len(walls) - 1) / 2, CELL_METRES / 2
    centres = np.stack([cells[:, 1] - middle, middle - cells[:, 0]], axis=1) * CELL_METRES
    offset = np.asarray(start) - centres  # (cells, 2)
    nearest = np.full(len(rays), np.inf)
    for axis in (0, 1):
        other = 1 - axis
        steep = np.abs(rays[:, axis]) > 1e-15
        for side in (-half, half):
            distance = (side - offset[:, axis])[None] / np.where(steep, rays[:, axis], 1.0)[:, None]
            across = offset[None, :, other] + distance * rays[:, other, None]
            hit = (distance >= 0) & (np.abs(across) <= half) & steep[:, None]
            nearest = np.minimum(nearest, np.where(hit, distance, np.inf).min(axis=1))
    return nearest


def _ray_sphere(
    start: tuple[float, float, float],
    rays: np.ndarray,
    centre: tuple[float, float, float],
    radius: float,
) -> np.ndarray:
    """Distance along each horizontal ray to a sphere, infinite where it is missed."""
    dx, dy, dz = (s - c for s, c in zip(start, centre, strict=True))
    a = rays[:, 0] * rays[:, 0] + rays[:, 1] * rays[:, 1]
    b = rays[:, 0] * dx + rays[:, 1] * dy
    c = dx * dx + dy * dy + dz * dz - radius * radius
    discriminant = b * b - a * c
    root = np.sqrt(np.maximum(discriminant, 0))
    near, far = (-b - root) / a, (-b + root) / a
    distance = np.where(near >= 0, near, far)
    return np.where((discriminant >= 1e-15) & (distance >= 0), distance, np.inf)
