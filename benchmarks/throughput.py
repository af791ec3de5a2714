"""Steps a second of every way to play: the published package, the reference, and the JAX engine.

    python benchmarks/throughput.py            writes results/throughput-cpu.json (or -gpu.json)
    python benchmarks/throughput.py --quick    9x9 alone, few mazes; writes build/throughput-quick.json

Batches walk by random actions inside one program, and every pixel is consumed. The parts are timed
alone too, to see what bounds them: the physics, the picture, and on NVIDIA GPUs the picture's kernels.
Without --peer only this package is measured.
"""

import dataclasses
import functools
import json
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from machine import ROOT, describe_run
from rich.console import Console
from rich.table import Table

from memory_maze.engine.batch import Batch
from memory_maze.engine.env import Env
from memory_maze.engine.picture import kernels, render
from memory_maze.engine.picture.staging import Stage
from memory_maze.registration import env_id
from memory_maze.system.files import replacing
from memory_maze.system.programs import cache_programs
from memory_maze.tasks import TASKS

console = Console()
Step = Callable[..., Any]  # of states and a key, to states and a number
PARTS = ("physics", "picture", "survey", "look", "finish")  # microseconds


@dataclasses.dataclass(frozen=True)
class Config:
    """Measure the throughput of all engines."""

    quick: bool = False
    """9x9 alone, up to 256 mazes, one repetition."""
    peer: bool = True
    """Measure the published package and the reference beside the JAX engine."""
    tasks: tuple[str, ...] = tuple(TASKS)
    """Which tasks."""
    mazes: tuple[int, ...] = (1, 16, 256, 1024, 4096, 16384)
    """Batch sizes; those over 256 are left out on CPUs."""
    parts: tuple[int, ...] = (256, 1024, 16384)
    """Batch sizes of which the parts are timed alone."""
    repeats: int = 3
    """Timings of each, of which the median counts."""
    seconds: float = 2.0
    """Length of each timing."""
    layouts: int = 4096
    """Layouts in the bank."""
    seed: int = 0
    """Seed of mazes and actions."""
    out: Path | None = None
    """File for the figures."""


def main(config: Config) -> None:
    cache_programs()
    device = jax.devices()[0]
    if config.quick:
        config = dataclasses.replace(config, tasks=("9x9",), mazes=(1, 256), repeats=1, seconds=1.0)
    if device.platform == "cpu":
        config = dataclasses.replace(config, mazes=tuple(n for n in config.mazes if n <= 256))
    # Describing the machine opens a GL context; without peers none is needed.
    run = describe_run(graphics=config.peer) | {
        "device": f"{device.platform} {device.device_kind}",
        "jax": jax.__version__,
    }
    results: dict[str, Any] = {}
    out = config.out or ROOT / "build" / "throughput-quick.json"
    if config.out is None and not config.quick:
        out = ROOT / "results" / f"throughput-{device.platform}.json"
    for task in config.tasks:
        # One maze runs on the CPU wherever batches run.
        engines = measure_single(task, config) if device.platform == "cpu" else {}
        results[task] = {"engines": engines, "batches": measure_batches(task, config)}
        report = run | {
            "seed": config.seed,
            "settings": dataclasses.asdict(config) | {"out": None},
            "results": results,
        }
        with replacing(out) as path:
            path.write_text(json.dumps(report, indent=2) + "\n")
    print_results(results)
    console.print(f"written: {os.path.relpath(out)}", soft_wrap=True)


# One environment, through the interface that people use.


def measure_single(task: str, config: Config) -> dict[str, float]:
    """Steps a second of single environments, taking turns."""
    runners = {"jax": functools.partial(walk, start(task, "jax", config.seed))}
    stack = None
    if config.peer:
        import contextlib

        from reference import Side, install_peer

        runners["mujoco"] = functools.partial(walk, start(task, "mujoco", config.seed))
        stack = contextlib.ExitStack()
        side = Side([str(install_peer(ROOT / "build" / "peer")), "-I"], {**os.environ, "MUJOCO_GL": "egl"})
        worker = stack.enter_context(side.start())
        worker.open(task, config.seed)
        runners["published"] = lambda seconds: worker.ask("walk", resets=1, steps=int(20 * seconds))[
            "steps_per_second"
        ]
    figures: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(config.repeats):
        for name, runner in runners.items():
            figures[name].append(runner(config.seconds))
    if stack is not None:
        stack.close()
    return {name: statistics.median(values) for name, values in figures.items()}


def start(task: str, engine: str, seed: int) -> gymnasium.Env:
    env = gymnasium.make(env_id(task), engine=engine, seconds=1e6)
    env.reset(seed=seed)
    env.step(0)
    return env


def walk(env: gymnasium.Env, seconds: float) -> float:
    actions = np.random.RandomState(0).randint(6, size=100_000).tolist()
    begin, steps = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        for action in actions[steps : steps + 10]:
            env.step(action)
        steps += 10
    return steps / (time.perf_counter() - begin)


# Batches.


def measure_batches(task: str, config: Config) -> dict[str, Any]:
    env = Env(task, image_only_obs=True, layouts=config.layouts)
    states, _ = Batch(env, max(config.mazes)).reset(jax.random.key(config.seed), spread=True)
    some = {num: jax.tree.map(lambda leaf, num=num: leaf[:num], states) for num in config.mazes}
    steps: dict[tuple[int, str], Step] = {}
    for num in config.mazes:
        steps[num, "step"] = functools.partial(whole_step, Batch(env, num))
        if num in config.parts:
            parts = list_parts(env, jax.devices()[0].platform == "gpu")
            steps |= {(num, name): part for name, part in parts.items()}
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # compiling does not hold Python's lock
        programs = dict(
            zip(steps, pool.map(lambda key: compile_loop(steps[key], some[key[0]]), steps), strict=True)
        )
    results: dict[str, Any] = {}
    for (num, name), program in programs.items():
        figures = time_program(program, some[num], num, config, once=name != "step")
        if name == "step":
            nbytes = sum(leaf.nbytes for leaf in jax.tree.leaves(raw(some[num])))
            results[str(num)] = figures | {"parts": {}, "state_bytes_per_maze": nbytes / num}
        else:
            results[str(num)]["parts"][f"{name}_us"] = figures["step_us"]
    return results


def list_parts(env: Env, in_kernels: bool) -> dict[str, Step]:
    """What a step consists of."""
    parts: dict[str, Step] = {
        "physics": functools.partial(physics_alone, env),
        "picture": functools.partial(picture_alone, env),
    }
    if in_kernels:
        stages = ("survey", "look", "finish")
        parts |= {name: functools.partial(stage_alone, env, name) for name in stages}
    return parts


def raw(states):
    """Keys as the integers that they are."""
    is_key = lambda leaf: jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)  # noqa: E731
    return jax.tree.map(lambda leaf: jax.random.key_data(leaf) if is_key(leaf) else leaf, states)


def whole_step(batch: Batch, states, key):
    actions = jax.random.randint(key, (batch.num,), 0, 6)
    states, timestep = batch.step(states, actions)
    return states, consume(timestep.observation) + timestep.reward.sum().astype(jnp.uint32)


def physics_alone(env: Env, states, key):
    actions = jax.random.randint(key, states.step.shape, 0, 6)
    states, rewards = jax.vmap(env.advance)(states, actions)
    return states, rewards.sum().astype(jnp.uint32)


def picture_alone(env: Env, states, key):
    # The pose changes a little, or the program would draw once.
    body = dataclasses.replace(states.body, steer=states.body.steer + 0.1)
    states = dataclasses.replace(states, body=body)
    return states, consume(jax.vmap(env.render)(states))


def stage_alone(env: Env, last: str, states, key):
    """The picture up to one of its stages: what the last one takes is the difference to the one before."""
    body = dataclasses.replace(states.body, steer=states.body.steer + 0.1)
    states = dataclasses.replace(states, body=body)
    scene = render.Scene(
        states.maze,
        body.x,
        body.y,
        body.z,
        -body.steer,
        ~states.touched,
        jnp.zeros((len(body.x), 3), jnp.uint8),
    )
    found = render.survey(env.view, Stage(), scene)
    if last == "survey":
        return states, touch(found)
    looked = kernels.look(env.view, env.atlas, found, scene.maze.rooms)
    if last == "look":
        return states, touch(looked)
    return states, touch(kernels.finish(env.view, *looked, scene.border))


def touch(arrays: Any) -> jax.Array:
    """A number that depends on every array: kernels write all of one or nothing."""
    return jnp.stack([leaf.reshape(-1)[0].astype(jnp.uint32) for leaf in jax.tree.leaves(arrays)]).sum()


def consume(images: jax.Array) -> jax.Array:
    """A number that depends on every pixel."""
    return images.astype(jnp.uint32).sum()


def compile_loop(step: Step, states: Any) -> Any:
    """A program that repeats a step; how often is an argument."""

    def run(states, key, steps):
        def body(index, carry):
            states, total = carry
            states, number = step(states, jax.random.fold_in(key, index))
            return states, total + number

        return jax.lax.fori_loop(0, steps, body, (states, jnp.uint32(0)))

    return jax.jit(run).lower(states, jax.random.key(0), np.int32(1)).compile()


def time_program(run: Any, states: Any, num: int, config: Config, once: bool = False) -> dict[str, Any]:
    """Median time of a step, over enough of them to measure."""

    def time_steps(steps: int, seed: int) -> float:
        begin = time.perf_counter()
        jax.block_until_ready(run(states, jax.random.key(seed), np.int32(steps)))
        return time.perf_counter() - begin

    time_steps(1, 0)
    steps, elapsed = 4, 0.0
    while True:
        elapsed = time_steps(steps, 1)
        if elapsed > config.seconds / 4 or steps >= 4096:
            break
        steps = min(4096, max(2 * steps, int(steps * config.seconds / 3 / max(elapsed, 1e-6))))
    times = [elapsed, *(time_steps(steps, 2 + repeat) for repeat in range(0 if once else config.repeats))]
    step_seconds = statistics.median(times) / steps
    return {"step_us": 1e6 * step_seconds, "steps_per_second": num / step_seconds, "scan_steps": steps}


def print_results(results: dict[str, Any]) -> None:
    table = Table("task", "engine", "mazes")
    for column in ("steps/s", "us a step", *PARTS, "bytes a maze"):
        table.add_column(column, justify="right")
    for task, result in results.items():
        for name, value in result["engines"].items():
            table.add_row(task, name, "1", f"{value:,.0f}", f"{1e6 / value:,.0f}")
        for num, batch in result["batches"].items():
            cells = [f"{batch['steps_per_second']:,.0f}", f"{batch['step_us']:,.0f}"]
            parts = (batch["parts"].get(f"{name}_us") for name in PARTS)
            cells += ["" if part is None else f"{part:,.0f}" for part in parts]
            table.add_row(task, "jax batch", num, *cells, f"{batch['state_bytes_per_maze']:,.0f}")
        table.add_section()
    console.print(table)


if __name__ == "__main__":
    main(tyro.cli(Config))
