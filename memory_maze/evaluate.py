"""What a policy scores: whole episodes on either engine, in the same mazes.

Episode i of seed s is the first of the sampler with seed s + i, on both engines, so that their scores can
be compared maze by maze.
"""

import dataclasses
import datetime
import functools
import math
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from memory_maze.engine import rules
from memory_maze.engine.env import begin_scenario
from memory_maze.engine.single import cache_programs
from memory_maze.engine.types import Body, State
from memory_maze.options import ACTIONS, Options
from memory_maze.policies import Policy
from memory_maze.sampler import Sampler, check_seed
from memory_maze.scenario import Scenario
from memory_maze.tasks import Task

ENGINES = ("jax", "mujoco")
# The paper's mean scores.
PAPER = {
    "9x9": {"oracle": 34.8, "human": 26.4},
    "11x11": {"oracle": 58.0, "human": 44.3},
    "13x13": {"oracle": 74.5, "human": 55.5},
    "15x15": {"oracle": 87.7, "human": 67.7},
}
BIN = 100  # steps
CHUNK = 50  # steps between two looks at the clock
RESAMPLES = 10_000

Advance = Callable[[int], None]  # called with the number of steps that were made


def evaluate(
    policy: Policy,
    task: Task,
    episodes: int,
    *,
    engine: str = "jax",
    seed: int = 0,
    advance: Advance = lambda steps: None,
) -> dict[str, Any]:
    """Plays episodes and sums them up.

    Args:
        policy: From `policies.load_policy`.
        task: The task.
        episodes: How many.
        engine: "jax" or "mujoco".
        seed: Of the first episode's maze.
        advance: Told of progress, in steps of single mazes.
    """
    if engine not in ENGINES:
        raise ValueError(f"no engine {engine!r}: there are {', '.join(ENGINES)}")
    if episodes < 1:
        raise ValueError(f"episodes must be positive: got {episodes}")
    check_seed(seed)
    scenarios = [Sampler(task, seed + index).sample() for index in range(episodes)]
    play = play_jax if engine == "jax" else play_mujoco
    cache_programs()
    began = time.perf_counter()
    rewards = play(policy, scenarios, task.episode_steps(), seed, advance)
    seconds = time.perf_counter() - began
    return summarize(rewards, task) | {
        "task": task.name,
        "engine": engine,
        "seed": seed,
        "seconds": seconds,
        "steps_per_second": rewards.size / seconds,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def summarize(rewards: np.ndarray, task: Task) -> dict[str, Any]:
    """The figures of (episodes, steps) rewards."""
    scores = rewards.sum(axis=1)
    count, steps = rewards.shape
    ends = range(BIN, steps + 1, BIN)
    report = {
        "mean": float(scores.mean()),
        "std_error": float(scores.std(ddof=1) / math.sqrt(count)) if count > 1 else None,
        "interval_95": bootstrap(scores),
        "episodes": count,
        "steps": steps,
        "rewards_per_100_steps": [float(rewards[:, end - BIN : end].sum(axis=1).mean()) for end in ends],
        "scores": [float(score) for score in scores],
    }
    if task.name in PAPER:
        report["share_of_paper"] = {name: report["mean"] / value for name, value in PAPER[task.name].items()}
    return report


def bootstrap(scores: np.ndarray) -> list[float]:
    """Where the mean lies with 95 % confidence, by drawing episodes again."""
    rng = np.random.default_rng(0)
    means = rng.choice(scores, (RESAMPLES, len(scores))).mean(axis=1)
    return [float(value) for value in np.quantile(means, (0.025, 0.975))]


def play_jax(
    policy: Policy, scenarios: list[Scenario], steps: int, seed: int, advance: Advance
) -> np.ndarray:
    """(episodes, steps) rewards of all episodes at once."""
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(begin_scenario, scenarios))
    # A few at a time, for policies that search the whole maze.
    memories = jax.jit(lambda states: jax.lax.map(policy.start, states, batch_size=8))(states)
    rewards, done = [], 0
    while done < steps:
        count = min(CHUNK, steps - done)
        key = jax.random.fold_in(jax.random.key(seed), done)
        states, memories, earned = _play_chunk(policy, count, states, memories, key)
        rewards.append(np.asarray(earned))
        done += count
        advance(count * len(scenarios))
    return np.concatenate(rewards).T


@functools.partial(jax.jit, static_argnums=(0, 1))
def _play_chunk(policy: Policy, steps: int, states: State, memories: Any, key: jax.Array) -> tuple:
    def step(carry: tuple, key: jax.Array) -> tuple:
        states, memories = carry
        keys = jax.random.split(key, len(states.step))
        actions, memories = jax.vmap(policy.act)(memories, states, keys)
        states, rewards, _ = jax.vmap(rules.advance)(states, jnp.asarray(ACTIONS, jnp.float32)[actions])
        return (states, memories), rewards

    (states, memories), rewards = jax.lax.scan(step, (states, memories), jax.random.split(key, steps))
    return states, memories, rewards


def play_mujoco(
    policy: Policy, scenarios: list[Scenario], steps: int, seed: int, advance: Advance
) -> np.ndarray:
    """(episodes, steps) rewards, one episode after another in the reference."""
    from memory_maze.reference.engine import MujocoEngine

    engine = MujocoEngine(scenarios[0].grid, Options())
    start, act = jax.jit(policy.start), jax.jit(functools.partial(_act, policy))
    rewards = np.zeros((len(scenarios), steps))
    for index, scenario in enumerate(scenarios):
        engine.reset(scenario)
        state = begin_scenario(scenario)
        memory = start(state)
        for step in range(steps):
            numbers = np.concatenate(engine.state).astype(np.float32)
            action, memory = act(memory, state, numbers, engine.target, jax.random.key(seed), index, step)
            rewards[index, step] = engine.step(ACTIONS[int(action)])
            if step % CHUNK == CHUNK - 1:
                advance(CHUNK)
        advance(steps % CHUNK)
    engine.close()
    return rewards


def _act(
    policy: Policy,
    memory: Any,
    state: State,
    numbers: jax.Array,
    target: jax.Array,
    key: jax.Array,
    index: int,
    step: int,
) -> tuple:
    """The action in the reference's present state, ten numbers: positions and their rates."""
    x, y, z, steer, _, *rates = numbers
    state = dataclasses.replace(state, body=Body(x, y, z, steer, *rates), target=target, step=step)
    return policy.act(memory, state, jax.random.fold_in(jax.random.fold_in(key, index), step))
