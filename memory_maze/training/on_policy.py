"""Environment, policy and learner in one program: the Anakin pattern (Hessel et al. 2021).

Each device plays its share of the mazes and learns from it, and gradients are averaged over all devices. What
happens in a maze does not depend on how many there are.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from memory_maze.agents.config import AgentConfig
from memory_maze.agents.protocol import Network, Sequence
from memory_maze.engine.batch import Batch
from memory_maze.engine.types import State, Timestep
from memory_maze.options import ACTIONS
from memory_maze.policies.protocol import Sight
from memory_maze.training.devices import AXIS, SAME, SHARED_OUT, check_divides, on_all


class Play(NamedTuple):
    """Where B mazes are."""

    states: State
    sights: Sight
    carry: Any
    returns: jax.Array  # (B,) float32: of the episodes so far
    whole: jax.Array  # (B,) bool: the episode was played from its start
    key: jax.Array


class Training(NamedTuple):
    """Everything that a run needs to go on."""

    network: Network
    optimizer: Any
    play: Play
    steps: jax.Array  # () int32: iterations


LAYOUT: Any = Training(SAME, SAME, Play(*[SHARED_OUT] * 5, key=SAME), SAME)


def begin(key: jax.Array, batch: Batch, config: AgentConfig, mesh: Mesh) -> Training:
    """A new run. `batch` is of all mazes, and the same on all devices."""
    check_divides(config.num_envs, "num_envs", mesh)
    check_divides(config.batch_size, "batch_size", mesh)
    if config.unroll_length >= batch.env.episode_steps:
        raise ValueError(
            f"unroll_length={config.unroll_length} must be shorter than an episode of "
            f"{batch.env.episode_steps} steps, so that no environment resets twice in it"
        )
    return _make_begin(config, mesh)(key, batch)


@functools.cache
def _make_begin(config: AgentConfig, mesh: Mesh) -> Any:
    return on_all(functools.partial(_begin_share, config), mesh, (SAME, SAME), LAYOUT)


def _begin_share(config: AgentConfig, key: jax.Array, batch: Batch) -> Training:
    network_key, reset_key, play_key = jax.random.split(key, 3)
    agent = config.load()
    network = agent.init(network_key, config)
    share, mazes = share_out(batch)
    states, timesteps = share.reset(jax.random.split(reset_key, batch.num)[mazes], spread=True)
    count = share.num
    carry = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), network.initial())
    sights = see(timesteps, jnp.zeros(count, jnp.int32))
    play = Play(states, sights, carry, jnp.zeros(count), jnp.zeros(count, bool), play_key)
    optimizer = agent.make_optimizer(config).init(eqx.filter(network, eqx.is_array))
    return Training(network, optimizer, play, jnp.int32(0))


def share_out(batch: Batch) -> tuple[Batch, jax.Array]:
    """The part of a device, and the numbers of its mazes."""
    count = batch.num // jax.lax.axis_size(AXIS)
    return dataclasses.replace(batch, num=count), jax.lax.axis_index(AXIS) * count + jnp.arange(count)


def see(timesteps: Timestep, actions: jax.Array) -> Sight:
    """What the agent is told after its actions."""
    return Sight(timesteps.observation, timesteps.reward, actions, timesteps.first)


def iterate(
    training: Training, batch: Batch, config: AgentConfig, mesh: Mesh
) -> tuple[Training, dict[str, jax.Array]]:
    """Plays `length` steps in all mazes, then learns from them in groups. Its memory is used again."""
    return _make_iterate(config, mesh)(training, batch)


Program = Callable[[Training, Batch], tuple[Training, dict[str, jax.Array]]]


def compile_iterate(shapes: Training, batch: Batch, config: AgentConfig, mesh: Mesh) -> Any:
    """`iterate` as a program that is ready to run."""
    return _make_iterate(config, mesh).lower(shapes, batch).compile()


@functools.cache
def _make_iterate(config: AgentConfig, mesh: Mesh) -> Any:
    share = functools.partial(_iterate_share, config)
    return on_all(share, mesh, (LAYOUT, SAME), (LAYOUT, SAME), donate_argnums=0)


def _iterate_share(
    config: AgentConfig, training: Training, batch: Batch
) -> tuple[Training, dict[str, jax.Array]]:
    share, mazes = share_out(batch)
    play, sequences, metrics = unroll(training.network, training.play, share, config, mazes)
    axis = AXIS if jax.lax.axis_size(AXIS) > 1 else None  # alone, there is nothing to ask others for
    metrics = jax.lax.psum(metrics, AXIS) if axis else metrics
    arrays, rest = eqx.partition(training.network, eqx.is_array)
    update = config.load().update

    def learn(learner: tuple, group: Sequence) -> tuple:
        arrays, optimizer = learner
        network, optimizer, losses = update(eqx.combine(arrays, rest), optimizer, group, config, axis)
        return (eqx.filter(network, eqx.is_array), optimizer), losses

    groups, learner = divide(sequences, config), (arrays, training.optimizer)
    (arrays, optimizer), losses = jax.lax.scan(
        lambda learner, _: jax.lax.scan(learn, learner, groups), learner, length=config.epochs
    )
    metrics |= jax.tree.map(jnp.mean, losses)
    return Training(eqx.combine(arrays, rest), optimizer, play, training.steps + 1), metrics


def unroll(
    network: Network, play: Play, batch: Batch, config: AgentConfig, mazes: jax.Array
) -> tuple[Play, Sequence, dict[str, jax.Array]]:
    """Plays, and tells what happened and how episodes ended; `mazes` (B,) are their numbers among all."""
    # Once for all steps: drawing is dear, and no maze is reset twice in them.
    starts, acting = batch.draw_next(play.states), network.ready()
    key, noise_key = jax.random.split(play.key)

    def step(play: Play, noise: jax.Array) -> tuple[Play, tuple]:
        carry, logits = acting.step(play.carry, play.sights)
        actions = jnp.argmax(logits + noise, axis=1).astype(jnp.int32)
        states, timesteps = batch.step(play.states, actions, starts)
        returns = play.returns + timesteps.reward
        ended = timesteps.truncated & play.whole
        after = Play(
            states,
            see(timesteps, actions),
            carry,
            jnp.where(timesteps.truncated, 0.0, returns),
            play.whole | timesteps.truncated,
            key,
        )
        ends = timesteps.truncated, jnp.where(ended, returns, 0.0), ended
        return after, (play.sights, actions, logits, *ends)

    noise = draw_noise(noise_key, mazes, config.unroll_length)
    after, made = jax.lax.scan(step, play._replace(key=key), noise)
    sights, actions, logits, truncated, returns, ended = made
    sights = jax.tree.map(lambda many, last: jnp.concatenate([many, last[None]]), sights, after.sights)
    # Parts of sums over all mazes.
    reward = sights.reward[1:].sum() / (config.num_envs * config.unroll_length)
    metrics = {"episodes": ended.sum(), "return_sum": returns.sum(), "reward": reward}
    return after, Sequence(play.carry, sights, actions, logits, truncated), metrics


def draw_noise(key: jax.Array, mazes: jax.Array, length: int) -> jax.Array:
    """(T, B, 6) Gumbel noise: the action with the largest sum of logit and noise has its softmax's chance.

    A maze's is the same on whichever device it is.
    """
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, mazes)
    return jax.vmap(lambda key: jax.random.gumbel(key, (length, len(ACTIONS))), out_axes=1)(keys)


def divide(sequences: Sequence, config: AgentConfig) -> Sequence:
    """Groups of sequences on a new leading axis: each k-th, so that any number of devices has the same."""
    groups = config.num_envs // config.batch_size

    def by_maze(leaf: jax.Array) -> jax.Array:
        return jnp.moveaxis(leaf.reshape(-1, groups, *leaf.shape[1:]), 1, 0)

    def by_time(leaf: jax.Array) -> jax.Array:
        return jnp.moveaxis(leaf.reshape(len(leaf), -1, groups, *leaf.shape[2:]), 2, 0)

    return Sequence(
        jax.tree.map(by_maze, sequences.carry),
        jax.tree.map(by_time, sequences.sights),
        by_time(sequences.actions),
        by_time(sequences.logits),
        by_time(sequences.truncated),
    )
