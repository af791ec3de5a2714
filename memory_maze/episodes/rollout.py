"""Whole episodes of a policy on either engine, as recordings of what happened.

An episode depends on its scenario, the seed and its number alone, not on those it is played with: on a CPU to
the last bit, and on a GPU but for what programs of different sizes round differently.
"""

import concurrent.futures
import dataclasses
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from memory_maze.engine import rules
from memory_maze.engine.env import begin_scenario, begin_scenarios
from memory_maze.engine.observe import draw_image, make_view
from memory_maze.engine.picture.textures import Atlas, load_atlas
from memory_maze.engine.types import Body, State
from memory_maze.options import ACTIONS, DEFAULT, Options
from memory_maze.policies.protocol import Policy, Sight
from memory_maze.scenario import Scenario
from memory_maze.system.cpu import num_cores

ENGINES = ("jax", "mujoco")
CHUNK = 50  # steps between two looks at the clock, at most
WIDTH = 32  # episodes that a CPU's core plays at once, always: other sizes would round differently
START_BATCH = 8  # mazes at a time, for policies that search the whole maze at the start

Advance = Callable[[int], None]  # called with the number of steps that were made


class Recording(NamedTuple):
    """B episodes of S actions."""

    actions: np.ndarray  # (B, S) uint8
    rewards: np.ndarray  # (B, S) float32
    targets: np.ndarray  # (B, S + 1) uint8: the object that is asked for
    poses: np.ndarray  # (B, S + 1, 4): x, y, z in metres and steer in radians, as the engine's floats


def play(
    policy: Policy,
    scenarios: Sequence[Scenario],
    steps: int,
    *,
    engine: str = "jax",
    seed: int = 0,
    episodes: Sequence[int] | None = None,
    width: int = WIDTH,
    options: Options = DEFAULT,
    advance: Advance = lambda steps: None,
) -> Recording:
    """Plays complete scenarios of one size.

    Args:
        policy: From `policies.load_policy`.
        scenarios: One for each episode.
        steps: Actions in each episode.
        engine: "jax", all at once, or "mujoco", one after another.
        seed: Of what the policy draws.
        episodes: Their numbers, which tell their draws apart; by default they are counted.
        width: How many a CPU's core plays at once. 1 is soon done with one, but rounds differently, so that
            its walk may part from that of the same episode elsewhere.
        options: Which variant: how fast actions follow each other, and what the pictures show.
        advance: Told of progress, in steps of single mazes.
    """
    if engine not in ENGINES:
        raise ValueError(f"unknown engine {engine!r}: choose from {', '.join(ENGINES)}")
    _check_policy(policy, options)
    numbers = np.arange(len(scenarios)) if episodes is None else np.asarray(episodes)
    keys = jax.vmap(functools.partial(jax.random.fold_in, jax.random.key(seed)))(numbers)
    if engine == "mujoco":
        return play_mujoco(policy, scenarios, steps, keys, advance, options)
    return play_jax(policy, scenarios, steps, keys, advance, width, options)


def _check_policy(policy: Policy, options: Options) -> None:
    if not options.discrete_actions:
        raise ValueError("discrete_actions must be true: policies use the six discrete actions")
    if getattr(policy, "sees_pictures", False) and not options.target_color_in_image:
        raise ValueError(
            "target_color_in_image must be true for policies that see images: nothing else shows the target"
        )


class Player(NamedTuple):
    """What goes on from step to step, of one episode or of B."""

    state: State
    memory: Any
    reward: jax.Array  # () float32: of the last action
    action: jax.Array  # () int32: the last one


def play_jax(
    policy: Policy,
    scenarios: Sequence[Scenario],
    steps: int,
    keys: jax.Array,
    advance: Advance,
    width: int,
    options: Options,
) -> Recording:
    """All episodes at once on a GPU; on CPUs in parts of one width, as a program uses one core."""
    if jax.default_backend() != "cpu":
        return _play_part(policy, scenarios, steps, keys, advance, options)
    count = -(-len(scenarios) // width)
    # The last part is filled up with episodes that are thrown away.
    numbers = np.resize(np.arange(len(scenarios)), (count, width))
    lock = threading.Lock()

    def advance_some(made: int) -> None:
        with lock:
            advance(made * len(scenarios) // (count * width))

    def play_some(part: np.ndarray) -> Recording:
        some = [scenarios[i] for i in part]
        return _play_part(policy, some, steps, keys[part], advance_some, options)

    with concurrent.futures.ThreadPoolExecutor(num_cores()) as pool:
        parts = list(pool.map(play_some, numbers))
    return Recording(*(np.concatenate(arrays)[: len(scenarios)] for arrays in zip(*parts, strict=True)))


def _play_part(
    policy: Policy,
    scenarios: Sequence[Scenario],
    steps: int,
    keys: jax.Array,
    advance: Advance,
    options: Options,
) -> Recording:
    """Episodes by one program."""
    atlas = load_atlas()
    players = _start(policy, begin_scenarios(scenarios))
    chunks = [jax.tree.map(lambda part: part[None], _note(players))]
    # All of one length, for one program: the last may go too far.
    length = -(-steps // -(-steps // CHUNK))
    for done in range(0, steps, length):
        players, notes = _play_chunk(policy, length, options, atlas, players, keys)
        chunks.append(notes)
        jax.block_until_ready(players.reward)
        advance(min(length, steps - done) * len(scenarios))
    actions, rewards, targets, poses = (
        np.concatenate(parts)[: 1 + steps] for parts in zip(*chunks, strict=True)
    )
    actions, targets = (array.astype(np.uint8).T for array in (actions[1:], targets))
    return Recording(actions, rewards[1:].T, targets, poses.swapaxes(0, 1))


@functools.partial(jax.jit, static_argnums=0)
def _start(policy: Policy, states: State) -> Player:
    memories = jax.lax.map(policy.start, states, batch_size=START_BATCH)
    zeros = jnp.zeros(len(states.step))
    return Player(states, memories, zeros, zeros.astype(jnp.int32))


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _play_chunk(
    policy: Policy, steps: int, options: Options, atlas: Atlas, players: Player, keys: jax.Array
) -> tuple:
    act = jax.vmap(functools.partial(_act, policy, options, atlas))
    move = functools.partial(
        rules.advance, substeps=options.substeps, floating_objects=options.good_visibility
    )

    def step(players: Player, _: None) -> tuple:
        actions, memories = act(players, keys)
        controls = jnp.asarray(ACTIONS, jnp.float32)[actions]
        result = jax.vmap(move)(players.state, controls)
        players = Player(result.state, memories, result.reward, actions)
        return players, _note(players)

    return jax.lax.scan(step, players, length=steps)


def _act(policy: Policy, options: Options, atlas: Atlas, player: Player, key: jax.Array) -> tuple:
    state, memory, reward, action = player
    key = jax.random.fold_in(key, state.step)
    if getattr(policy, "sees_pictures", False):
        image = draw_image(make_view(options), atlas, state)
        return policy.act(memory, Sight(image, reward, action, state.step == 0), key)
    return policy.act(memory, state, key)


def _note(players: Player) -> tuple:
    """(B,) actions, rewards and targets and (B, 4) poses."""
    body = players.state.body
    pose = jnp.stack([body.x, body.y, body.z, body.steer], axis=-1)
    return players.action, players.reward, players.state.target, pose


def play_mujoco(
    policy: Policy,
    scenarios: Sequence[Scenario],
    steps: int,
    keys: jax.Array,
    advance: Advance,
    options: Options,
) -> Recording:
    """One episode after another in the reference."""
    from memory_maze.reference.engine import MujocoEngine

    engine = MujocoEngine(scenarios[0].grid, options)
    start, act = jax.jit(policy.start), jax.jit(functools.partial(_act_as, policy))
    count = len(scenarios)
    actions, rewards = np.zeros((count, steps), np.uint8), np.zeros((count, steps), np.float32)
    targets, poses = np.zeros((count, steps + 1), np.uint8), np.zeros((count, steps + 1, 4))
    try:
        for index, scenario in enumerate(scenarios):
            engine.reset(scenario)
            sense = functools.partial(_sense, policy, engine)
            state, reward, action = begin_scenario(scenario), 0.0, 0
            memory = start(state)
            targets[index, 0], poses[index, 0] = engine.target, engine.state[0][:4]
            for step in range(steps):
                choice, memory = act(memory, state, sense(reward, action), keys[index], step)
                action = int(choice)
                reward = engine.step(ACTIONS[action])
                actions[index, step], rewards[index, step] = action, reward
                targets[index, step + 1], poses[index, step + 1] = engine.target, engine.state[0][:4]
                if step % CHUNK == CHUNK - 1:
                    advance(CHUNK)
            advance(steps % CHUNK)
    finally:
        engine.close()
    return Recording(actions, rewards, targets, poses)


def _sense(policy: Policy, engine: Any, reward: float, action: int) -> Any:
    """What the policy needs of the reference's present state."""
    if getattr(policy, "sees_pictures", False):
        return engine.observe(("image",))["image"], np.float32(reward), np.int32(action)
    return np.concatenate(engine.state).astype(np.float32), np.int32(engine.target)


def _act_as(policy: Policy, memory: Any, state: State, sensed: Any, key: jax.Array, step: int) -> tuple:
    key = jax.random.fold_in(key, step)
    if getattr(policy, "sees_pictures", False):
        return policy.act(memory, Sight(*sensed, jnp.equal(step, 0)), key)
    numbers, target = sensed
    x, y, z, steer, _, *rates = numbers  # positions and their rates
    state = dataclasses.replace(state, body=Body(x, y, z, steer, *rates), target=target, step=step)
    return policy.act(memory, state, key)
