"""Environment, policy and learner in one program: the Anakin pattern (Hessel et al. 2021)."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from memory_maze.agents import impala
from memory_maze.agents.impala import Config, Network, Sequence
from memory_maze.engine.batch import Batch
from memory_maze.engine.types import State, Timestep
from memory_maze.policies import Sight


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


def begin(key: jax.Array, batch: Batch, config: Config) -> Training:
    """A new run."""
    if config.length >= batch.env.episode_steps:
        raise ValueError(
            f"{config.length} actions in a sequence: it must be shorter than an episode of "
            f"{batch.env.episode_steps}, for no maze may be reset twice in it"
        )
    network_key, reset_key, play_key = jax.random.split(key, 3)
    network = Network(network_key, config)
    states, timesteps = batch.reset(reset_key)
    count = config.environments
    carry = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), network.core.initial())
    sights = see(timesteps, jnp.zeros(count, jnp.int32))
    play = Play(states, sights, carry, jnp.zeros(count), jnp.zeros(count, bool), play_key)
    optimizer = impala.make_optimizer(config).init(eqx.filter(network, eqx.is_array))
    return Training(network, optimizer, play, jnp.int32(0))


def see(timesteps: Timestep, actions: jax.Array) -> Sight:
    """What the agent is told after its actions."""
    return Sight(timesteps.observation, timesteps.reward, actions, timesteps.first)


@functools.partial(jax.jit, static_argnames="config", donate_argnames="training")
def iterate(training: Training, batch: Batch, config: Config) -> tuple[Training, dict[str, jax.Array]]:
    """Plays `length` steps in all mazes, then learns from them in groups."""
    play, sequences, metrics = unroll(training.network, training.play, batch, config)
    arrays, rest = eqx.partition(training.network, eqx.is_array)

    def learn(learner: tuple, group: Sequence) -> tuple:
        arrays, optimizer = learner
        network, optimizer, losses = impala.update(eqx.combine(arrays, rest), optimizer, group, config)
        return (eqx.filter(network, eqx.is_array), optimizer), losses

    (arrays, optimizer), losses = jax.lax.scan(learn, (arrays, training.optimizer), divide(sequences, config))
    metrics |= jax.tree.map(jnp.mean, losses)
    return Training(eqx.combine(arrays, rest), optimizer, play, training.steps + 1), metrics


def unroll(
    network: Network, play: Play, batch: Batch, config: Config
) -> tuple[Play, Sequence, dict[str, jax.Array]]:
    """Plays, and tells what happened and how episodes ended."""
    # Once for all steps: drawing is dear, and no maze is reset twice in them.
    starts = batch.draw_next(play.states)

    def step(play: Play, _: None) -> tuple[Play, tuple]:
        key, action_key = jax.random.split(play.key)
        carry, logits = jax.vmap(network.step)(play.carry, play.sights)
        actions = jax.random.categorical(action_key, logits)
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
        return after, (play.sights, actions, logits, jnp.where(ended, returns, 0.0), ended)

    after, (sights, actions, logits, returns, ended) = jax.lax.scan(step, play, length=config.length)
    sights = jax.tree.map(lambda many, last: jnp.concatenate([many, last[None]]), sights, after.sights)
    metrics = {"episodes": ended.sum(), "return_sum": returns.sum(), "reward": sights.reward[1:].mean()}
    return after, Sequence(play.carry, sights, actions, logits), metrics


def divide(sequences: Sequence, config: Config) -> Sequence:
    """Groups of sequences on a new leading axis."""
    groups = config.environments // config.sequences

    def by_maze(leaf: jax.Array) -> jax.Array:
        return leaf.reshape(groups, config.sequences, *leaf.shape[1:])

    def by_time(leaf: jax.Array) -> jax.Array:
        return jnp.moveaxis(leaf.reshape(len(leaf), groups, config.sequences, *leaf.shape[2:]), 1, 0)

    return Sequence(
        jax.tree.map(by_maze, sequences.carry),
        jax.tree.map(by_time, sequences.sights),
        by_time(sequences.actions),
        by_time(sequences.logits),
    )
