"""The JAX engine beside the reference on the same scenarios and actions: how far apart are they?

`record` plays in MuJoCo. Here the JAX engine repeats a record, from the reference's state before
each action or on its own from the same start, and the two are compared.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from memory_maze.compare.record import Job, Record, Witness, draw_scenarios, plan, steer_to_target
from memory_maze.engine import rules
from memory_maze.engine.env import Env
from memory_maze.engine.types import Body, State
from memory_maze.options import ACTIONS, Options
from memory_maze.scenario import Scenario
from memory_maze.tasks import Task, parse_task
from memory_maze.world import cell_to_world, to_cells

# One program for each size: all records are cut to this many runs and actions.
LANES, STEPS = 100, 100
_LAYOUTS = 64  # of the bank, which is not drawn from
_SHELL, _HEAD = ("shell",), ("head", "face")


class Given(NamedTuple):
    """What the reference tells the JAX engine before an action."""

    action: Any  # () int8
    piloted: Any  # () bool: choose instead, by the same rule
    follow: Any  # () bool: take over the rest, otherwise go on from the own state
    body: Body
    target: Any  # () int32
    draws_used: Any  # () int32
    touched: Any  # (T,) bool: at reset alone


class Outcome(NamedTuple):
    """What the JAX engine made of it; (R, S, ...) for a whole record."""

    place: Any  # (3,): x, y (m), steer (rad)
    touched: Any  # (T,) bool
    reward: Any  # ()
    target: Any  # (): the next one


class Engine:
    """Repeats records of one task."""

    def __init__(self, task: str, **keywords: Any) -> None:
        self.env = Env(task, layouts=_LAYOUTS, target_color_in_image=False, **keywords)
        self._scan = jax.jit(self._scan_actions)
        self._render = jax.jit(jax.vmap(self.env.render))

    def repeat(self, job: Job, record: Record, *, follow: bool) -> Outcome:
        """All runs of a record; if `follow`, each action from the reference's state before it."""
        scenarios = draw_scenarios(job)
        lanes = min(LANES, job.runs)
        parts = []
        for first in range(0, job.runs, lanes):
            runs = np.minimum(np.arange(first, first + lanes), job.runs - 1)
            states, given = self._prepare([scenarios[run] for run in runs], record, runs, follow)
            points = np.stack([plan(scenarios[run]) for run in runs])
            parts.append(self._play(states, points, given))
        return jax.tree.map(lambda *leaves: np.concatenate(leaves)[: job.runs], *parts)

    def draw(self, scenes: list[tuple[Scenario, np.ndarray]]) -> np.ndarray:
        """Pictures without border of scenarios with the reference's state in them."""
        states = self._load([scenario for scenario, _ in scenes])
        body = to_body(np.stack([state for _, state in scenes]))
        unhidden = jnp.zeros_like(states.touched)
        return np.asarray(self._render(dataclasses.replace(states, body=body, touched=unhidden)))

    def _prepare(self, scenarios: list[Scenario], record: Record, runs: np.ndarray, follow: bool):
        states = self._load(scenarios)
        actions = record.actions[runs]
        hidden = np.zeros((*actions.shape, states.touched.shape[-1]), bool)
        hidden[:, 0] = states.touched
        follows = np.full(actions.shape, follow)
        follows[:, 0] = True
        given = Given(
            action=actions,
            piloted=record.piloted[runs] & (not follow),
            follow=follows,
            body=to_body(record.before[runs]),
            target=record.target[runs].astype(np.int32),
            draws_used=record.draws_used[runs].astype(np.int32),
            touched=hidden,
        )
        return states, given

    def _load(self, scenarios: list[Scenario]) -> State:
        states = [dataclasses.replace(self.env.load(scenario), key=None) for scenario in scenarios]
        keys = jax.random.split(jax.random.key(0), len(states))
        return dataclasses.replace(jax.tree.map(lambda *leaves: np.stack(leaves), *states), key=keys)

    def _play(self, states: State, points: np.ndarray, given: Given) -> Outcome:
        """Runs of any length, in pieces."""
        length = given.action.shape[1]
        steps = min(STEPS, length)
        assert length % steps == 0, f"a run must have a multiple of {steps} actions: got {length}"
        parts = []
        for first in range(0, length, steps):
            piece = jax.tree.map(lambda leaf, t=first: np.swapaxes(leaf[:, t : t + steps], 0, 1), given)
            states, outcome = self._scan(states, points, piece)
            parts.append(jax.tree.map(lambda leaf: np.swapaxes(leaf, 0, 1), outcome))
        return jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *parts)

    def _scan_actions(self, states: State, points: jax.Array, given: Given) -> tuple[State, Outcome]:
        step = jax.vmap(self._step)
        return jax.lax.scan(lambda states, given: step(states, points, given), states, given)

    def _step(self, state: State, points: jax.Array, given: Given) -> tuple[State, Outcome]:
        told = dataclasses.replace(
            state, body=given.body, target=given.target, draws_used=given.draws_used, touched=given.touched
        )
        state = jax.tree.map(functools.partial(jnp.where, given.follow), told, state)
        body = state.body
        piloted = steer_to_target(jnp, points, body.x, body.y, body.steer, state.target)
        action = jnp.where(given.piloted, piloted, given.action)
        state, reward, touched = rules.advance(
            state,
            self.env.control(action),
            substeps=self.env.options.substeps,
            floating_objects=self.env.options.good_visibility,
        )
        body = state.body
        return state, Outcome(jnp.stack([body.x, body.y, body.steer]), touched, reward, state.target)


def to_body(states: np.ndarray) -> Body:
    """The reference's (..., 10) positions and velocities; the roll angle is not kept."""
    fields = np.moveaxis(states.astype(np.float32), -1, 0)
    return Body(*fields[:4], *fields[5:])


# One action from the same state.


def action_errors(record: Record, outcome: Outcome) -> tuple[np.ndarray, np.ndarray]:
    """(R, S) metres and radians between the engines after each action."""
    apart = outcome.place - record.after[..., [0, 1, 3]]
    return np.hypot(apart[..., 0], apart[..., 1]), np.abs(apart[..., 2])


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


@dataclasses.dataclass(frozen=True)
class Touches:
    """Actions that began out of an object's reach and touched it in either engine."""

    count: int
    apart: np.ndarray  # (D, 3) run, action and object where only one engine saw a touch


def compare_touches(record: Record, outcome: Outcome) -> Touches:
    """Arrivals alone: who is inside an object already cannot miss it."""
    ours, theirs = (touched & ~record.inside for touched in (outcome.touched, record.touched))
    return Touches(int((ours | theirs).sum()), np.argwhere(ours != theirs))


def gaps(job: Job, record: Record, apart: np.ndarray) -> list[float]:
    """How narrowly MuJoCo decided where the engines differ, in metres; negative is a touch."""
    scenarios = draw_scenarios(job)
    options = Options(good_visibility=job.good_visibility)
    engine, found = Witness(parse_task(job.task).grid, options), []
    for run, t, index in apart:
        engine.reset(scenarios[run])
        control = ACTIONS[record.actions[run, t]]
        geoms = _HEAD if job.good_visibility else _SHELL
        found.append(engine.nearest(record.before[run, t], control, int(index), geoms))
    engine.close()
    return found


# Whole walks and episodes.


def reference_places(record: Record) -> np.ndarray:
    """(R, S + 1, 2) metres."""
    return np.concatenate([record.before[:, :1, :2], record.after[:, :, :2]], axis=1)


def own_places(record: Record, outcome: Outcome) -> np.ndarray:
    """The same of the JAX engine on its own."""
    return np.concatenate([record.before[:, :1, :2], outcome.place[..., :2]], axis=1)


def path_lengths(places: np.ndarray) -> np.ndarray:
    """(R,) metres."""
    return np.hypot(*np.moveaxis(np.diff(places, axis=1), -1, 0)).sum(axis=1)


def cells_visited(places: np.ndarray, task: Task) -> np.ndarray:
    """(R,) how many different cells."""
    cells = np.floor(to_cells(places, task.size)).astype(int)
    return np.array([len(np.unique(run, axis=0)) for run in cells])


def steps_between_rewards(rewards: np.ndarray) -> np.ndarray:
    """How many actions each object took to be found, in all runs."""
    return np.concatenate([np.diff(np.flatnonzero(run), prepend=-1) for run in rewards])


def ratio_of_means(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, float]:
    """Of paired values, with its standard error."""
    ratio = ours.mean() / theirs.mean()
    error = (ours - ratio * theirs).std(ddof=1) / np.sqrt(len(ours)) / theirs.mean()
    return float(ratio), float(error)


def describe_both(ours: np.ndarray, theirs: np.ndarray, *, paired: bool = True) -> dict[str, Any]:
    """Means, deciles, and the 95 % interval of the difference of the means."""
    variance = (
        (ours - theirs).var() / len(ours) if paired else ours.var() / len(ours) + theirs.var() / len(theirs)
    )
    difference, margin = ours.mean() - theirs.mean(), 1.96 * np.sqrt(variance)
    return {
        "jax": float(ours.mean()),
        "mujoco": float(theirs.mean()),
        "difference_95": [float(difference - margin), float(difference + margin)],
        "deciles_1_5_9_jax": np.percentile(ours, [10, 50, 90]).tolist(),
        "deciles_1_5_9_mujoco": np.percentile(theirs, [10, 50, 90]).tolist(),
    }


# Pictures.


def choose_scenes(
    jobs: list[Job], records: list[Record], count: int, seed: int
) -> list[tuple[Scenario, np.ndarray]]:
    """States along walks, each in another maze: a third at walls, a third near objects, a third anywhere."""
    rng = np.random.RandomState(seed)
    scenes = []
    for index in range(count):
        job, record = jobs[index % len(jobs)], records[index % len(jobs)]
        run = index // len(jobs) % job.runs
        scenario = draw_scenarios(dataclasses.replace(job, first=job.first + run, runs=1))[0]
        objects = np.array([cell_to_world(cell, scenario.grid) for cell in scenario.objects])
        places = record.after[run, :, :2]
        away = np.linalg.norm(places[:, None] - objects, axis=-1).min(axis=1)
        wanted = (record.wall[run], away < away.min() + 1.0, np.ones(len(away), bool))[index // len(jobs) % 3]
        candidates = np.flatnonzero(wanted) if wanted.any() else np.arange(len(away))
        scenes.append((scenario, record.after[run, rng.choice(candidates)]))
    return scenes


def draw_reference(task: Task, options: Options, scenes: list[tuple[Scenario, np.ndarray]]) -> np.ndarray:
    """The reference's pictures without border."""
    engine, images = Witness(task.grid, options), []
    for scenario, state in scenes:
        engine.reset(dataclasses.replace(scenario, hidden=()))
        engine.place(state)
        images.append(engine.image())
    engine.close()
    return np.stack(images)


def psnr(images: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """(B,) decibels of (B, R, R, 3) pictures; 99 for equal ones."""
    error = ((images.astype(float) - expected) ** 2).mean(axis=(-3, -2, -1))
    return np.where(error == 0, 99.0, 10 * np.log10(255**2 / np.maximum(error, 1e-9)))
