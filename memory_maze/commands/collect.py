"""Make a data set; run it again to finish one that was interrupted."""

import dataclasses
import importlib.util
from pathlib import Path
from typing import Literal

from memory_maze.extras import missing


@dataclasses.dataclass(frozen=True)
class Command:
    """Its options."""

    out: Path
    """Folder for the data set."""
    task: str = "9x9"
    """Which task, or any odd size like 7x7."""
    objects: int | None = None
    """Objects in each maze, 1 to 6; by default those of the task, and 3 in other sizes."""
    episodes: int = 30_000
    """How many trajectories, each in a maze of its own."""
    evaluation: int | None = None
    """How many of them are the split eval, in layouts that train has not; by default one in thirty."""
    steps: int = 1000
    """Actions in each."""
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

    def run(self) -> None:
        from rich.console import Console

        from memory_maze.data.collection import make_manifest
        from memory_maze.data.progress import run_collection
        from memory_maze.tasks import parse_task

        manifest = make_manifest(
            parse_task(self.task, self.objects),
            self.episodes,
            steps=self.steps,
            policy=self.policy,
            format=self.format,
            engine=self.engine,
            seed=self.seed,
            evaluation=self.evaluation,
            shard=self.shard,
        )
        if self.ray is not None and importlib.util.find_spec("ray") is None:
            raise missing("this needs ray", "ray", "ray")
        run_collection(self.out, manifest, Console(), self.ray)
