"""Make a data set; run it again to finish one that was interrupted."""

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
    """Folder for the data set."""
    task: str | None = None
    """Which task, or any odd size like 7x7; by default 9x9, or the one that an agent was trained in."""
    episodes: int = 30_000
    """How many trajectories, each in a maze of its own."""
    evaluation: int | None = None
    """How many of them are the split eval, in layouts that train has not; by default one in thirty."""
    steps: int | None = None
    """Actions in each; by default as many as --seconds take, or 1000."""
    policy: str = "explorer"
    """explorer, oracle, random, a trained agent (its name, or the folder of a run), or your own as
    module:name."""
    format: Literal["scenes", "npz"] = "scenes"
    """scenes: small, pictures are drawn when read. npz: the paper's files, one for each trajectory."""
    engine: Literal["jax", "mujoco"] = "jax"
    """What simulates and draws; MuJoCo needs the extra [mujoco]."""
    seed: int = 0
    """Seed of the first maze and of the policy."""
    shard: int | None = None
    """Trajectories that are made together; what is lost at most when it is killed. Few go to more workers."""
    ray: str | None = None
    """Address of a Ray cluster to spread the work over, or "auto"; needs the extra [ray]."""
    environment: Environment = DEFAULT

    def run(self) -> None:
        from rich.console import Console

        from memory_maze.agents.folder import find_environment
        from memory_maze.data.collection import make_manifest
        from memory_maze.data.progress import run_collection

        task, options = self.environment.choose(self.task, find_environment(self.policy))
        if self.steps is not None and self.environment.seconds is not None:
            raise ValueError("give --steps or --seconds, not both: each says how long a trajectory is")
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
            raise missing("this needs ray", "ray", "ray")
        run_collection(self.out, manifest, Console(), self.ray)
