"""Environment, policy and learner in one program: the Anakin pattern (Hessel et al. 2021).

Each device plays its share of the mazes and learns from it, and gradients are averaged over all devices. What
happens in a maze does not depend on how many there are.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from memory_maze.agents.config import OnPolicyConfig
from memory_maze.agents.protocol import Network, Sequence
from memory_maze.engine.batch import Batch
from memory_maze.training.actor import PLAY_LAYOUT, Play, Step, act, begin_play, check_sizes, share_out
from memory_maze.training.devices import AXIS, SAME, on_all


class Training(NamedTuple):
    """Everything that a run needs to go on."""

    network: Network
    optimizer: Any
    play: Play
    steps: jax.Array  # () int32: iterations


LAYOUT: Any = Training(SAME, SAME, PLAY_LAYOUT, SAME)


def begin(key: jax.Array, batch: Batch, config: OnPolicyConfig, mesh: Mesh) -> Training:
    """A new run. `batch` is of all mazes, and the same on all devices."""
    check_sizes(batch, config, mesh)
    return _make_begin(config, mesh)(key, batch)


@functools.cache
def _make_begin(config: OnPolicyConfig, mesh: Mesh) -> Any:
    return on_all(functools.partial(_begin_share, config), mesh, (SAME, SAME), LAYOUT)


def _begin_share(config: OnPolicyConfig, key: jax.Array, batch: Batch) -> Training:
    network_key, reset_key, play_key = jax.random.split(key, 3)
    agent = config.load()
    network = agent.init(network_key, config)
    share, mazes = share_out(batch)
    play = begin_play(network, share, mazes, jax.random.split(reset_key, batch.num), play_key)
    optimizer = agent.make_optimizer(config).init(eqx.filter(network, eqx.is_array))
    return Training(network, optimizer, play, jnp.int32(0))


def iterate(
    training: Training, batch: Batch, config: OnPolicyConfig, mesh: Mesh
) -> tuple[Training, dict[str, jax.Array]]:
    """Plays `length` steps in all mazes, then learns from them in groups. Its memory is used again."""
    return _make_iterate(config, mesh)(training, batch)


Program = Callable[[Training, Batch], tuple[Training, dict[str, jax.Array]]]


def compile_iterate(shapes: Training, batch: Batch, config: OnPolicyConfig, mesh: Mesh) -> Any:
    """`iterate` as a program that is ready to run."""
    return _make_iterate(config, mesh).lower(shapes, batch).compile()


@functools.cache
def _make_iterate(config: OnPolicyConfig, mesh: Mesh) -> Any:
    share = functools.partial(_iterate_share, config)
    return on_all(share, mesh, (LAYOUT, SAME), (LAYOUT, SAME), donate_argnums=0)


def _iterate_share(
    config: OnPolicyConfig, training: Training, batch: Batch
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
    network: Network, play: Play, batch: Batch, config: OnPolicyConfig, mazes: jax.Array
) -> tuple[Play, Sequence, dict[str, jax.Array]]:
    """Plays, and tells what happened and how episodes ended; `mazes` (B,) are their numbers among all."""
    starts, length = batch.draw_next(play.states), config.unroll_length

    def note(step: Step) -> tuple:
        return step.sights, step.actions, step.logits, step.truncated

    after, (sights, *noted), metrics = act(network, play, batch, starts, length, mazes, note)
    sights = jax.tree.map(lambda many, last: jnp.concatenate([many, last[None]]), sights, after.sights)
    metrics["reward"] = sights.reward[1:].sum() / (config.num_envs * length)
    return after, Sequence(play.carry, sights, *noted), metrics


def divide(sequences: Sequence, config: OnPolicyConfig) -> Sequence:
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
