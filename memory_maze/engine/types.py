"""What the engine's programs pass around: every array with its shape, for one maze."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp

Method = TypeVar("Method", bound=Callable[..., Any])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Maze:
    """What stays the same during an episode. N is the size without the outer wall, T the objects."""

    walls: jax.Array  # (N,) uint32: bit c of row r is wall; row 0 is the bottom row, column 0 the left one
    rooms: jax.Array  # (N,) uint32: likewise, room floors
    textures: jax.Array  # (9,) int32: wall texture of each 3x3 block of the grid, from the top left
    objects: jax.Array  # (T, 2) float32: metres from the middle of the maze, x to the right, y up
    colors: jax.Array  # (T,) int32: index into world.COLORS


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Body:
    """The agent: a ball that rolls and steers. Metres, radians, seconds; every field is () float32."""

    x: jax.Array
    y: jax.Array
    z: jax.Array  # height above the rest position at first contact: about -0.0004 when it stands
    steer: jax.Array  # clockwise; the heading is -steer, and 256 turns are none
    vx: jax.Array
    vy: jax.Array
    vz: jax.Array
    steer_rate: jax.Array
    roll_rate: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """One episode. T is the number of objects, D the length of a scenario's target draws, or 0."""

    key: jax.Array
    maze: Maze
    body: Body
    target: jax.Array  # () int32: the object that is asked for
    touched: jax.Array  # (T,) bool: touched and not yet handled, and invisible: at reset alone (errata 1)
    paid: jax.Array  # () bool: the target has paid and was not left since: with a single object alone
    draws: jax.Array  # (D,) int32: raw target draws; without any they come from the key
    draws_used: jax.Array  # () int32
    step: jax.Array  # () int32: actions taken


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Timestep:
    """What an agent learns after an action."""

    observation: Any  # (R, R, 3) uint8, or a dictionary of arrays
    reward: jax.Array  # () float32
    terminated: jax.Array  # () bool: never
    truncated: jax.Array  # () bool: the time is up
    first: jax.Array  # () bool: the observation is the first of an episode


def jitted(method: Method) -> Method:
    """Compiles a method of a pytree, whose arrays are then arguments of the program."""
    return cast(Method, jax.jit(method))


def typed_key(key: jax.Array) -> jax.Array:
    """A key, or several, of the new style, so that states have one type with keys of either style."""
    return key if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else jax.random.wrap_key_data(key)
