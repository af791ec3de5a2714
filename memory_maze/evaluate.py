"""What a policy scores: whole episodes on either engine, in the same mazes.

Episode i of seed s is the first of the sampler with seed s + i, on both engines, so that their scores can
be compared maze by maze.
"""

import datetime
import math
import time
from typing import Any

import numpy as np

from memory_maze.engine.single import cache_programs
from memory_maze.policies import Policy
from memory_maze.rollout import Advance, play
from memory_maze.sampler import Sampler, check_seed
from memory_maze.tasks import Task

# The paper's mean scores.
PAPER = {
    "9x9": {"oracle": 34.8, "human": 26.4},
    "11x11": {"oracle": 58.0, "human": 44.3},
    "13x13": {"oracle": 74.5, "human": 55.5},
    "15x15": {"oracle": 87.7, "human": 67.7},
}
BIN = 100  # steps
RESAMPLES = 10_000


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
    if episodes < 1:
        raise ValueError(f"episodes must be positive: got {episodes}")
    check_seed(seed)
    scenarios = [Sampler(task, seed + index).sample() for index in range(episodes)]
    cache_programs()
    began = time.perf_counter()
    rewards = play(
        policy, scenarios, task.episode_steps(), engine=engine, seed=seed, advance=advance
    ).rewards.astype(float)
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
