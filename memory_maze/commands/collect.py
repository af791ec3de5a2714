"""Collect a data set. Run it again to resume after an interruption."""

import dataclasses
import importlib.util
from pathlib import Path
from typing import Literal

from memory_maze.commands.environment import DEFAULT, Environment
from memory_maze.system.extras import missing


@dataclasses.dataclass(frozen=True)
class Command:
    """Its options."""

    out: Path
    """Directory of the data set."""
    task: str | None = None
    """Task, or any odd size like 7x7; by default 9x9, or the task the agent was trained on."""
    episodes: int = 30_000
    """Number of trajectories, each in a different maze."""
    evaluation: int | None = None
    """Number of trajectories in the eval split, on held-out layouts; by default one in thirty."""
    steps: int | None = None
    """Actions per trajectory; by default the length given by --seconds, or 1000."""
    policy: str = "explorer"
    """explorer, oracle, random, a trained agent (its name or run directory), or your own policy as
    module:name."""
    format: Literal["scenes", "npz"] = "scenes"
    """scenes: small files, images rendered on loading. npz: the paper's format, one file per trajectory."""
    engine: Literal["jax", "mujoco"] = "jax"
    """Engine that simulates and renders; mujoco needs the extra [mujoco]."""
    seed: int = 0
    """Seed of the first maze and of the policy."""
    shard: int | None = None
    """Trajectories per shard: the most that is lost when killed; smaller shards spread over more workers."""
    ray: str | None = None
    """Address of a Ray cluster to distribute the work over, or "auto"; needs the extra [ray]."""
    environment: Environment = DEFAULT

    def run(self) -> None:
        from rich.console import Console

        from memory_maze.agents.folder import find_environment
        from memory_maze.data.collection import make_manifest
        from memory_maze.data.progress import run_collection

        task, options = self.environment.choose(self.task, find_environment(self.policy))
        if self.steps is not None and self.environment.seconds is not None:
            raise ValueError("give --steps or --seconds, not both: each sets the length of a trajectory")
        steps = 1000 if self.environment.seconds is None else task.episode_steps(options.control_freq)
        manifest = make_manifest(
            task,
            self.episodes,
            steps=steps if self.steps is None else self.steps,
            policy=self.policy,
            format=self.format,
            engine=self.engine,
            seed=self.seed,
            evaluation=self.evaluation,
            shard=self.shard,
            options=options,
        )
        if self.ray is not None and importlib.util.find_spec("ray") is None:
            raise missing("--ray needs ray", "ray", "ray")
        run_collection(self.out, manifest, Console(), self.ray)
