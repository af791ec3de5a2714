"""A replay of whole episodes on the device, and the order in which they are read.

A step is kept as what it was: action, reward, pose and target, 22 bytes; images are rendered again when they
are read. On CPUs small images can be kept beside them.

Episodes are numbered in the order in which they begin, and episode n is in slot n modulo the number of slots.
All are equally long, so the last `num_envs` of them are still going on and all before are complete, but for
the first ones: environments begin them at different times of their length, and they are never read.
"""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from memory_maze.agents.config import OffPolicyConfig
from memory_maze.agents.protocol import Window
from memory_maze.engine.batch import Batch
from memory_maze.engine.observe import observe, visible_state
from memory_maze.engine.types import Maze, State
from memory_maze.models.vision import pool
from memory_maze.training.actor import Step
from memory_maze.training.devices import SHARED_OUT

NEVER = jnp.iinfo(jnp.int32).max  # a time at which nothing is


class Record(NamedTuple):
    """What is kept of a step: arrays with one leading axis, of environments, or two, of slots and time."""

    action: jax.Array  # uint8: the one that led here
    reward: jax.Array  # float32: on the way here
    pose: jax.Array  # (..., 4) float32: x, y, z, steer
    target: jax.Array  # uint8
    image: jax.Array | None  # (..., S, S, 3) uint8


class Replay(NamedTuple):
    """The slots of a device: S of them, for its B environments."""

    mazes: Maze  # (S, ...)
    hidden: jax.Array  # (S, T) bool: objects that are invisible in the first image
    records: Record  # (S, L + 1, ...)
    playing: jax.Array  # (B,) int32: the episode of each environment
    begun: jax.Array  # (1,) int32: how many episodes
    paid: jax.Array  # (EVENTS, 2) int32: episodes and times of the last rewards
    rewards: jax.Array  # (1,) int32: how many there were


EVENTS = 4096
REPLAY_LAYOUT: Any = Replay(*[SHARED_OUT] * 7)


class Readable(NamedTuple):
    """A range of episodes."""

    first: jax.Array  # () int32
    count: jax.Array  # () int32


def check_replay(config: OffPolicyConfig, episode_steps: int, devices: int = 1) -> None:
    """Refuses windows that do not fit into episodes, and replays that are too small."""
    length, steps = config.batch_length, _piece_steps(config, episode_steps)
    records = steps + 1 if steps == episode_steps else steps
    if records < length:
        raise ValueError(f"batch_length={length} is more than the {records} records of an episode or piece")
    if config.replay_steps < devices * episode_steps:
        raise ValueError(
            f"replay_steps={config.replay_steps} is less than an episode of {episode_steps} steps on "
            f"each of {devices} devices"
        )
    if (interval := config.cut_interval) and records <= length * (records // interval + 1):
        raise ValueError(f"cut_interval={interval} is too short for batch_length={length}")


def make_replay(config: OffPolicyConfig, batch: Batch, start: State, devices: int = 1) -> Replay:
    """An empty one, for the share of a device; `start` (B, ...) is where its environments are."""
    steps, num = batch.env.episode_steps, batch.num
    kept = config.replay_steps // (devices * steps)
    # Nothing is overwritten while it is read: so many episodes begin while a stream reads one.
    spare = 3 * num + math.ceil(config.turns * config.steps_per_update / config.batch_length) + 1
    slots = kept + spare

    def empty(shape: tuple[int, ...], dtype: Any) -> jax.Array:
        return jnp.zeros((slots, *shape), dtype)

    shape, image = (steps + 1,), None
    if config.store_images:
        pixels = batch.env.options.camera_resolution // config.downsample
        image = empty((*shape, pixels, pixels, 3), jnp.uint8)
    return Replay(
        mazes=jax.tree.map(lambda leaf: empty(leaf.shape[1:], leaf.dtype), start.maze),
        hidden=empty(start.touched.shape[1:], jnp.bool_),
        records=Record(
            empty(shape, jnp.uint8),
            empty(shape, jnp.float32),
            empty((*shape, 4), jnp.float32),
            empty(shape, jnp.uint8),
            image,
        ),
        playing=jnp.zeros(num, jnp.int32),
        begun=jnp.zeros(1, jnp.int32),
        paid=jnp.full((EVENTS, 2), -1, jnp.int32),
        rewards=jnp.zeros(1, jnp.int32),
    )


class Written(NamedTuple):
    """What `note` keeps of a step."""

    record: Record  # (B, ...)
    time: jax.Array  # (B,) int32: in its episode
    first: jax.Array  # (B,) bool: nothing of the episode came before


def note(config: OffPolicyConfig, step: Step) -> Written:
    """The record of a step: what was seen before it, and how that came about."""
    state, sight = step.states, step.sights
    body = state.body
    image = pool(sight.image, config.downsample) if config.store_images else None
    record = Record(
        action=sight.action.astype(jnp.uint8),
        reward=jnp.where(sight.first, 0.0, sight.reward),
        pose=jnp.stack([body.x, body.y, body.z, body.steer], axis=-1),
        target=state.target.astype(jnp.uint8),
        image=image,
    )
    return Written(record, state.step, sight.first)


def write(replay: Replay, written: Written, starts: State) -> Replay:
    """Adds (T, B) steps; `starts` (B, ...) is how episodes began that began in them."""
    slots = len(replay.hidden)

    def number(counts: tuple[jax.Array, jax.Array], first: jax.Array) -> tuple:
        playing, begun = counts
        playing = jnp.where(first, begun + jnp.cumsum(first) - 1, playing)
        return (playing, begun + first.sum()), playing

    (playing, begun), episodes = jax.lax.scan(number, (replay.playing, replay.begun[0]), written.first)
    began = written.first.any(axis=0)
    new = jnp.where(began, playing % slots, slots)  # others are dropped
    put = lambda kept, start: kept.at[new].set(start, mode="drop")  # noqa: E731
    places = episodes % slots, written.time
    records = jax.tree.map(
        lambda kept, some: kept.at[places].set(some, unique_indices=True), replay.records, written.record
    )
    paid, event = (written.record.reward > 0).ravel(), jnp.stack([episodes, written.time], axis=-1)
    place = jnp.where(paid, (replay.rewards + jnp.cumsum(paid) - 1) % EVENTS, EVENTS)
    return Replay(
        mazes=jax.tree.map(put, replay.mazes, starts.maze),
        hidden=put(replay.hidden, starts.touched),
        records=records,
        playing=playing,
        begun=begun[None],
        paid=replay.paid.at[place].set(event.reshape(-1, 2), mode="drop"),
        rewards=replay.rewards + paid.sum(),
    )


def find_readable(config: OffPolicyConfig, replay: Replay, devices: int = 1) -> Readable:
    """The complete episodes, as many as the replay is to have."""
    num, steps = len(replay.playing), replay.records.action.shape[1] - 1
    kept = config.replay_steps // (devices * steps)
    end = replay.begun[0] - num
    first = jnp.maximum(num, end - kept)
    return Readable(first, jnp.maximum(end - first, 0))


def count_prefilled(replay: Replay) -> jax.Array:
    """() int32: steps of complete episodes so far, those overwritten included."""
    num, steps = len(replay.playing), replay.records.action.shape[1] - 1
    return jnp.maximum(replay.begun[0] - 2 * num, 0) * steps


class Stream(NamedTuple):
    """A reader of one episode after another: where it goes on."""

    episode: jax.Array  # () int32: -1 before the first
    begin: jax.Array  # () int32: the piece's first record
    last: jax.Array  # () int32: its last
    next: jax.Array  # () int32: the record that is read next
    cuts: jax.Array  # (C,) int32: records before which the memory is reset; NEVER beyond the last


class Places(NamedTuple):
    """The T records of a window."""

    episode: jax.Array  # (T,) int32
    time: jax.Array  # (T,) int32
    opening: jax.Array  # (T,) bool: the first of a piece
    reset: jax.Array  # (T,) bool


def make_stream(config: OffPolicyConfig, episode_steps: int) -> Stream:
    """Before its first episode."""
    most = _piece_steps(config, episode_steps) // config.cut_interval if config.cut_interval else 0
    zero = jnp.int32(0)
    return Stream(jnp.int32(-1), zero, zero - 1, zero, jnp.full(most, NEVER, jnp.int32))


def read_on(
    config: OffPolicyConfig, stream: Stream, readable: Readable, episode_steps: int, key: jax.Array
) -> tuple[Stream, Places]:
    """The next window of a stream. Where a piece ends in it, another one follows."""
    length, (piece_key, start_key) = config.batch_length, jax.random.split(key)
    other = _open_piece(config, readable, episode_steps, piece_key)
    # The first window is anywhere, so that streams are not all at the same time of their episodes.
    anywhere = jax.random.randint(start_key, (), other.begin, other.last - length + 2)
    fresh = (stream.episode < 0) | (config.windows == "random")
    stream = jax.tree.map(functools.partial(jnp.where, fresh), other._replace(next=anywhere), stream)
    index = stream.next + jnp.arange(length)
    beyond = index - stream.last - 1  # of the other piece, from 0
    over = beyond >= 0
    time = jnp.where(over, other.begin + beyond, index)
    opening = jnp.where(over, beyond == 0, index == stream.begin)
    cut = ((stream.cuts >= stream.next) & (stream.cuts < stream.next + length)).any()
    at_first = cut | (config.windows == "random")
    places = Places(
        episode=jnp.where(over, other.episode, stream.episode),
        time=time,
        opening=opening,
        reset=opening | (at_first & (jnp.arange(length) == 0)),
    )
    after = stream._replace(next=stream.next + length)
    ended = after.next > stream.last + 1
    other = other._replace(next=other.begin + after.next - stream.last - 1)
    return jax.tree.map(functools.partial(jnp.where, ended), other, after), places


def find_reward(
    config: OffPolicyConfig, replay: Replay, readable: Readable, places: Places, key: jax.Array
) -> Places:
    """A window in which a reward was paid; `places` if the one that is drawn cannot be read."""
    length, (event_key, time_key) = config.batch_length, jax.random.split(key)
    kept = jnp.minimum(replay.rewards[0], EVENTS)
    episode, time = replay.paid[jax.random.randint(event_key, (), 0, jnp.maximum(kept, 1))]
    last = replay.records.action.shape[1] - length
    begin = jnp.clip(time - jax.random.randint(time_key, (), 0, length), 0, last)
    times = begin + jnp.arange(length)
    found = Places(jnp.full(length, episode), times, times == 0, jnp.arange(length) == 0)
    there = (episode >= readable.first) & (episode < readable.first + readable.count)
    return jax.tree.map(functools.partial(jnp.where, there), found, places)


def _open_piece(config: OffPolicyConfig, readable: Readable, episode_steps: int, key: jax.Array) -> Stream:
    """A piece of a random episode, from its first record."""
    episode_key, piece_key, cut_key = jax.random.split(key, 3)
    episode = readable.first + jax.random.randint(episode_key, (), 0, jnp.maximum(readable.count, 1))
    steps = _piece_steps(config, episode_steps)
    pieces = episode_steps // steps  # the last one takes what is left
    piece = jax.random.randint(piece_key, (), 0, pieces)
    begin = jnp.where(piece == 0, 0, piece * steps + 1)
    last = jnp.where(piece == pieces - 1, episode_steps, (piece + 1) * steps)
    cuts = jnp.full(0, NEVER, jnp.int32)
    if config.cut_interval:
        cuts = draw_cuts(cut_key, steps + 1, config.batch_length, config.cut_interval)
        cuts = jnp.where(cuts == NEVER, NEVER, begin + cuts)
    return Stream(episode, begin, last, begin, cuts)


def _piece_steps(config: OffPolicyConfig, episode_steps: int) -> int:
    """Steps of a piece. The first one of an episode has one more record, and the last one may be longer."""
    return min(config.piece or episode_steps, episode_steps)


def draw_cuts(key: jax.Array, records: int, length: int, interval: int) -> jax.Array:
    """Sorted records, about one in each interval, NEVER beyond the last, at least `length` from each other.

    As in the paper's program: k - 1 of them, with k uniform from 1 to one more than there are intervals.
    """
    count_key, place_key = jax.random.split(key)
    most = (records - 1) // interval
    k = jax.random.randint(count_key, (), 1, most + 2)
    drawn = jax.random.randint(place_key, (most,), 0, records - length * k)
    drawn = jnp.sort(jnp.where(jnp.arange(most) < k - 1, drawn, NEVER))
    return jnp.where(drawn == NEVER, NEVER, drawn + length * (1 + jnp.arange(most)))


def read(config: OffPolicyConfig, batch: Batch, replay: Replay, places: Places) -> Window:
    """The records at (T, B) places."""
    episode, time, opening, reset = places
    slot = episode % len(replay.hidden)
    record = jax.tree.map(lambda kept: kept[slot, time], replay.records)
    first = time == 0
    maze = jax.tree.map(lambda kept: kept[slot], replay.mazes)
    hidden = replay.hidden[slot] & first[..., None]
    states = visible_state(maze, record.pose, record.target.astype(jnp.int32), hidden, time)
    env, image = batch.env, record.image
    if image is None:
        image = jax.vmap(jax.vmap(env.observe))(states)
        image = pool(image, config.downsample)
    see = functools.partial(observe, env.view, env.atlas, names=config.observations)
    return Window(
        image=image,
        action=record.action.astype(jnp.int32),
        reward=jnp.where(opening, 0.0, record.reward),
        first=first,
        reset=reset,
        others=jax.vmap(jax.vmap(see))(states),
    )
