"""The report of `memory-maze compare-engines`: figures as JSON, pictures side by side, walks from above."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from memory_maze import compare
from memory_maze.engine.single import JaxEngine
from memory_maze.files import replacing
from memory_maze.options import ACTIONS, Options
from memory_maze.reference.engine import MujocoEngine
from memory_maze.sampler import Sampler
from memory_maze.scenario import Scenario
from memory_maze.tasks import TASKS, Task

TOP_RESOLUTION = 384
_COLORS = {"mujoco": (255, 255, 255), "jax": (255, 60, 200)}


def write_report(
    out: Path, tasks: tuple[str, ...], *, episodes: int, steps: int, runs: int, seed: int
) -> dict[str, Any]:
    """Compares on each task; writes figures.json, pictures-*.png and walks-*.png."""
    figures: dict[str, Any] = {}
    with Progress() as progress:
        for name in tasks:
            task = TASKS[name]
            bar = progress.add_task(name, total=episodes * steps)
            comparison = compare.compare_states(
                task,
                Options(),
                episodes=episodes,
                steps=steps,
                seed=seed,
                tick=lambda bar=bar: progress.advance(bar),
            )
            figures[name] = comparison.summary() | _statistics(task, runs, seed)
            save_picture(out / f"pictures-{name}.png", side_by_side(comparison.pictures))
            save_picture(out / f"walks-{name}.png", draw_walks(task, seed))
    with replacing(out / "figures.json") as path:
        path.write_text(json.dumps({"seed": seed, "tasks": figures}, indent=2) + "\n")
    return figures


def _statistics(task: Task, runs: int, seed: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for policy in compare.POLICIES:
        lengths = compare.path_lengths(task, policy, runs=runs, steps=100, seed=seed)
        means = {name: float(values.mean()) for name, values in lengths.items()}
        apart = lengths["jax"].astype(float) - lengths["mujoco"]
        result[f"path_{policy}"] = means | {
            "ratio": means["jax"] / means["mujoco"],
            "standard_error": float(apart.std() / np.sqrt(len(apart)) / means["mujoco"]),
        }
    found = compare.returns(task, episodes=max(4, runs // 20), steps=200, seed=seed)
    result["found_in_200_steps"] = {name: float(values.mean()) for name, values in found.items()}
    return result


def side_by_side(pairs: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Rows of the JAX engine's picture, the reference's, and eight times their difference."""
    rows = []
    for ours, theirs in pairs[:6]:
        difference = np.clip(8 * np.abs(ours.astype(int) - theirs), 0, 255).astype(np.uint8)
        rows.append(np.concatenate([ours, theirs, difference], axis=1))
    return np.concatenate(rows).repeat(4, axis=0).repeat(4, axis=1)


def draw_walks(task: Task, seed: int, steps: int = 60) -> np.ndarray:
    """The same actions in both engines, over each other on the map of the reference."""
    from PIL import Image, ImageDraw

    sampler, rng, panels = Sampler(task, seed), np.random.RandomState(seed), []
    options = Options(top_camera=True, camera_resolution=TOP_RESOLUTION)
    reference, engine = MujocoEngine(task.grid, options), JaxEngine(Options())
    for policy in (*compare.POLICIES, "forward"):
        scenario = sampler.sample()
        actions = compare.walk_actions(rng, steps, policy)
        places = {}
        for name, player in (("mujoco", reference), ("jax", engine)):
            player.reset(scenario)
            if name == "mujoco":
                image = Image.fromarray(player.image())
            places[name] = _walk(player, actions)
        pen = ImageDraw.Draw(image)
        for name, path in places.items():
            pen.line(_to_pixels(path, scenario), fill=_COLORS[name], width=4 if name == "mujoco" else 2)
        panels.append(np.asarray(image))
    reference.close()
    return np.concatenate(panels, axis=1)


def _walk(player: Any, actions: np.ndarray) -> np.ndarray:
    places = [player.position]
    for action in actions:
        player.step(ACTIONS[action])
        places.append(player.position)
    return np.array(places)


def _to_pixels(path: np.ndarray, scenario: Scenario) -> list[tuple[float, float]]:
    """Where the top camera shows the floor at a place; it sees a tenth more than the maze."""
    half = 1.1 * scenario.grid
    return [tuple((TOP_RESOLUTION * (0.5 + np.array([x, -y]) / (2 * half))).tolist()) for x, y in path]


def save_picture(path: Path, picture: np.ndarray) -> None:
    from PIL import Image

    with replacing(path) as temporary:
        Image.fromarray(picture).save(temporary)
