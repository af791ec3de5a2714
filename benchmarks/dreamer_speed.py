"""Updates and steps a second of Dreamer, and what bounds them: `python benchmarks/dreamer_speed.py`.

An iteration runs as in `memory-maze train`, after everything is compiled and once the replay has episodes.
The parts of an update are timed alone too: reading a window with its images, the gradient of the world model,
imagination, and the gradients of actor and critic; the rest are the optimizers. IMPALA is measured in the
same run. Everything is on one device. Writes results/dreamer-speed-gpu.json (or -cpu.json). On a CPU:

    python benchmarks/dreamer_speed.py --presets small paper --set prefill_steps=0
"""

import dataclasses
import functools
import json
import os
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import training
import tyro
from machine import ROOT, describe_run
from probing_speed import time_calls
from rich.console import Console
from rich.table import Table

from memory_maze.agents.config import OffPolicyConfig
from memory_maze.agents.dreamer import agent as dreamer
from memory_maze.agents.dreamer.behaviour import find_losses, find_returns, imagine
from memory_maze.agents.registry import find_config
from memory_maze.engine.batch import Batch
from memory_maze.engine.env import Env
from memory_maze.models.rssm import Latent
from memory_maze.system.files import replacing
from memory_maze.system.overrides import override
from memory_maze.system.programs import cache_programs
from memory_maze.system.provenance import describe_devices
from memory_maze.training.actor import repeat
from memory_maze.training.devices import make_mesh, use_cores
from memory_maze.training.off_policy import begin, iterate, sample_windows

console = Console()
PARTS = ("play", "read", "model", "imagine", "behaviour")


@dataclasses.dataclass(frozen=True)
class Config:
    """Measure how fast Dreamer trains."""

    agent: str = "dreamer-tbtt"
    """Which of the three; they do the same work, but for the probe loss."""
    presets: tuple[str, ...] = ("paper", "fast")
    """Which presets."""
    set: tuple[str, ...] = ()
    """Hyperparameters to change, as name=value."""
    task: str = "9x9"
    """Which task."""
    impala: str | None = None
    """Preset of IMPALA, to compare with; the first of the presets by default."""
    seconds: float = 10.0
    """Length of each timing."""
    layouts: int = 4096
    """Layouts to train in."""
    seed: int = 0
    """Seed of networks, mazes and actions."""
    out: Path | None = None
    """File for the figures."""


def main(config: Config) -> None:
    use_cores(1)
    cache_programs()
    out = config.out or ROOT / "results" / f"dreamer-speed-{jax.default_backend()}.json"
    results: dict[str, Any] = {}
    report = describe_run(graphics=False) | {
        "devices": describe_devices(),
        "jax": jax.__version__,
        "seed": config.seed,
        "settings": dataclasses.asdict(config) | {"out": None},
        "results": results,
    }
    for preset in config.presets:
        results[preset] = measure(preset, config)
    rival = training.Config(seconds=config.seconds, layouts=config.layouts, seed=config.seed)
    results["impala"] = training.measure(config.impala or config.presets[0], config.task, rival)
    with replacing(out) as path:
        path.write_text(json.dumps(report, indent=2) + "\n")
    print_results(results)
    console.print(f"written: {os.path.relpath(out)}", soft_wrap=True)


def measure(preset: str, config: Config) -> dict[str, Any]:
    agent: Any = override(find_config(config.agent).presets[preset], config.set)
    mesh = make_mesh(jax.devices()[:1])
    batch = Batch(Env(config.task, image_only_obs=True, layouts=config.layouts), agent.num_envs)
    started = time.perf_counter()
    run, updates = begin(jax.random.key(config.seed), batch, agent, mesh), 0
    while not updates:  # the replay is being filled
        run, metrics = iterate(run, batch, agent, mesh)
        updates = int(metrics["updates"])
    first = time.perf_counter() - started
    iterated, count = time.perf_counter(), 0
    while time.perf_counter() - iterated < config.seconds:
        run, metrics = iterate(run, batch, agent, mesh)
        jax.block_until_ready(metrics)
        count += 1
    iteration = (time.perf_counter() - iterated) / count
    parts = measure_parts(agent, run, batch, mesh, config.seconds / 5)
    used = updates * sum(parts[f"{part}_ms"] for part in PARTS if part != "play") / 1e3
    parts["play_ms"] = 1e3 * max(iteration - used, 0.0)
    return {
        "updates_per_second": updates / iteration,
        "steps_per_second": agent.steps_per_iteration / iteration,
        "updates_per_iteration": updates,
        "first_seconds": first,
        "parts": parts,
    }


def measure_parts(
    agent: OffPolicyConfig, run: Any, batch: Batch, mesh: Any, seconds: float
) -> dict[str, float]:
    """Milliseconds of the parts of an update, each as a program of its own."""
    config: Any = agent
    sample = functools.partial(sample_windows, run, batch, config, mesh, config.batch_length)
    window = sample(jax.random.key(0))
    assert window is not None
    network, carry = run.network, repeat(run.network.initial(), config.batch_size)
    records, key = dreamer.to_records(window), jax.random.key(1)

    def model_loss(model: Any) -> tuple[jax.Array, Latent]:
        loss, learned = model.loss(carry, records, key)
        return loss, learned.states

    model = eqx.filter_jit(eqx.filter_value_and_grad(model_loss, has_aux=True))
    (_, states), _ = model(network.model)
    starts: Latent = jax.tree.map(lambda leaf: leaf.reshape(-1, leaf.shape[-1]), states)
    dreaming = eqx.filter_jit(lambda: imagine(network.model, network.actor, starts, config.horizon, key))
    dream = dreaming()

    def behaviour_loss(nets: tuple) -> jax.Array:
        found = find_returns(network.model, run.learner.target, dream)
        losses = find_losses(nets[0], nets[1], dream, found)
        return losses.actor + losses.critic

    behaviour = eqx.filter_jit(eqx.filter_grad(behaviour_loss))
    calls = {
        "read": lambda: sample(jax.random.key(0)),
        "model": lambda: model(network.model),
        "imagine": dreaming,
        "behaviour": lambda: behaviour((network.actor, network.critic)),
    }
    return {f"{part}_ms": 1e3 * time_calls(call, seconds) for part, call in calls.items()}


def print_results(results: dict[str, Any]) -> None:
    table = Table("agent", "updates/s", "steps/s", *(f"{part}, ms" for part in PARTS))
    for name, figures in results.items():
        updates = figures.get("updates_per_second")
        parts = [f"{figures['parts'][f'{part}_ms']:.2f}" if "parts" in figures else "-" for part in PARTS]
        speed = f"{figures['steps_per_second']:,.0f}"
        table.add_row(name, "-" if updates is None else f"{updates:.1f}", speed, *parts)
    console.print(table)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
