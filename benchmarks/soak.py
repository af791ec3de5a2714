"""Millions of random steps with every state checked: `python benchmarks/soak.py --steps 50000000`.

Checks after each step of each maze: finite numbers, the ball outside of walls, at most one reward,
resets when and only when the time is up, objects and starts on free cells. Writes results/soak-*.json.
"""

import dataclasses
import functools
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import tyro
from machine import ROOT, describe_run
from rich.console import Console
from rich.progress import Progress

from memory_maze.engine.batch import Batch
from memory_maze.engine.env import Env
from memory_maze.system.files import replacing

console = Console()
CLEARANCE = 0.17  # metres: less than the ball's radius, which may dent a wall by a centimetre


@dataclasses.dataclass(frozen=True)
class Config:
    """Walk for a long time and check everything."""

    steps: int = 50_000_000
    """Steps in all."""
    mazes: int = 4096
    """Mazes at once."""
    task: str = "9x9"
    """Which task."""
    layouts: int = 4096
    """Layouts in the bank."""
    seed: int = 0
    """Seed of mazes and actions."""
    chunk: int = 250
    """Steps between two looks at the counts."""
    out: Path | None = None
    """File for the figures."""


def main(config: Config) -> None:
    env = Env(config.task, image_only_obs=True, layouts=config.layouts)
    batch = Batch(env, config.mazes)
    states, _ = batch.reset(jax.random.key(config.seed), spread=True)
    run = jax.jit(functools.partial(walk, batch, config.chunk), donate_argnums=0)
    rounds = -(-config.steps // (config.mazes * config.chunk))
    totals: dict[str, float] = {}
    found = jnp.zeros(config.mazes)
    began = time.perf_counter()
    with Progress(console=console) as progress:
        for index in progress.track(range(rounds), description="soaking"):
            (states, found), counts = run((states, found), jax.random.key(1000 + index))
            for name, value in jax.device_get(counts).items():
                merge = max if name.startswith("most") else lambda a, b: a + b
                totals[name] = merge(totals.get(name, 0), float(value))
    seconds = time.perf_counter() - began
    steps = rounds * config.mazes * config.chunk
    faults = {name: value for name, value in totals.items() if name.startswith("bad") and value}
    report = describe_run(graphics=False) | {
        "device": f"{jax.devices()[0].platform} {jax.devices()[0].device_kind}",
        "seed": config.seed,
        "task": config.task,
        "mazes": config.mazes,
        "steps": steps,
        "seconds": seconds,
        "steps_per_second_with_checks": steps / seconds,
        "counts": totals,
        "pass": not faults,
    }
    out = config.out or ROOT / "results" / f"soak-{jax.devices()[0].platform}.json"
    with replacing(out) as path:
        path.write_text(json.dumps(report, indent=2) + "\n")
    console.print_json(data=report["counts"])
    console.print(f"{steps:,} steps in {seconds:.0f} s: {faults if faults else 'no fault'}")


def walk(batch: Batch, chunk: int, carry, key):
    """`chunk` steps of random actions, and what was counted."""

    def step(carry, key):
        states, found = carry
        before = states.step
        actions = jax.random.categorical(
            key, jnp.log(jnp.array([0.02, 0.6, 0.06, 0.06, 0.13, 0.13])), shape=(batch.num,)
        )
        states, timestep = batch.step(states, actions)
        counts = check(batch.env, states, timestep, before)
        found = jnp.where(timestep.first, 0.0, found + timestep.reward)
        counts["most_found_in_an_episode"] = found.max()
        counts["episodes"] = timestep.first.sum()
        counts["rewards"] = timestep.reward.sum()
        return (states, found), counts

    carry, counts = jax.lax.scan(step, carry, jax.random.split(key, chunk))
    merge = {
        name: values.max() if name.startswith("most") else values.sum() for name, values in counts.items()
    }
    return carry, merge


def check(env: Env, states, timestep, before) -> dict[str, jax.Array]:
    body = states.body
    numbers = jnp.stack(jax.tree.leaves(body))
    over = before >= env.episode_steps
    ball = jnp.stack([body.x, body.y], axis=-1)
    inside = jnp.zeros(len(before), bool)
    for offset in ((CLEARANCE, 0), (-CLEARANCE, 0), (0, CLEARANCE), (0, -CLEARANCE)):
        inside |= in_wall(env.task.size, states.maze.walls, ball + jnp.array(offset))
    objects = in_wall(env.task.size, states.maze.walls[:, None], states.maze.objects)
    flat = timestep.observation.reshape(len(before), -1)
    return {
        "bad_numbers": (~jnp.isfinite(numbers)).any(axis=0).sum(),
        "bad_in_wall": inside.sum(),
        "bad_speed": (jnp.hypot(body.vx, body.vy) > 3).sum() + (jnp.abs(body.z) > 0.05).sum(),
        "bad_reward": ((timestep.reward != 0) & (timestep.reward != 1)).sum(),
        "bad_reset": (timestep.first != over).sum() + (over & (states.step != 0)).sum(),
        "bad_end": (timestep.truncated != (states.step == env.episode_steps)).sum(),
        "bad_object": objects.sum(),
        "bad_target": ((states.target < 0) | (states.target >= env.task.objects)).sum(),
        "bad_picture": (flat.max(axis=1) == flat.min(axis=1)).sum(),
    }


def in_wall(size: int, walls: jax.Array, places: jax.Array) -> jax.Array:
    """Whether places (..., 2), in metres, are in a wall or outside of the maze."""
    cells = jnp.floor(places / 2 + size / 2).astype(jnp.int32)
    outside = ((cells < 0) | (cells >= size)).any(axis=-1)
    cells = jnp.clip(cells, 0, size - 1)
    rows = jnp.take_along_axis(walls, cells[..., 1:2] if walls.ndim == cells.ndim else cells[..., 1], axis=-1)
    rows = rows.reshape(cells.shape[:-1])
    return outside | (rows >> cells[..., 0].astype(jnp.uint32) & 1).astype(bool)


if __name__ == "__main__":
    main(tyro.cli(Config))
