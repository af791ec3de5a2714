"""A single environment as pure functions: reset, step, render. Vectorize it with `vmap`."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from memory_maze.engine import rules
from memory_maze.engine.bank import Bank, load_bank
from memory_maze.engine.observe import make_view, observe, render_state
from memory_maze.engine.picture.render import View
from memory_maze.engine.picture.textures import Atlas, load_atlas
from memory_maze.engine.types import Body, Maze, State, Timestep, jitted, typed_key
from memory_maze.observation import check_minimap, observation_arrays
from memory_maze.options import ACTIONS, Options
from memory_maze.scenario import WALL_TEXTURES, Scenario, layout_of
from memory_maze.system.programs import cache_programs
from memory_maze.tasks import Task, get_task
from memory_maze.world import CELL_METRES, COLORS, bit_rows, cell_to_world


@jax.tree_util.register_pytree_node_class
class Env:
    """Memory Maze in JAX.

    An `Env` is a pytree of large arrays, the layouts and the textures. Pass it to your own jitted functions
    as an argument; a closure would embed a copy. Compiled programs are cached in ~/.cache/memory-maze,
    unless another cache directory is configured in JAX.

    Args:
        task: A name like "9x9", or a `Task`.
        seconds: Episode length in simulated seconds; by default that of the task.
        bank: Layouts to sample from; by default a bank for the task, generated once and cached.
        layouts: Number of layouts in the default bank.
        held_out: Sample from held-out layouts, which no training bank contains.
        keywords: The fields of `memory_maze.Options`.

    >>> env = Env("9x9", image_only_obs=True)
    >>> state, timestep = env.reset(jax.random.key(0))
    >>> state, timestep = env.step(state, 1)
    """

    def __init__(
        self,
        task: str | Task = "9x9",
        *,
        seconds: float | None = None,
        bank: Bank | None = None,
        layouts: int | None = None,
        held_out: bool = False,
        **keywords: Any,
    ) -> None:
        cache_programs()
        self.task = get_task(task, seconds)
        self.options = Options.from_keywords(keywords)
        check_minimap(self.task, self.options)
        self.view = make_view(self.options)
        self.bank = jax.tree.map(jnp.asarray, bank or load_bank(self.task, layouts, held_out=held_out))
        self.atlas = load_atlas()

    def __init_subclass__(cls) -> None:
        """Registers subclasses as pytrees."""
        jax.tree_util.register_pytree_node_class(cls)

    def tree_flatten(self) -> tuple[tuple[Bank, Atlas], tuple[Task, Options, View]]:
        """The arrays, and the static data that programs are compiled for."""
        return (self.bank, self.atlas), (self.task, self.options, self.view)

    @classmethod
    def tree_unflatten(cls, rules: tuple[Task, Options, View], arrays: tuple[Bank, Atlas]) -> "Env":
        """Rebuilds the environment with other arrays."""
        env = object.__new__(cls)
        env.task, env.options, env.view = rules
        env.bank, env.atlas = arrays
        return env

    @property
    def episode_steps(self) -> int:
        """Number of actions in an episode."""
        return self.task.episode_steps(self.options.control_freq)

    @jitted
    def reset(self, key: jax.Array) -> tuple[State, Timestep]:
        """Starts a new episode with a layout from the bank, sampled with the key."""
        state = self.draw(key)
        return state, self._timestep(state, jnp.float32(0), first=True)

    @jitted
    def step(self, state: State, action: jax.Array | int) -> tuple[State, Timestep]:
        """Takes an action. Past the time limit the episode continues, with `truncated` set."""
        state, reward = self.advance(state, action)
        return state, self._timestep(state, reward, first=False)

    def render(self, state: State) -> jax.Array:
        """Renders an (R, R, 3) uint8 image with the border, without the minimap."""
        return render_state(self.view, self.atlas, state)

    def advance(self, state: State, action: jax.Array | int) -> tuple[State, jax.Array]:
        """Takes an action without rendering: returns the next state and the reward."""
        result = rules.advance(
            state,
            self.control(action),
            substeps=self.options.substeps,
            floating_objects=self.options.good_visibility,
        )
        return result.state, result.reward

    def control(self, action: jax.Array | int) -> jax.Array:
        """Returns the (2,) controls of an action: roll and steer."""
        if self.options.discrete_actions:
            return jnp.asarray(ACTIONS, jnp.float32)[action]
        return jnp.clip(jnp.asarray(action, jnp.float32), -1, 1)

    def draw(self, key: jax.Array) -> State:
        """Samples the initial state of an episode."""
        key, layout_key, texture_key, color_key, place_key, spawn_key, heading_key, target_key = (
            jax.random.split(typed_key(key), 8)
        )
        count = self.task.objects
        index = jax.random.randint(layout_key, (), 0, len(self.bank))
        layout = jax.tree.map(lambda array: array[index], self.bank)
        places = _shuffle(place_key, layout.places)[:count]
        colors = jnp.arange(count, dtype=jnp.int32)
        if self.options.randomize_colors:
            colors = jax.random.permutation(color_key, len(COLORS))[:count].astype(jnp.int32)
        maze = Maze(
            walls=layout.walls,
            rooms=layout.rooms,
            textures=jax.random.randint(texture_key, (9,), 0, len(WALL_TEXTURES)),
            objects=self._to_metres(places),
            colors=colors,
        )
        spawn = self._to_metres(_shuffle(spawn_key, layout.spawns)[:1])[0]
        heading = jax.random.uniform(heading_key, minval=-math.pi, maxval=math.pi)
        middle = self.task.size**2 // 2
        target = jax.random.randint(target_key, (), 0, count)
        return _begin(
            key, maze, spawn, heading, target, touched=places == middle, draws=jnp.zeros(0, jnp.int32)
        )

    def load(self, scenario: Scenario) -> State:
        """Returns the initial state of a complete scenario."""
        return begin_scenario(scenario)

    def observe(self, state: State) -> Any:
        """Returns the observation: an image, or a dictionary of arrays."""
        seen = observe(self.view, self.atlas, state, observation_arrays(self.task, self.options))
        return seen["image"] if self.options.image_only_obs else seen

    def _timestep(self, state: State, reward: jax.Array, first: bool) -> Timestep:
        return Timestep(
            observation=self.observe(state),
            reward=reward,
            terminated=jnp.bool_(False),
            truncated=state.step >= self.episode_steps,
            first=jnp.bool_(first),
        )

    def _to_metres(self, cells: jax.Array) -> jax.Array:
        """(..., 2) centres of numbered cells."""
        size = self.task.size
        place = jnp.stack([cells % size, cells // size], axis=-1).astype(jnp.float32)
        return (place - (size - 1) / 2) * CELL_METRES


def begin_scenario(scenario: Scenario) -> State:
    """Returns the initial state of a complete scenario."""
    return jax.tree.map(lambda leaf: leaf[0], begin_scenarios([scenario]))


def begin_scenarios(scenarios: Sequence[Scenario]) -> State:
    """Returns the initial states of complete scenarios with equal sizes and numbers of target draws."""
    keys = jnp.broadcast_to(jax.random.key(0), (len(scenarios),))
    return jax.vmap(_begin)(keys, *jax.tree.map(jnp.asarray, tuple(read_scenarios(scenarios))))


class Starts(NamedTuple):
    """Initial states as NumPy arrays with a leading axis: the arguments of `_begin` after the key."""

    maze: Maze
    spawn: np.ndarray  # (n, 2) float32
    heading: np.ndarray  # (n,) float32
    target: np.ndarray  # (n,) int32
    touched: np.ndarray  # (n, T) bool
    draws: np.ndarray  # (n, D) int32


def read_scenarios(scenarios: Sequence[Scenario]) -> Starts:
    """Converts complete scenarios of equal size to arrays on the host."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *map(_read_scenario, scenarios))


def _read_scenario(scenario: Scenario) -> Starts:
    """One of them, without the leading axis."""
    assert scenario.complete, scenario
    assert scenario.textures is not None
    assert scenario.draws is not None
    objects = [cell_to_world(cell, scenario.grid) for cell in scenario.objects]
    rooms = np.array([[char.isupper() for char in row] for row in scenario.rooms])
    maze: dict[str, Any] = {
        "walls": bit_rows(layout_of(scenario) == 0),
        "rooms": bit_rows(rooms[1:-1, 1:-1][::-1]),
        "textures": np.array([WALL_TEXTURES.index(name) for name in scenario.textures], np.int32),
        "objects": np.array(objects, np.float32),
        "colors": np.array(scenario.colors, np.int32),
    }
    starts: dict[str, Any] = {
        "spawn": np.array(cell_to_world(scenario.spawns[0], scenario.grid), np.float32),
        "heading": np.float32(scenario.heading),
        "target": np.int32(scenario.draws[0]),
        "touched": np.array([i in scenario.hidden for i in range(len(objects))]),
        "draws": np.array(scenario.draws, np.int32),
    }
    return Starts(Maze(**maze), **starts)


def _begin(
    key: jax.Array,
    maze: Maze,
    spawn: Any,
    heading: Any,
    target: Any,
    touched: Any,
    draws: Any,
) -> State:
    zero = jnp.float32(0)
    return State(
        key=key,
        maze=maze,
        body=Body(spawn[0], spawn[1], zero, -heading, zero, zero, zero, zero, zero),
        target=target,
        touched=touched,
        paid=jnp.bool_(False),
        draws=draws,
        draws_used=jnp.int32(1),
        step=jnp.int32(0),
    )


def _shuffle(key: jax.Array, cells: jax.Array) -> jax.Array:
    """The cells in random order, those that are missing (-1) last."""
    scores = jnp.where(cells < 0, 2.0, jax.random.uniform(key, cells.shape))
    return cells[jnp.argsort(scores)].astype(jnp.int32)
