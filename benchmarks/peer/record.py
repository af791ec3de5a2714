"""Records episodes of the published package, for the tests; `make peer` runs it where that is installed.

Writes `variants.npz` (every variant of 9x9, a walk to the first targets) and `seeds.jsonl` (what
many seeds draw, episode after episode) into the folder given.
"""

import json
import os
import sys
from collections import deque
from pathlib import Path

os.environ.setdefault("MUJOCO_GL", "egl")

import numpy as np
from absl import logging
from dm_control import mjcf

from memory_maze import tasks

logging.set_verbosity(logging.FATAL)

EXTRA = {"global_observables": True}
TOP = {"camera_resolution": 256, "top_camera": True}
VARIANTS = {
    "Vis": {"good_visibility": True},
    "HD": {"camera_resolution": 256},
    "Top": TOP,
    "Oracle": {"show_path": True},
    "Oracle-Top": {"show_path": True, **TOP},
    "HiFreq": {"control_freq": 40},
    "6CL": {"randomize_colors": True},
    "Vis-Top": {"good_visibility": True, **TOP},
    "Hidden-Top": {"seed": 68, **TOP},  # an object in the centre cell
}
SEED, STEPS = 5, 120


def main(out: Path) -> None:
    arrays = {}
    for name, keywords in VARIANTS.items():
        for key, value in record_walk(keywords).items():
            arrays[f"{name}/{key}"] = value
        print(name, flush=True)
    np.savez_compressed(out / "variants.npz", **arrays)
    with open(out / "seeds.jsonl", "w") as file:
        for job in seed_jobs():
            for record in record_draws(*job):
                file.write(json.dumps(record) + "\n")
            print(*job, flush=True)


def record_walk(keywords):
    """Walks towards each target by simple steering; keeps all numbers and a few pictures."""
    env = tasks.memory_maze_9x9(**{"seed": SEED, **EXTRA, **keywords})
    steps = STEPS if "control_freq" not in keywords else 4 * STEPS
    timestep = env.reset()
    actions, rows, pictures, picture_steps = [-1], [(0.0, timestep.observation)], [], []
    for step in range(steps + 1):
        observation = rows[-1][1]
        if step % (steps // 4) == 0 or rows[-1][0] > 0:
            pictures.append(observation["image"].copy())
            picture_steps.append(step)
        if step < steps:
            actions.append(steer(observation))
            timestep = env.step(actions[-1])
            rows.append((timestep.reward, timestep.observation))
    env.close()
    keys = [key for key in rows[0][1] if key != "image"]
    result = {key: np.array([row[1][key] for row in rows]) for key in keys}
    return result | {
        "action": np.array(actions),
        "reward": np.array([row[0] for row in rows]),
        "image": np.array(pictures),
        "image_step": np.array(picture_steps),
    }


def steer(observation):
    """Towards the next cell of the shortest path: turn if it is off to the side, else go."""
    layout = observation["maze_layout"] > 0
    position, forward = observation["agent_pos"], observation["agent_dir"]
    path = search(layout, tuple(position.astype(int)), tuple(observation["target_pos"].astype(int)))
    goal = np.array(path[min(1, len(path) - 1)]) + 0.5
    angle = np.arctan2(*(goal - position)[::-1]) - np.arctan2(*forward[::-1])
    angle = (angle + np.pi) % (2 * np.pi) - np.pi
    if abs(angle) > 0.4:
        return 2 if angle > 0 else 3
    return 1 if abs(angle) < 0.2 else (4 if angle > 0 else 5)


def search(layout, start, finish):
    parents, queue = {start: None}, deque([start])
    while queue:
        x, y = queue.popleft()
        for cell in ((x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)):
            inside = min(cell) >= 0 and max(cell) < len(layout)
            if inside and layout[cell[1], cell[0]] and cell not in parents:
                parents[cell] = (x, y)
                queue.append(cell)
    path = [finish]
    while parents[path[-1]] is not None:
        path.append(parents[path[-1]])
    return path[::-1]


def seed_jobs():
    """(size, seed, episodes, targets reached in each, keywords)"""
    yield "9x9", 68, 3, 0, {}  # a target in the centre cell
    for seed in range(100, 130):
        yield "9x9", seed, 2, 3 * (seed % 2), {}
    for size in ("11x11", "13x13", "15x15"):
        for seed in range(100, 112):
            yield size, seed, 2, 2 * (seed % 2), {}
    for seed in range(100, 108):
        yield "9x9", seed, 2, 2, {"randomize_colors": True}
        yield "9x9", seed, 2, 1, {"good_visibility": True}


def record_draws(size, seed, episodes, targets, keywords):
    """What is drawn at reset, and which target follows when the ball is put onto the current one."""
    env = getattr(tasks, f"memory_maze_{size}")(seed=seed, **keywords)
    while hasattr(env, "env"):
        env = env.env
    task = env._task
    task._walker.observables.egocentric_camera.enabled = False
    for episode in range(episodes):
        env.reset()
        arena = task._maze_arena
        places = [mjcf.get_attachment_frame(t.mjcf_model).pos[:2].tolist() for t in task._targets]
        record = {
            "task": size,
            "seed": seed,
            "episode": episode,
            "keywords": keywords,
            "entity_layer": ["".join(row) for row in arena.maze.entity_layer],
            "variations_layer": ["".join(row) for row in arena.maze.variations_layer],
            "wall_texture": {char: t.name for char, t in arena._current_wall_texture.items()},
            "targets": places,
            "colors": [c.tolist() for c in task._target_colors[: task.n_targets]],
            "touched": [i for i, t in enumerate(task._targets) if t.activated],
            "qpos": env.physics.data.qpos.tolist(),
            "target": [int(task._current_target_ix)],
            "reward": [],
        }
        for _ in range(targets):
            with env.physics.reset_context():
                env.physics.data.qpos[:2] = places[task._current_target_ix]
            record["reward"].append(float(env.step(np.zeros(2)).reward))
            record["target"].append(int(task._current_target_ix))
        yield record
    env.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
