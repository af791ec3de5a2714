"""Environment, replay and learner in one program, for agents that learn from what happened long ago.

Each device acts in its share of the environments, keeps their episodes, and learns from these; gradients are
averaged over all devices.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

from memory_maze.agents.config import OffPolicyConfig
from memory_maze.agents.protocol import Network, Window
from memory_maze.engine.batch import Batch
from memory_maze.training.actor import PLAY_LAYOUT, Play, act, begin_play, check_sizes, repeat, share_out
from memory_maze.training.devices import AXIS, SAME, on_all
from memory_maze.training.replay import (
    REPLAY_LAYOUT,
    Places,
    Replay,
    Stream,
    check_replay,
    count_prefilled,
    find_readable,
    find_reward,
    make_replay,
    make_stream,
    note,
    read,
    read_on,
    write,
)

_ROWS: Any = PartitionSpec(None, AXIS)  # of (turns, B, ...) arrays


class Training(NamedTuple):
    """Everything that a run needs to go on."""

    network: Network
    learner: Any  # what the agent's `begin` made
    play: Play
    replay: Replay
    streams: Stream  # (turns, B, ...)
    carries: Any  # (turns, B, ...): of the network, at the end of each stream's last window
    key: jax.Array
    updates: jax.Array  # () int32
    steps: jax.Array  # () int32: iterations


LAYOUT: Any = Training(SAME, SAME, PLAY_LAYOUT, REPLAY_LAYOUT, _ROWS, _ROWS, SAME, SAME, SAME)


def begin(key: jax.Array, batch: Batch, config: OffPolicyConfig, mesh: Mesh) -> Training:
    """A new run. `batch` is of all environments, and the same on all devices."""
    check_sizes(batch, config, mesh)
    check_replay(config, batch.env.episode_steps, mesh.size)
    return _make_begin(config, mesh)(key, batch)


@functools.cache
def _make_begin(config: OffPolicyConfig, mesh: Mesh) -> Any:
    return on_all(functools.partial(_begin_share, config), mesh, (SAME, SAME), LAYOUT)


def _begin_share(config: OffPolicyConfig, key: jax.Array, batch: Batch) -> Training:
    network_key, reset_key, play_key, learn_key = jax.random.split(key, 4)
    agent = config.load()
    network = agent.init(network_key, config)
    share, mazes = share_out(batch)
    play = begin_play(network, share, mazes, jax.random.split(reset_key, batch.num), play_key)
    replay = make_replay(config, share, play.states, jax.lax.axis_size(AXIS))
    rows = config.batch_size // jax.lax.axis_size(AXIS)

    def repeat_rows(tree: Any) -> Any:
        return repeat(repeat(tree, rows), config.turns)

    return Training(
        network,
        agent.begin(network, config),
        play,
        replay,
        repeat_rows(make_stream(config, batch.env.episode_steps)),
        repeat_rows(network.initial()),
        learn_key,
        jnp.int32(0),
        jnp.int32(0),
    )


def iterate(
    training: Training, batch: Batch, config: OffPolicyConfig, mesh: Mesh
) -> tuple[Training, dict[str, jax.Array]]:
    """Acts in all environments, then learns from the replay. Its memory is used again."""
    return _make_iterate(config, mesh)(training, batch)


def compile_iterate(shapes: Training, batch: Batch, config: OffPolicyConfig, mesh: Mesh) -> Any:
    """`iterate` as a program that is ready to run."""
    return _make_iterate(config, mesh).lower(shapes, batch).compile()


@functools.cache
def _make_iterate(config: OffPolicyConfig, mesh: Mesh) -> Any:
    share = functools.partial(_iterate_share, config)
    return on_all(share, mesh, (LAYOUT, SAME), (LAYOUT, SAME), donate_argnums=0)


def sample_windows(
    training: Training, batch: Batch, config: OffPolicyConfig, mesh: Mesh, length: int, key: jax.Array
) -> Window | None:
    """(length, B, ...) records of random episodes, as many as in a batch; None before there are any."""
    config = dataclasses.replace(
        config,
        batch_length=length,
        windows="random",
        piece=None,
        cut_interval=None,
        turns=1,
        reward_windows=0,
    )
    window, readable = _make_sample(config, mesh)(training.replay, batch, key)
    return window if readable.all() else None


@functools.cache
def _make_sample(config: OffPolicyConfig, mesh: Mesh) -> Any:
    def sample(replay: Replay, batch: Batch, key: jax.Array) -> tuple[Window, jax.Array]:
        share, _ = share_out(batch)
        rows = config.batch_size // jax.lax.axis_size(AXIS)
        streams = repeat(make_stream(config, batch.env.episode_steps), rows)
        _, places = _read_rows(config, replay, streams, batch.env.episode_steps, key)
        readable = find_readable(config, replay, jax.lax.axis_size(AXIS))
        return read(config, share, replay, places), (readable.count > 0)[None]

    layout = REPLAY_LAYOUT, SAME, SAME
    return on_all(sample, mesh, layout, (PartitionSpec(None, AXIS), PartitionSpec(AXIS)))


def _iterate_share(
    config: OffPolicyConfig, training: Training, batch: Batch
) -> tuple[Training, dict[str, jax.Array]]:
    share, mazes = share_out(batch)
    prefill = config.prefill_steps // jax.lax.axis_size(AXIS)
    before = count_prefilled(training.replay)
    starts = share.draw_next(training.play.states)
    play, written, metrics = act(
        training.network,
        training.play,
        share,
        starts,
        config.unroll_length,
        mazes,
        functools.partial(note, config),
        at_random=~_all_have(before, prefill),
    )
    metrics["reward"] = written.record.reward.sum() / config.steps_per_iteration
    metrics = jax.lax.psum(metrics, AXIS)
    training = training._replace(play=play, replay=write(training.replay, written, starts))
    ready = _all_have(count_prefilled(training.replay), prefill)
    training, learned = _learn(config, training, share, ready)
    return training._replace(steps=training.steps + 1), metrics | learned


def _all_have(steps: jax.Array, wanted: int) -> jax.Array:
    """Whether all devices have so many steps, and an episode at least."""
    return jax.lax.pmin(steps, AXIS) >= max(wanted, 1)


_CHANGING = ("network", "learner", "streams", "carries", "updates")  # in an update


def _learn(
    config: OffPolicyConfig, training: Training, batch: Batch, ready: jax.Array
) -> tuple[Training, dict[str, jax.Array]]:
    """All updates of an iteration, or none if it is too early; with the means of their metrics."""
    arrays, rest = eqx.partition(training, eqx.is_array)

    # What is only read stays out of the loop, so that nothing of it is copied.
    def update(arrays: Training) -> tuple[Training, dict[str, jax.Array]]:
        after, metrics = _update(config, eqx.combine(arrays, rest), batch)
        return eqx.filter(after, eqx.is_array), metrics

    def step(_: Any, state: tuple) -> tuple:
        changing, sums = state
        after, metrics = update(arrays._replace(**changing))
        return {name: getattr(after, name) for name in changing}, jax.tree.map(jnp.add, sums, metrics)

    changing = {name: getattr(arrays, name) for name in _CHANGING}
    _, shapes = jax.eval_shape(update, arrays)
    sums = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
    count = jnp.where(ready, config.updates_per_iteration, 0)
    changed, sums = jax.lax.fori_loop(0, count, step, (changing, sums))
    metrics = jax.tree.map(lambda total: total / jnp.maximum(count, 1), sums)
    return eqx.combine(arrays._replace(**changed), rest), {"updates": count} | metrics


def _update(
    config: OffPolicyConfig, training: Training, batch: Batch
) -> tuple[Training, dict[str, jax.Array]]:
    """One gradient step."""
    turn = training.updates % config.turns
    data_key, learn_key = jax.random.split(jax.random.fold_in(training.key, training.updates))
    streams, places = _read_on(config, training, turn, batch.env.episode_steps, data_key)
    window = read(config, batch, training.replay, places)
    carry = jax.tree.map(lambda leaf: leaf[turn], training.carries)
    axis = AXIS if jax.lax.axis_size(AXIS) > 1 else None
    learn_key = learn_key if axis is None else jax.random.fold_in(learn_key, jax.lax.axis_index(AXIS))
    network, learner, carry, metrics = config.load().update(
        training.network, training.learner, carry, window, learn_key, config, axis
    )
    put = lambda kept, new: kept.at[turn].set(new)  # noqa: E731
    training = training._replace(
        network=network,
        learner=learner,
        streams=jax.tree.map(put, training.streams, streams),
        updates=training.updates + 1,
    )
    if config.carries:
        training = training._replace(carries=jax.tree.map(put, training.carries, carry))
    return training, metrics


def _read_on(
    config: OffPolicyConfig, training: Training, turn: jax.Array, episode_steps: int, key: jax.Array
) -> tuple[Stream, Places]:
    """The streams of a turn after their next windows, and the (T, B) places of these."""
    streams = jax.tree.map(lambda leaf: leaf[turn], training.streams)
    return _read_rows(config, training.replay, streams, episode_steps, key)


def _read_rows(
    config: OffPolicyConfig, replay: Replay, streams: Stream, episode_steps: int, key: jax.Array
) -> tuple[Stream, Places]:
    """Streams (B, ...) after their next windows, and the (T, B) places of these."""
    readable = find_readable(config, replay, jax.lax.axis_size(AXIS))
    rows = len(streams.episode)
    numbers = jax.lax.axis_index(AXIS) * rows + jnp.arange(rows)
    keys = jax.vmap(functools.partial(jax.random.fold_in, key))(numbers)
    of_rewards = numbers < config.reward_windows

    def advance(stream: Stream, of_reward: jax.Array, key: jax.Array) -> tuple[Stream, Places]:
        stream_key, reward_key = jax.random.split(key)
        stream, places = read_on(config, stream, readable, episode_steps, stream_key)
        if config.reward_windows:
            found = find_reward(config, replay, readable, places, reward_key)
            places = jax.tree.map(functools.partial(jnp.where, of_reward), found, places)
        return stream, places

    return jax.vmap(advance, out_axes=(0, 1))(streams, of_rewards, keys)
