"""The replay: what is kept, what may be read, in which order, and that nothing is overwritten while it is."""

import collections
import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from memory_maze.agents.dreamer.config import TBTTConfig
from memory_maze.engine.batch import Batch
from memory_maze.engine.env import Env
from memory_maze.engine.observe import visible_state
from memory_maze.engine.types import Maze
from memory_maze.training import replay as replays
from memory_maze.training.replay import Readable, Record, Written

DEBUG = TBTTConfig.presets["debug"]
STEPS, NUM = 60, 3  # of an episode, environments
PAID = 33  # time of the one reward in it
TOY = dataclasses.replace(
    DEBUG,
    num_envs=NUM,
    unroll_length=10,
    steps_per_update=10,
    batch_size=4,
    batch_length=16,
    turns=1,
    replay_steps=3 * STEPS,
    prefill_steps=STEPS,
    store_images=False,
)


@dataclasses.dataclass
class FakeEnv:
    episode_steps: int = STEPS


@dataclasses.dataclass
class FakeBatch:
    """All that a replay asks of one."""

    num: int = NUM
    env: FakeEnv = dataclasses.field(default_factory=FakeEnv)


def start_of(numbers):
    """How episodes begin: their numbers are written on the walls."""
    count = len(numbers)
    walls = jnp.asarray(numbers, jnp.uint32)[:, None] * jnp.ones(5, jnp.uint32)
    maze = Maze(
        walls,
        walls,
        jnp.zeros((count, 9), jnp.int32),
        jnp.zeros((count, 2, 2)),
        jnp.zeros((count, 2), jnp.int32),
    )
    touched = jnp.asarray(numbers)[:, None] % 2 == jnp.arange(2)
    zero = jnp.zeros(count, jnp.int32)
    return visible_state(maze, jnp.zeros((count, 4)), zero, touched, zero)


class World:
    """Environments that do nothing but count, and a replay of them. Numbers are told by another rule."""

    def __init__(self, config=TOY, seed=0):
        self.config, self.rng = config, np.random.default_rng(seed)
        num = config.num_envs
        self.time = self.rng.integers(0, STEPS, num)
        self.number, self.next = np.zeros(num, int), 0
        self.done = []  # in the order of their ends
        self.replay = replays.make_replay(config, FakeBatch(num), start_of(self.number))
        self.write = jax.jit(replays.write, donate_argnums=0)
        self.whole, self.begun = np.zeros(num, bool), np.zeros(num, bool)

    def play(self):
        """An iteration: every environment is looked at in each step, then acts or begins anew."""
        rows, starts = [], np.zeros(self.config.num_envs, int)
        for _ in range(self.config.unroll_length):
            over = self.time > STEPS  # the last record was seen: this is the first of another episode
            for env in np.flatnonzero(over):
                if self.whole[env]:
                    self.done.append(self.number[env])
                self.whole[env], self.time[env] = True, 0
            first = over | ~self.begun
            for env in np.flatnonzero(first):
                self.number[env] = starts[env] = self.next
                self.next += 1
            self.begun[:] = True
            rows.append((self.number.copy(), self.time.copy(), first))
            self.time += 1
        number, time, first = (np.stack(column) for column in zip(*rows, strict=True))
        pose = np.stack([number, time, 0 * time, 0 * time], axis=-1).astype(np.float32)
        record = Record(
            time.astype(np.uint8) % 6,
            (time == PAID).astype(np.float32),
            pose,
            time.astype(np.uint8) % 2,
            None,
        )
        written = Written(record, time.astype(np.int32), first)
        self.replay = self.write(self.replay, written, start_of(starts))

    def readable(self):
        found = replays.find_readable(self.config, self.replay)
        return list(range(int(found.first), int(found.first + found.count)))

    def stamps(self, places):
        """(..., 2) episodes and times that are written where windows are read."""
        slots = np.asarray(places.episode) % len(self.replay.hidden)
        return np.asarray(self.replay.records.pose)[slots, np.asarray(places.time)][..., :2].astype(int)


def test_what_is_readable_is_complete_and_the_newest():
    world = World()
    for _ in range(120):
        world.play()
        assert world.readable() == world.done[-3:]
        assert int(replays.count_prefilled(world.replay)) == STEPS * len(world.done)
    assert len(world.done) > 50
    found = replays.find_readable(TOY, world.replay)
    slots = np.arange(int(found.first), int(found.first + found.count)) % len(world.replay.hidden)
    for slot, episode in zip(slots, world.done[-3:], strict=True):
        assert (np.asarray(world.replay.mazes.walls)[slot] == episode).all()
        assert np.asarray(world.replay.hidden)[slot].tolist() == [episode % 2 == 0, episode % 2 == 1]
        stamps = np.asarray(world.replay.records.pose)[slot, :, :2]
        assert (stamps == [[episode, time] for time in range(STEPS + 1)]).all()


@functools.cache
def reader(config):
    return jax.jit(jax.vmap(functools.partial(replays.read_on, config), (0, None, None, 0)), static_argnums=2)


def begin_streams(config, count, steps=STEPS):
    return jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), replays.make_stream(config, steps)
    )


def keys_of(index, count):
    return jax.random.split(jax.random.key(index), count)


def test_nothing_is_overwritten_while_a_stream_reads_it():
    """Turns make streams slow: each is read at every eighth update."""
    config = dataclasses.replace(TOY, turns=8, steps_per_update=30, num_envs=6, replay_steps=2 * STEPS)
    world = World(config)
    while int(replays.count_prefilled(world.replay)) < STEPS:
        world.play()
    streams = [begin_streams(config, 4) for _ in range(config.turns)]
    for update in range(1200):
        if update % config.updates_per_iteration == 0:
            world.play()
        turn = update % config.turns
        found = replays.find_readable(config, world.replay)
        streams[turn], places = reader(config)(streams[turn], found, STEPS, keys_of(update, 4))
        expected = np.stack([places.episode, places.time], axis=-1)
        np.testing.assert_array_equal(world.stamps(places), expected)


def read_windows(config, count, windows, readable=(7, 3), steps=STEPS):
    """Places (windows, count, T) of streams."""
    streams, found = (
        begin_streams(config, count, steps),
        Readable(jnp.int32(readable[0]), jnp.int32(readable[1])),
    )
    made = []
    for index in range(windows):
        streams, places = reader(config)(streams, found, steps, keys_of(index, count))
        made.append(jax.tree.map(np.asarray, places))
    return jax.tree.map(lambda *leaves: np.stack(leaves), *made)


def test_streams_read_one_whole_episode_after_another():
    places = read_windows(TOY, 64, 30)
    episode, time, opening, reset = (np.moveaxis(leaf, 0, 1).reshape(64, -1) for leaf in places)
    for row in range(64):
        begins = np.flatnonzero(opening[row])
        np.testing.assert_array_equal(opening[row], reset[row])
        np.testing.assert_array_equal(opening[row], time[row] == 0)
        assert begins[0] <= STEPS - 16 + 2 + 16
        for one, two in itertools.pairwise(begins):
            assert time[row, one:two].tolist() == list(range(STEPS + 1))
            assert len(set(episode[row, one:two])) == 1
    assert len(set(time[:, 0])) > 20, "streams begin anywhere"
    counts = collections.Counter(episode[:, ::STEPS].ravel())
    drawn = [counts[number] / counts.total() for number in (7, 8, 9)]
    np.testing.assert_allclose(drawn, 1 / 3, atol=0.12)


def test_episodes_are_drawn_alike():
    places = read_windows(TOY, 4096, 5)
    opened = places.episode[places.opening]
    counts = np.array([(opened == number).mean() for number in (7, 8, 9)])
    np.testing.assert_allclose(counts, 1 / 3, atol=0.03)
    assert set(opened) == {7, 8, 9}


def test_windows_at_random():
    config = dataclasses.replace(TOY, windows="random")
    places = read_windows(config, 512, 4)
    assert places.reset[..., 0].all()
    assert not places.reset[..., 1:].any()
    assert (np.diff(places.time, axis=-1) == 1).all()
    assert set(places.time[..., 0].ravel()) == set(range(STEPS + 1 - 16 + 1))


def test_pieces_are_read_as_if_they_were_episodes():
    config = dataclasses.replace(TOY, piece=20)
    places = read_windows(config, 256, 12)
    begins = {0: 21, 21: 20, 41: 20}  # first record and length
    _, time, opening, reset = (np.moveaxis(leaf, 0, 1).reshape(256, -1) for leaf in places)
    np.testing.assert_array_equal(opening, reset)
    seen = collections.Counter()
    for row in range(256):
        at = np.flatnonzero(opening[row])
        for one, two in itertools.pairwise(at):
            first = time[row, one]
            assert two - one == begins[first]
            assert (np.diff(time[row, one:two]) == 1).all()
            seen[int(first)] += 1
    for first in begins:
        assert abs(seen[first] / seen.total() - 1 / 3) < 0.04


def test_cuts_are_those_of_the_papers_program():
    cuts = np.asarray(jax.vmap(lambda key: replays.draw_cuts(key, 1001, 48, 200))(keys_of(0, 20_000)))
    there = cuts != replays.NEVER
    assert cuts.shape == (20_000, 5)
    assert abs((~there.any(axis=1)).mean() - 1 / 6) < 0.01
    assert abs(there.sum(axis=1).mean() - 2.5) < 0.05
    both = there[:, 1:]
    assert np.diff(cuts.astype(np.int64), axis=1)[both].min() >= 48
    assert 48 <= cuts[there].min() <= 60
    assert 940 <= cuts[there].max() <= 952


def test_a_cut_resets_at_the_start_of_its_window():
    config = dataclasses.replace(TOY, batch_length=48, cut_interval=200, piece=1000)
    places = read_windows(config, 64, 120, steps=4000)
    late = places.reset[..., 1:] & ~places.opening[..., 1:]
    assert not late.any(), "within a window only pieces begin"
    cut = places.reset[..., 0] & ~places.opening[..., 0]
    pieces = places.opening.sum() / 64
    assert 1.8 < cut.sum() / 64 / pieces < 3.2


def test_without_cuts_nothing_is_reset_within_an_episode():
    places = read_windows(TOY, 64, 30)
    np.testing.assert_array_equal(places.reset, places.opening)


def test_windows_of_rewards_have_one():
    world = World()
    for _ in range(40):
        world.play()
    found = replays.find_readable(TOY, world.replay)
    streams = begin_streams(TOY, 1024)
    draw = jax.jit(jax.vmap(functools.partial(replays.find_reward, TOY, world.replay, found)))
    _, others = reader(TOY)(streams, found, STEPS, keys_of(0, 1024))
    places = draw(jax.tree.map(jnp.asarray, others), keys_of(1, 1024))
    np.testing.assert_array_equal(world.stamps(places), np.stack([places.episode, places.time], axis=-1))
    paid = (np.asarray(places.time) == PAID).any(axis=1)
    # Most of what is remembered of rewards is of episodes that cannot be read any more: streams stand in.
    pairs = zip(places, others, strict=True)
    found = np.any([(np.asarray(one) != np.asarray(two)).any(axis=1) for one, two in pairs], axis=0)
    assert 80 < found.sum() < 800
    assert paid[found].all()
    assert np.asarray(places.reset)[found].sum(axis=1).tolist() == [1] * found.sum()
    assert np.asarray(places.reset)[found, 0].all()
    starts = set(np.asarray(places.time)[found, 0].tolist())
    assert starts == set(range(PAID - 15, PAID + 1)), "the reward is anywhere in the window"
    assert set(np.asarray(places.episode)[found, 0]) == set(world.readable())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_length": 62}, "batch_length=62 is more than the 61 records"),
        ({"piece": 12}, "batch_length=16 is more than the 12 records"),
        ({"replay_steps": 59, "prefill_steps": 0}, "replay_steps=59 is less than an episode"),
        ({"cut_interval": 10}, "cut_interval=10 is too short"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replays.check_replay(dataclasses.replace(TOY, **changes), STEPS)


def test_ten_million_steps_are_small():
    config = TBTTConfig.presets["paper"]
    batch = FakeBatch(8, FakeEnv(1000))
    maze = Maze(
        walls=np.zeros((8, 9), np.uint32),
        rooms=np.zeros((8, 9), np.uint32),
        textures=np.zeros((8, 9), np.int32),
        objects=np.zeros((8, 3, 2), np.float32),
        colors=np.zeros((8, 3), np.int32),
    )
    start = dataclasses.replace(start_of(np.arange(8)), maze=maze, touched=jnp.zeros((8, 3), bool))
    shapes = jax.eval_shape(functools.partial(replays.make_replay, config, batch), start)
    size = sum(np.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))
    assert size < 250e6


# On the real environment


@pytest.fixture(scope="module")
def seen():
    """Two environments for 25 steps of episodes of 20; what was seen in each, and a replay of it."""
    from memory_maze.training.actor import Step, see

    config = dataclasses.replace(TOY, num_envs=2, replay_steps=20 * 8, prefill_steps=0, downsample=1)
    batch = Batch(Env("9x9", image_only_obs=True, layouts=64, seconds=5), 2)
    states, timesteps = batch.reset(jax.random.key(0))
    kept = replays.make_replay(config, batch, states)
    actions, images, written = jnp.zeros(2, jnp.int32), [], []
    starts = batch.draw_next(states)
    for index in range(22):
        step = Step(states, see(timesteps, actions), actions, jnp.zeros((2, 6)), jnp.zeros(2, bool))
        written.append(replays.note(config, step))
        images.append(np.asarray(timesteps.observation))
        actions = jnp.array([1, index % 6], jnp.int32)
        states, timesteps = batch.step(states, actions, starts)
    written = jax.tree.map(lambda *leaves: jnp.stack(leaves), *written)
    return config, batch, replays.write(kept, written, starts), np.stack(images), written


def test_pictures_are_rendered_again_to_the_bit(seen):
    config, batch, kept, images, _ = seen
    # Of both environments' first episodes, 0 and 1, all 21 records; 2 and 3 have begun.
    assert kept.playing.tolist() == [2, 3]
    mazes = batch.reset(jax.random.key(0))[0].maze
    kept = kept._replace(mazes=jax.tree.map(lambda all_, some: all_.at[:2].set(some), kept.mazes, mazes))
    episode = jnp.broadcast_to(jnp.arange(2), (21, 2))
    time = jnp.broadcast_to(jnp.arange(21)[:, None], (21, 2))
    nowhere = jnp.zeros((21, 2), bool)
    window = replays.read(config, batch, kept, replays.Places(episode, time, nowhere, nowhere))
    np.testing.assert_array_equal(window.image, images[:21])
    # The episodes that began in the last step are there with their mazes.
    episode, time = jnp.array([[2, 3]]), jnp.zeros((1, 2), jnp.int32)
    window = replays.read(config, batch, kept, replays.Places(episode, time, time == 0, time == 0))
    np.testing.assert_array_equal(window.image[0], images[21])
    assert window.first.all()


def test_records_say_how_they_came_about(seen):
    _, _, _, _, written = seen
    assert written.first[:, 0].tolist() == [True] + [False] * 20 + [True]
    assert written.time[:, 1].tolist() == [*range(21), 0]
    assert written.record.action[1:21, 1].tolist() == [index % 6 for index in range(20)]
