"""What a policy scores: whole episodes on either engine, in the same mazes.

Episode i of seed s is the first of the sampler with seed s + i, on both engines, so that their scores can
be compared maze by maze. Held out are those episodes whose layout no training bank has; where that of a seed
is not, another seed stands in (`splits.draw_scenario`).
"""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from memory_maze import paper
from memory_maze.episodes.rollout import Advance, Recording, play
from memory_maze.options import DEFAULT, Options
from memory_maze.policies.protocol import Policy
from memory_maze.sampler import check_seed, make_sampler
from memory_maze.scenario import Scenario
from memory_maze.splits import SEED_STRIDE, draw_scenario
from memory_maze.system.programs import cache_programs
from memory_maze.system.provenance import now
from memory_maze.tasks import TASKS, Task
from memory_maze.variants import check_playable, describe_variant, is_usual

# The paper's mean scores.
PAPER = {
    task: {name: paper.SCORES[name.capitalize()][task].mean for name in ("oracle", "human")} for task in TASKS
}
BIN = 100  # steps
RESAMPLES = 10_000
FEWEST = 5  # episodes: with fewer, bootstrapped intervals say little

Watch = Callable[[list[Scenario], Recording], None]  # receives what was played


def evaluate(
    policy: Policy,
    task: Task,
    episodes: int,
    *,
    engine: str = "jax",
    seed: int = 0,
    held_out: bool | None = None,
    options: Options = DEFAULT,
    advance: Advance = lambda steps: None,
    watch: Watch = lambda scenarios, recording: None,
) -> dict[str, Any]:
    """Evaluates a policy over whole episodes.

    Args:
        policy: From `policies.load_policy`.
        task: The task.
        episodes: Number of episodes.
        engine: "jax" or "mujoco".
        seed: Seed of the first episode's maze.
        held_out: Use only held-out layouts; by default true for policies that see images, which may have
            been trained.
        options: Variant of the task.
        advance: Called with the number of environment steps done.
        watch: Called with the scenarios and the recording, for videos.
    """
    if not 1 <= episodes <= SEED_STRIDE:
        raise ValueError(f"episodes must be positive, at most {SEED_STRIDE:,}: got {episodes}")
    check_seed(seed)
    check_playable(task, options)
    held_out = is_trained(policy) if held_out is None else held_out
    scenarios = draw_scenarios(task, episodes, seed, held_out, options)
    cache_programs()
    began = time.perf_counter()
    steps = task.episode_steps(options.control_freq)
    recording = play(policy, scenarios, steps, engine=engine, seed=seed, options=options, advance=advance)
    seconds = time.perf_counter() - began
    rewards = recording.rewards.astype(float)
    watch(scenarios, recording)
    return summarize(rewards, task, options) | {
        "task": task.name,
        **describe_variant(task, options),
        "engine": engine,
        "seed": seed,
        "held_out": held_out,
        "layouts": len({scenario.walls for scenario in scenarios}),
        "seconds": seconds,
        "steps_per_second": rewards.size / seconds,
        "date": now(),
    }


def describe_few_layouts(report: dict[str, Any]) -> str | None:
    """What it means that an evaluation was in few different layouts, if it was."""
    layouts = report.get("layouts")  # earlier ones did not count them
    if layouts is None or 2 * layouts > report["episodes"]:
        return None
    return (
        f"{report['task']}: {report['episodes']:,} episodes in {layouts:,} different layouts; this size has "
        "so few layouts that scores say little about generalization to unseen mazes"
    )


def is_trained(policy: Policy) -> bool:
    """Whether a policy may have been trained: those that are given the state need no training."""
    return getattr(policy, "sees_pictures", False)


def draw_scenarios(
    task: Task,
    episodes: int,
    seed: int,
    held_out: bool,
    options: Options = DEFAULT,
) -> list[Scenario]:
    """The mazes of an evaluation."""
    if held_out:
        return [draw_scenario(task, seed + index, True, options)[1] for index in range(episodes)]
    return [make_sampler(task, seed + index, options).sample() for index in range(episodes)]


def summarize(
    rewards: np.ndarray,
    task: Task,
    options: Options = DEFAULT,
) -> dict[str, Any]:
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
    if task.name in PAPER and is_usual(task, options):
        report["share_of_paper"] = {name: report["mean"] / value for name, value in PAPER[task.name].items()}
    return report


def bootstrap(scores: np.ndarray) -> list[float] | None:
    """Where the mean lies with 95 % confidence, by drawing episodes again; None if they are too few."""
    if len(scores) < FEWEST:
        return None
    rng = np.random.default_rng(0)
    means = rng.choice(scores, (RESAMPLES, len(scores))).mean(axis=1)
    return [float(value) for value in np.quantile(means, (0.025, 0.975))]
