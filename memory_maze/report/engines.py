"""Whether an agent scores the same on MuJoCo as on the JAX engine, in the same mazes."""

from typing import Any, NamedTuple

import numpy as np

from memory_maze.episodes.evaluate import FEWEST

_DRAWS = 10_000


class Comparison(NamedTuple):
    """Scores of one agent in the mazes that it was played in on both engines."""

    episodes: int
    jax: float
    mujoco: float
    change: float
    """Of MuJoCo's mean score to that of the JAX engine: 0.01 is one percent more."""
    interval_95: list[float] | None
    """Where the change lies, by drawing mazes again; None if they are too few to tell."""


def compare(result: dict[str, Any]) -> Comparison | None:
    """None if an agent was not played on both, or scored nothing."""
    reports = {one["engine"]: one for one in result["evaluations"]}
    if not {"jax", "mujoco"} <= reports.keys():
        return None
    # Episode i of a seed is in the same maze on both.
    if reports["jax"].get("seed") != reports["mujoco"].get("seed"):
        return None
    episodes = min(one["episodes"] for one in reports.values())
    scores = np.array([reports[engine]["scores"][:episodes] for engine in ("jax", "mujoco")])
    if not scores[0].any():
        return None
    jax, mujoco = scores.mean(axis=1)
    change = float(mujoco / jax - 1)
    return Comparison(episodes, float(jax), float(mujoco), change, _find_interval(scores))


def _find_interval(scores: np.ndarray) -> list[float] | None:
    """Of (2, episodes) scores."""
    episodes = scores.shape[1]
    if episodes < FEWEST:
        return None
    draws = np.random.default_rng(0).integers(episodes, size=(_DRAWS, episodes))
    jaxes, mujocos = scores[:, draws].mean(axis=2)
    drawn = mujocos[jaxes > 0] / jaxes[jaxes > 0] - 1
    return [float(value) for value in np.quantile(drawn, (0.025, 0.975))]
