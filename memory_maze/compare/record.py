"""What the reference does: walks recorded in MuJoCo by worker processes, for the JAX engine to repeat.

    python -m memory_maze.compare.record '{"task": "9x9", "policy": "random", ...}'

Workers import no JAX, so that they start at once and leave its threads alone.
"""

import concurrent.futures
import dataclasses
import io
import json
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from memory_maze.options import ACTIONS, Options
from memory_maze.reference import mujoco  # which says how to install it
from memory_maze.reference.engine import MujocoEngine
from memory_maze.sampler import Sampler
from memory_maze.scenario import WALL, Scenario, layout_of
from memory_maze.system.cpu import num_cores
from memory_maze.tasks import parse_task
from memory_maze.world import BALL_RADIUS, CELL_METRES, cell_to_world, to_cells

# Uniform noise; mostly forward, held for a while; to the target; from all around objects, one action each.
POLICIES = ("random", "forward", "pilot", "near")
_FORWARD = (0.02, 0.6, 0.06, 0.06, 0.13, 0.13)
_PILOT_NOISE = 0.1
_START_METRES = {False: (0.78, 1.2), True: (0.4, 0.9)}  # from an object: on the floor, floating
_START_RADIANS = 1.0  # at most off the straight way to it: some pass by, at any distance


@dataclasses.dataclass(frozen=True)
class Job:
    """Some runs of one policy, each in a maze of its own."""

    task: str
    policy: str
    seed: int
    first: int
    """Number of the first run: run n of a seed is always the same."""
    runs: int
    steps: int
    good_visibility: bool = False


@dataclasses.dataclass(frozen=True)
class Record:
    """R runs of S actions among T objects, as MuJoCo had them."""

    actions: np.ndarray  # (R, S) int8
    piloted: np.ndarray  # (R, S) bool: chosen by `steer_to_target`
    before: np.ndarray  # (R, S, 10): x, y, z (m), steer and roll (rad), and their rates
    after: np.ndarray  # (R, S, 10)
    wall: np.ndarray  # (R, S) bool: the ball was at a wall in any substep
    inside: np.ndarray  # (R, S, T) bool: objects that it was touching before
    touched: np.ndarray  # (R, S, T) bool: at the end of any substep
    target: np.ndarray  # (R, S) int8: asked for before
    draws_used: np.ndarray  # (R, S) int16: before
    reward: np.ndarray  # (R, S) float32

    def __post_init__(self) -> None:
        assert self.before.shape == (*self.actions.shape, 10), self.before.shape


class Witness(MujocoEngine):
    """The reference, which can be placed anywhere and tells what the last action met."""

    def reset(self, scenario: Scenario) -> None:
        super().reset(scenario)
        self._object = {geom: index for index, geom in enumerate(self._target_geoms)}
        self._ground = self._model.geom("ground").id
        self.wall, self.met, self.inside = False, set[int](), set[int]()

    def place(self, state: np.ndarray) -> None:
        """Takes over (10,) positions and velocities."""
        mujoco.mj_resetData(self._model, self._data)
        self._data.qpos[:], self._data.qvel[:] = state[:5], state[5:]
        mujoco.mj_step1(self._model, self._data)
        self.inside = self._see()[1]

    def nearest(self, state: np.ndarray, control: np.ndarray, index: int, geoms: tuple[str, ...]) -> float:
        """The smallest gap to an object, in metres, at the ends of the substeps of one action."""
        self.place(state)
        self._data.ctrl[:] = control
        parts = [self._model.geom(name).id for name in geoms]
        gaps = []
        for _ in range(self._options.substeps):
            mujoco.mj_step2(self._model, self._data)
            mujoco.mj_step1(self._model, self._data)
            for part in parts:
                other = self._target_geoms[index]
                gaps.append(mujoco.mj_geomDistance(self._model, self._data, part, other, 2.0, None))
        return min(gaps)

    def _advance(self, substeps: int) -> None:
        """As in the reference, but with a look at the contacts of every substep."""
        self.wall, self.met = False, set()
        for _ in range(substeps):
            mujoco.mj_step2(self._model, self._data)
            mujoco.mj_step1(self._model, self._data)
            wall, self.inside = self._see()
            self.wall |= wall
            self.met |= self.inside
        self._touched |= self.met

    def _see(self) -> tuple[bool, set[int]]:
        """Whether a wall is touched now, and which objects."""
        wall, objects = False, set()
        if self._data.ncon == (self._data.qpos[2] < 0):  # the ground at most: quick to tell
            return wall, objects
        for pair in self._data.contact.geom.tolist():
            if self._ground not in pair:
                touched = {self._object[geom] for geom in pair if geom in self._object}
                objects |= touched
                wall |= not touched
        return wall, objects


def draw_run(job: Job, run: int) -> tuple[Scenario, np.random.RandomState]:
    """The maze of a run, and what its actions are drawn from."""
    task, policy = parse_task(job.task), POLICIES.index(job.policy)
    entropy = [job.seed, task.size, policy, int(job.good_visibility), run]
    maze_seed, action_seed = np.random.SeedSequence(entropy).generate_state(2)
    sampler = Sampler(task, int(maze_seed), objects_on_floor=not job.good_visibility)
    return sampler.sample(), np.random.RandomState(action_seed)


def draw_scenarios(job: Job) -> list[Scenario]:
    """The mazes of all runs."""
    return [draw_run(job, run)[0] for run in range(job.first, job.first + job.runs)]


def draw_actions(rng: np.random.RandomState, steps: int, policy: str) -> np.ndarray:
    """(steps,) actions of a policy; those of the pilot are its noise."""
    if policy in ("forward", "near"):
        return np.fromiter(_hold(rng), np.int8, steps)
    return rng.randint(6, size=steps).astype(np.int8)


def _hold(rng: np.random.RandomState) -> Iterator[int]:
    """Each for one to four steps."""
    while True:
        yield from [int(rng.choice(6, p=_FORWARD))] * rng.randint(1, 5)


def record(job: Job) -> Record:
    """Plays the runs of a job."""
    task = parse_task(job.task)
    engine = Witness(task.grid, Options(good_visibility=job.good_visibility))
    rows = []
    for run in range(job.first, job.first + job.runs):
        scenario, rng = draw_run(job, run)
        engine.reset(scenario)
        places = _places_near(engine, rng, job) if job.policy == "near" else None
        actions = draw_actions(rng, job.steps, job.policy)
        piloted = (job.policy == "pilot") & (rng.uniform(size=job.steps) > _PILOT_NOISE)
        rows.append(_play(engine, actions, piloted, places))
    engine.close()
    return Record(*(np.array(column) for column in zip(*rows, strict=True)))


def _play(
    engine: Witness, actions: np.ndarray, piloted: np.ndarray, places: list[np.ndarray] | None
) -> tuple[np.ndarray, ...]:
    """One run, as the fields of a record."""
    points, actions = plan(engine.scenario), actions.copy()
    rows = []
    for t in range(len(actions)):
        if places is not None:
            engine.place(places[t])
        before = np.concatenate(engine.state)
        inside, target, draws_used = _flags(engine, engine.inside), engine.target, engine.draws_used
        if piloted[t]:
            actions[t] = steer_to_target(np, points, before[0], before[1], before[3], target)
        reward = engine.step(ACTIONS[actions[t]])
        after, met = np.concatenate(engine.state), _flags(engine, engine.met)
        rows.append((before, after, engine.wall, inside, met, target, draws_used, reward))
    types = (float, float, bool, bool, bool, np.int8, np.int16, np.float32)
    columns = zip(*rows, strict=True)
    return actions, piloted, *(np.array(column, kind) for column, kind in zip(columns, types, strict=True))


def _flags(engine: Witness, objects: set[int]) -> np.ndarray:
    return np.isin(np.arange(len(engine.scenario.objects)), list(objects))


def _places_near(engine: Witness, rng: np.random.RandomState, job: Job) -> list[np.ndarray]:
    """States around objects, just out of reach, that move as in a walk through the same maze."""
    scenario, walked = engine.scenario, []
    for action in draw_actions(rng, 40, "forward"):
        engine.step(ACTIONS[action])
        walked.append(np.concatenate(engine.state))
    centres = [cell_to_world(cell, scenario.grid) for cell in scenario.objects]
    places = []
    while len(places) < job.steps:
        state = walked[rng.randint(len(walked))].copy()
        angle, distance = rng.uniform(-np.pi, np.pi), rng.uniform(*_START_METRES[job.good_visibility])
        centre = np.array(centres[rng.randint(len(centres))])
        state[:2] = centre + distance * np.array([np.cos(angle), np.sin(angle)])
        if wall_distance(state[:2], scenario) > BALL_RADIUS:
            heading = angle + np.pi + rng.uniform(-_START_RADIANS, _START_RADIANS)
            places.append(_turn(state, -heading))
    engine.reset(scenario)
    return places


def _turn(state: np.ndarray, steer: float) -> np.ndarray:
    """The same motion with another heading."""
    angle = state[3] - steer
    cos, sin = np.cos(angle), np.sin(angle)
    vx, vy = state[5:7]
    state[3], state[5], state[6] = steer, cos * vx - sin * vy, sin * vx + cos * vy
    return state


def plan(scenario: Scenario) -> np.ndarray:
    """(T, N, N, 2) metres: where to head for from each cell [y, x] to reach each object."""
    layout = layout_of(scenario)
    size = len(layout)
    points = np.zeros((len(scenario.objects), size, size, 2), np.float32)
    for index, cell in enumerate(scenario.objects):
        place = cell_to_world(cell, scenario.grid)
        x, y = (int(to_cells(value, size)) for value in place)
        points[index, y, x] = place
        queue, seen = deque([(x, y)]), {(x, y)}
        while queue:
            x, y = queue.popleft()
            for column, row in ((x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)):
                inside = 0 <= column < size and 0 <= row < size
                if inside and layout[row, column] and (column, row) not in seen:
                    points[index, row, column] = CELL_METRES * (np.array([x, y]) - (size - 1) / 2)
                    seen.add((column, row))
                    queue.append((column, row))
    return points


def steer_to_target(xp: Any, points: Any, x: Any, y: Any, steer: Any, target: Any) -> Any:
    """An action that follows the plan: turn if the next cell is off to the side, else go."""
    size = points.shape[1]
    column, row = (xp.clip(xp.floor(to_cells(v, size)), 0, size - 1).astype(int) for v in (x, y))
    goal = points[target, row, column]
    dx, dy, cos, sin = goal[0] - x, goal[1] - y, xp.cos(steer), -xp.sin(steer)
    angle = xp.arctan2(cos * dy - sin * dx, cos * dx + sin * dy)
    curve = xp.where(xp.abs(angle) < 0.2, 1, xp.where(angle > 0, 4, 5))
    return xp.where(xp.abs(angle) > 0.4, xp.where(angle > 0, 2, 3), curve)


def wall_distance(place: np.ndarray, scenario: Scenario) -> float:
    """From a place to the nearest wall, in metres."""
    cells = np.argwhere(np.array([list(row) for row in scenario.walls]) == WALL)
    middle = (scenario.grid - 1) / 2
    centres = np.stack([cells[:, 1] - middle, middle - cells[:, 0]], axis=1) * CELL_METRES
    outside = np.maximum(np.abs(place - centres) - CELL_METRES / 2, 0)
    return float(np.sqrt((outside**2).sum(axis=1)).min())


# Worker processes.


def split_job(job: Job, actions: int = 5000) -> list[Job]:
    """Pieces of about so many actions, a few seconds each."""
    runs = max(1, actions // job.steps)
    starts = range(job.first, job.first + job.runs, runs)
    end = job.first + job.runs
    return [dataclasses.replace(job, first=start, runs=min(runs, end - start)) for start in starts]


def record_all(jobs: list[Job], tick=lambda actions: None) -> Iterator[Record]:
    """Records each job, all of them in as many processes as there are cores, and yields in order."""
    pieces = [split_job(job) for job in jobs]
    pool = concurrent.futures.ThreadPoolExecutor(num_cores())
    try:
        futures = [[pool.submit(_run_worker, piece, tick) for piece in row] for row in pieces]
        while futures:
            parts = [future.result() for future in futures.pop(0)]
            columns = zip(*(vars(part).values() for part in parts), strict=True)
            yield Record(*(np.concatenate(column) for column in columns))
    finally:
        pool.shutdown(cancel_futures=True)


def _run_worker(job: Job, tick) -> Record:
    command = [sys.executable, "-m", "memory_maze.compare.record", json.dumps(dataclasses.asdict(job))]
    result = subprocess.run(command, capture_output=True)
    if result.returncode != 0:
        reason = result.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise RuntimeError(f"recording {job} in MuJoCo failed: {reason[-1]}")
    tick(job.runs * job.steps)
    with np.load(io.BytesIO(result.stdout)) as arrays:
        return Record(**arrays)


if __name__ == "__main__":
    message = io.BytesIO()
    np.savez(message, **vars(record(Job(**json.loads(sys.argv[1])))))
    sys.stdout.buffer.write(message.getvalue())
