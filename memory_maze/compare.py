"""Both engines side by side on the same scenarios and actions: how far apart are they?"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from memory_maze.engine.single import JaxEngine
from memory_maze.observation import Observer, shortest_path
from memory_maze.options import ACTIONS, Options
from memory_maze.reference.engine import MujocoEngine
from memory_maze.sampler import Sampler
from memory_maze.scenario import WALL, Scenario
from memory_maze.tasks import Task

# Uniform noise, and a walk that mostly goes forward; each action of the latter is held for a while.
POLICIES = {"random": (1 / 6,) * 6, "forward": (0.02, 0.6, 0.06, 0.06, 0.13, 0.13)}
CONTACT_DISTANCE = 0.2  # the ball's radius


@dataclasses.dataclass
class Comparison:
    """Errors of the JAX engine against the reference."""

    psnr: list[float] = dataclasses.field(default_factory=list)
    """Of each picture, in dB."""
    free_metres: list[float] = dataclasses.field(default_factory=list)
    """After one action from the same state, away from walls."""
    free_radians: list[float] = dataclasses.field(default_factory=list)
    wall_metres: list[float] = dataclasses.field(default_factory=list)
    """The same at walls."""
    wall_radians: list[float] = dataclasses.field(default_factory=list)
    touches: int = 0
    """Actions that ended a while at an object in either engine."""
    touches_apart: int = 0
    """Those of them in which only one engine saw a touch."""
    pictures: list[tuple[np.ndarray, np.ndarray]] = dataclasses.field(default_factory=list)
    """Some pairs: of the JAX engine, of the reference."""

    def summary(self) -> dict[str, Any]:
        """The figures that are judged."""
        return {
            "pictures": len(self.psnr),
            "psnr_mean": float(np.mean(self.psnr)),
            "psnr_min": float(np.min(self.psnr)),
            "actions_free": len(self.free_metres),
            "free_rms_metres": _rms(self.free_metres),
            "free_rms_radians": _rms(self.free_radians),
            "actions_at_walls": len(self.wall_metres),
            "wall_rms_metres": _rms(self.wall_metres),
            "wall_rms_radians": _rms(self.wall_radians),
            "touches": self.touches,
            "touches_apart": self.touches_apart,
        }


def compare_states(
    task: Task,
    options: Options,
    *,
    episodes: int,
    steps: int,
    seed: int,
    picture_every: int = 5,
    tick: Callable[[], None] = lambda: None,
) -> Comparison:
    """Walks the reference; before each action the JAX engine takes over its state and does the same."""
    result = Comparison()
    reference, engine = MujocoEngine(task.grid, options), JaxEngine(options)
    rng = np.random.RandomState(seed)
    sampler = Sampler(task, seed, objects_on_floor=not options.good_visibility)
    for episode in range(episodes):
        scenario = sampler.sample()
        for player in (reference, engine):
            player.reset(scenario)
        actions = walk_actions(rng, steps, list(POLICIES)[episode % 2])
        for t, action in enumerate(actions):
            engine.place(*reference.state)
            if t % picture_every == 0:
                result.psnr.append(psnr(engine.image(), reference.image()))
                if t == 0 or len(result.pictures) < 6:
                    result.pictures.append((engine.image(), reference.image()))
            if episode % 4 == 3:  # towards the target, so that objects are touched
                action = steer_to_target(scenario, reference)
            _compare_action(result, scenario, reference, engine, ACTIONS[action])
            tick()
    reference.close()
    return result


def _compare_action(
    result: Comparison, scenario: Scenario, reference: MujocoEngine, engine: JaxEngine, control: np.ndarray
) -> None:
    before = reference.state[0]
    wanted = reference.target
    rewards = [player.step(control) for player in (reference, engine)]
    result.touches += any(rewards)
    result.touches_apart += rewards[0] != rewards[1]
    if rewards[0] != rewards[1] or engine.target != reference.target:
        engine.follow(reference.target, reference.draws_used)
    assert reference.target == engine.target, wanted
    after, ours = reference.state[0], engine.state[0]
    way = np.linspace(before[:2], after[:2], 10)
    near = min(wall_distance(place, scenario) for place in way) < CONTACT_DISTANCE + 0.02
    metres = float(np.hypot(*(after - ours)[:2]))
    radians = float(abs(after[3] - ours[3]))
    (result.wall_metres if near else result.free_metres).append(metres)
    (result.wall_radians if near else result.free_radians).append(radians)


def path_lengths(task: Task, policy: str, *, runs: int, steps: int, seed: int) -> dict[str, np.ndarray]:
    """Metres walked in `steps` actions by each engine, for the same mazes and actions."""
    rng, sampler = np.random.RandomState(seed), Sampler(task, seed)
    scenarios = [sampler.sample() for _ in range(runs)]
    actions = np.stack([walk_actions(rng, steps, policy) for _ in range(runs)])
    reference = MujocoEngine(task.grid, Options())
    places = np.empty((runs, steps + 1, 2))
    for run, scenario in enumerate(scenarios):
        reference.reset(scenario)
        places[run, 0] = reference.position
        for t in range(steps):
            reference.step(ACTIONS[actions[run, t]])
            places[run, t + 1] = reference.position
    reference.close()
    return {"mujoco": _lengths(places), "jax": _lengths(_walk_batch(scenarios, actions))}


def _walk_batch(scenarios: list[Scenario], actions: np.ndarray) -> np.ndarray:
    """(runs, steps + 1, 2) places of the JAX engine, all runs at once."""
    import jax
    import jax.numpy as jnp

    from memory_maze.engine import motion
    from memory_maze.engine.env import begin_scenario

    states = [begin_scenario(scenario) for scenario in scenarios]
    bodies, mazes = (
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *[getattr(state, name) for state in states])
        for name in ("body", "maze")
    )

    def step(bodies, controls):
        bodies, _ = jax.vmap(motion.move)(bodies, controls, mazes)
        return bodies, jnp.stack([bodies.x, bodies.y], axis=-1)

    controls = jnp.asarray(ACTIONS, jnp.float32)[actions.T]
    _, places = jax.jit(lambda b, c: jax.lax.scan(step, b, c))(bodies, controls)
    start = np.stack([np.asarray(bodies.x), np.asarray(bodies.y)], axis=-1)
    return np.concatenate([start[:, None], np.asarray(places).swapaxes(0, 1)], axis=1)


def _lengths(places: np.ndarray) -> np.ndarray:
    return np.hypot(*np.moveaxis(np.diff(places, axis=1), -1, 0)).sum(axis=1)


def returns(task: Task, *, episodes: int, steps: int, seed: int) -> dict[str, np.ndarray]:
    """Objects found in `steps` by the same simple pilot in each engine, on the same mazes."""
    found: dict[str, list[float]] = {"mujoco": [], "jax": []}
    engines = {"mujoco": MujocoEngine(task.grid, Options()), "jax": JaxEngine(Options())}
    sampler = Sampler(task, seed)
    for _ in range(episodes):
        scenario = sampler.sample()
        for name, engine in engines.items():
            engine.reset(scenario)
            rewards = [engine.step(ACTIONS[steer_to_target(scenario, engine)]) for _ in range(steps)]
            found[name].append(sum(rewards))
    engines["mujoco"].close()
    return {name: np.array(values) for name, values in found.items()}


def walk_actions(rng: np.random.RandomState, steps: int, policy: str) -> np.ndarray:
    """(steps,) actions; those of the forward policy are held for one to four steps."""
    if policy == "random":
        return rng.randint(6, size=steps)
    return np.fromiter(_held_actions(rng, POLICIES[policy]), int, steps)


def _held_actions(rng: np.random.RandomState, probabilities: tuple[float, ...]) -> Iterator[int]:
    while True:
        yield from [int(rng.choice(6, p=probabilities))] * rng.randint(1, 5)


def steer_to_target(scenario: Scenario, engine: Any) -> int:
    """Along the shortest path: turn if the next cell is off to the side, else go."""
    view = Observer(scenario).observe(engine.position, engine.axes, engine.target)
    here, goal = view["agent_pos"], view["target_pos"]
    path = shortest_path(view["maze_layout"], (int(here[0]), int(here[1])), (int(goal[0]), int(goal[1])))
    towards = np.array(path[min(1, len(path) - 1)]) + 0.5 - here
    forward = view["agent_dir"]
    angle = np.arctan2(forward[0] * towards[1] - forward[1] * towards[0], forward @ towards)
    if abs(angle) > 0.4:
        return 2 if angle > 0 else 3
    return 1 if abs(angle) < 0.2 else (4 if angle > 0 else 5)


def wall_distance(place: np.ndarray, scenario: Scenario) -> float:
    """From a place to the nearest wall, in metres."""
    cells = np.argwhere(np.array([list(row) for row in scenario.walls]) == WALL)
    middle = (scenario.grid - 1) / 2
    centres = np.stack([cells[:, 1] - middle, middle - cells[:, 0]], axis=1) * 2.0
    outside = np.maximum(np.abs(place - centres) - 1.0, 0)
    return float(np.sqrt((outside**2).sum(axis=1)).min())


def psnr(image: np.ndarray, expected: np.ndarray) -> float:
    """Peak signal-to-noise ratio in dB; 99 for equal pictures."""
    error = ((image.astype(float) - expected) ** 2).mean()
    return 99.0 if error == 0 else float(10 * np.log10(255**2 / error))


def _rms(values: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if values else 0.0
