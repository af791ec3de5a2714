"""Acting in many environments, within a training program.

What happens in an environment does not depend on the device that it is on, nor on how many there are.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from memory_maze.agents.config import AgentConfig
from memory_maze.agents.protocol import Network
from memory_maze.engine.batch import Batch
from memory_maze.engine.types import State, Timestep
from memory_maze.options import ACTIONS
from memory_maze.policies.protocol import Sight
from memory_maze.training.devices import AXIS, SAME, SHARED_OUT, check_divides

_OF_NETWORK = 0xFFFFFFFF  # no environment has this number


class Play(NamedTuple):
    """Where B environments are."""

    states: State
    sights: Sight
    carry: Any
    returns: jax.Array  # (B,) float32: of the episodes so far
    whole: jax.Array  # (B,) bool: the episode was played from its start
    key: jax.Array


PLAY_LAYOUT: Any = Play(*[SHARED_OUT] * 5, key=SAME)


class Step(NamedTuple):
    """A step of B environments."""

    states: State  # before it
    sights: Sight  # before it
    actions: jax.Array  # (B,) int32
    logits: jax.Array  # (B, 6) float32, that they were sampled from
    truncated: jax.Array  # (B,) bool: the time limit ended the episode after it


def check_sizes(batch: Batch, config: AgentConfig, mesh: Mesh) -> None:
    """Refuses sizes that cannot be shared out evenly, and iterations that are longer than an episode."""
    check_divides(config.num_envs, "num_envs", mesh)
    check_divides(config.batch_size, "batch_size", mesh)
    length = config.steps_per_iteration // config.num_envs
    if length >= batch.env.episode_steps:
        raise ValueError(
            f"unroll_length={length} must be shorter than an episode of {batch.env.episode_steps} steps, so "
            "that no environment resets twice in it"
        )


def begin_play(network: Network, batch: Batch, mazes: jax.Array, key: jax.Array, play_key: jax.Array) -> Play:
    """Starts episodes at different times of their length. `key` has one for each of all environments."""
    states, timesteps = batch.reset(key[mazes], spread=True)
    carry = repeat(network.initial(), batch.num)
    sights = see(timesteps, jnp.zeros(batch.num, jnp.int32))
    return Play(states, sights, carry, jnp.zeros(batch.num), jnp.zeros(batch.num, bool), play_key)


def repeat(tree: Any, count: int) -> Any:
    """Arrays with a new leading axis."""
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), tree)


def share_out(batch: Batch) -> tuple[Batch, jax.Array]:
    """The part of a device, and the numbers of its environments."""
    count = batch.num // jax.lax.axis_size(AXIS)
    return dataclasses.replace(batch, num=count), jax.lax.axis_index(AXIS) * count + jnp.arange(count)


def see(timesteps: Timestep, actions: jax.Array) -> Sight:
    """What the agent is told after its actions."""
    return Sight(timesteps.observation, timesteps.reward, actions, timesteps.first)


def act(
    network: Network,
    play: Play,
    batch: Batch,
    starts: State,
    length: int,
    mazes: jax.Array,
    note: Callable[[Step], Any],
    at_random: bool | jax.Array = False,
) -> tuple[Play, Any, dict[str, jax.Array]]:
    """Acts for some steps, fewer than an episode has.

    Args:
        network: What acts.
        play: Where the environments are.
        batch: The environments.
        starts: `batch.draw_next(play.states)`: once for all steps, as sampling is slow.
        length: Number of steps.
        mazes: (B,) numbers of the environments among all.
        note: What to keep of each step.
        at_random: Take all actions with the same probability.

    Returns:
        Where the environments are then, what was noted, stacked, and how episodes ended: parts of sums over
        all environments.
    """
    acting = network.ready()
    key, noise_key = jax.random.split(play.key)
    network_key = jax.random.fold_in(noise_key, _OF_NETWORK)

    def step(play: Play, given: tuple[jax.Array, jax.Array]) -> tuple[Play, tuple]:
        noise, number = given
        carry, logits = acting.step(play.carry, play.sights, draw_keys(network_key, mazes, number))
        logits = jnp.where(at_random, 0.0, logits)
        actions = jnp.argmax(logits + noise, axis=1).astype(jnp.int32)
        states, timesteps = batch.step(play.states, actions, starts)
        truncated, returns = timesteps.truncated, play.returns + timesteps.reward
        ended = truncated & play.whole
        after = Play(
            states,
            see(timesteps, actions),
            carry,
            jnp.where(truncated, 0.0, returns),
            play.whole | truncated,
            key,
        )
        noted = note(Step(play.states, play.sights, actions, logits, truncated))
        return after, (noted, jnp.where(ended, returns, 0.0), ended)

    given = draw_noise(noise_key, mazes, length), jnp.arange(length)
    after, (noted, returns, ended) = jax.lax.scan(step, play._replace(key=key), given)
    return after, noted, {"episodes": ended.sum(), "return_sum": returns.sum()}


def draw_keys(key: jax.Array, mazes: jax.Array, step: jax.Array) -> jax.Array:
    """(B,) keys of a step."""
    return jax.vmap(lambda maze: jax.random.fold_in(jax.random.fold_in(key, maze), step))(mazes)


def draw_noise(key: jax.Array, mazes: jax.Array, length: int) -> jax.Array:
    """(T, B, 6) Gumbel noise: the action with the largest sum of logit and noise has its softmax's chance.

    That of an environment is the same on whichever device it is.
    """
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, mazes)
    return jax.vmap(lambda key: jax.random.gumbel(key, (length, len(ACTIONS))), out_axes=1)(keys)
