"""The engine's dynamics against MuJoCo: controls, walks, touched objects; and every way to batch."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

from memory_maze import TASKS, Sampler, Scenario
from memory_maze.adapters.simulation import ACTIONS
from memory_maze.engine.physics import motion
from memory_maze.engine.physics.contact import Accuracy
from memory_maze.engine.physics.motion import move
from memory_maze.engine.types import Body, Maze
from memory_maze.options import Options
from memory_maze.reference.engine import make_look
from memory_maze.reference.model import build_maze
from memory_maze.scenario import WALL
from memory_maze.world import cell_to_world

pytestmark = pytest.mark.exact

# Most tests have this many lanes, mazes of this size and this many objects: the program is compiled once.
LANES, SIZE, OBJECTS = 64, 15, 6
STEPS = 100
POLICIES = {"random": ([1 / 6] * 6, 1), "forward": ([0.02, 0.6, 0.06, 0.06, 0.13, 0.13], 4)}
CONTROLS = np.array(ACTIONS, np.float32)
# Enough to see which program runs, and quick to compile.
ROUGH = Accuracy(ground_roots=1, newton_steps=1, sweeps=2, first_roots=1, later_roots=1)

ROOM = """
#################
#               #
#               #
#   r     g     #
#               #
#               #
#               #
#   b           #
#       >       #
#               #
#               #
#               #
#               #
#          y    #
#               #
#               #
#################
"""


class Judge:
    """A maze in MuJoCo, with the contacts at the end of each substep."""

    def __init__(self, scenario: Scenario, options: Options, objects: bool = True) -> None:
        self.model = mujoco.MjModel.from_xml_string(build_maze(scenario, make_look(options)).xml)
        self.data = mujoco.MjData(self.model)
        targets = [self.model.geom(f"target{i}").id for i in range(len(scenario.objects))]
        self._object = {geom: index for index, geom in enumerate(targets)}
        if not objects:  # nothing is pushed by them: only faster
            self.model.geom_contype[targets] = self.model.geom_conaffinity[targets] = 0
        self._ground = self.model.geom("ground").id
        self.place(cell_to_world(scenario.spawns[0], scenario.grid), scenario.heading or 0.0)

    def place(self, position: tuple[float, float], heading: float) -> None:
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:2], self.data.qpos[3] = position, -heading
        mujoco.mj_step1(self.model, self.data)

    @property
    def state(self) -> np.ndarray:
        """(9,): the fields of a body."""
        return np.concatenate([self.data.qpos[:4], self.data.qvel])

    def step(self, control: np.ndarray) -> tuple[bool, set[int]]:
        """Whether a wall was touched, and which objects."""
        self.data.ctrl[:] = control
        wall, touched = False, set()
        for _ in range(50):
            mujoco.mj_step2(self.model, self.data)
            mujoco.mj_step1(self.model, self.data)
            if self.data.ncon:
                for one, two in self.data.contact.geom.tolist():
                    other = self._object.get(one, self._object.get(two))
                    wall |= other is None and self._ground not in (one, two)
                    touched |= {other} - {None}
        return wall, touched


@dataclasses.dataclass
class Walks:
    """Episodes in MuJoCo, a lane each."""

    maze: Maze
    controls: np.ndarray  # (STEPS, LANES, 2)
    states: np.ndarray  # (STEPS + 1, LANES, 9)
    wall: np.ndarray  # (STEPS, LANES) bool


def encode(scenarios: list[Scenario]) -> Maze:
    """Mazes in the middle of SIZE x SIZE, all around is wall; objects that are missing are far away."""
    walls = np.full((len(scenarios), SIZE), 2**SIZE - 1, np.uint32)
    objects = np.full((len(scenarios), OBJECTS, 2), 1000.0, np.float32)
    for lane, scenario in enumerate(scenarios):
        margin = (SIZE - scenario.size) // 2
        for r, row in enumerate(scenario.walls[-2:0:-1]):
            for c, char in enumerate(row[1:-1]):
                if char != WALL:
                    walls[lane, margin + r] &= ~np.uint32(1 << (margin + c))
        for i, cell in enumerate(scenario.objects):
            objects[lane, i] = cell_to_world(cell, scenario.grid)
    count = len(scenarios)
    return Maze(
        walls=jnp.asarray(walls),
        rooms=jnp.zeros_like(walls),
        textures=jnp.zeros((count, 9), jnp.int32),
        objects=jnp.asarray(objects),
        colors=jnp.zeros((count, OBJECTS), jnp.int32),
    )


def to_body(states: np.ndarray) -> Body:
    return Body(*jnp.asarray(states, jnp.float32).T)


def to_states(body: Body) -> np.ndarray:
    return np.stack([np.asarray(getattr(body, field.name)) for field in dataclasses.fields(Body)], axis=-1)


@functools.cache
def compiled(floating_objects: bool):
    return jax.jit(jax.vmap(functools.partial(move, floating_objects=floating_objects)))


@pytest.fixture(scope="module")
def walks() -> Walks:
    return walk_in_mujoco(LANES)


def walk_in_mujoco(lanes: int) -> Walks:
    rng = np.random.RandomState(0)
    scenarios, controls, states, wall = [], [], [], []
    for lane in range(lanes):
        task, policy = ("9x9", "15x15")[lane % 2], tuple(POLICIES)[lane // 2 % 2]
        probabilities, longest = POLICIES[policy]
        actions = []
        while len(actions) < STEPS:
            actions += [rng.choice(6, p=probabilities)] * rng.randint(1, longest + 1)
        scenario = Sampler(TASKS[task], lane).sample()
        judge = Judge(scenario, Options(), objects=False)
        path, touches = [judge.state], []
        for action in actions[:STEPS]:
            touches.append(judge.step(CONTROLS[action])[0])
            path.append(judge.state)
        scenarios.append(scenario)
        controls.append(CONTROLS[actions[:STEPS]])
        states.append(path)
        wall.append(touches)
    swap = functools.partial(np.swapaxes, axis1=0, axis2=1)
    return Walks(encode(scenarios), swap(controls), swap(states), swap(wall))


def test_one_control_from_the_same_state(walks):
    """Free 1e-4 m and 1e-5 rad, at walls 4e-4 m and 2e-3 rad, where MuJoCo itself is hardly continuous."""
    errors = np.array(
        [
            to_states(compiled(False)(to_body(before), control, walks.maze)[0]) - after
            for before, control, after in zip(walks.states, walks.controls, walks.states[1:], strict=False)
        ]
    )
    moved = np.linalg.norm((walks.states[1:] + errors - walks.states[:-1])[..., :2], axis=-1)
    assert moved.sum() == pytest.approx(lengths(walks.states).sum(), rel=2e-3)
    distance, angle = np.hypot(errors[..., 0], errors[..., 1]), np.abs(errors[..., 3])
    assert 0.3 < walks.wall.mean() < 0.8
    for name, chosen, metres, radians in (
        ("free", ~walks.wall, 3e-4, 1e-4),
        ("wall", walks.wall, 2e-3, 5e-3),
    ):
        print(f"{name}: {rms(distance[chosen]):.1e} m, {rms(angle[chosen]):.1e} rad, {chosen.sum()} controls")
        assert rms(distance[chosen]) < metres
        assert rms(angle[chosen]) < radians
        assert np.median(distance[chosen]) < 1e-5


def rms(values: np.ndarray) -> float:
    return math.sqrt(np.mean(values**2))


def test_walks_have_the_same_length(walks):
    """Each walk leaves MuJoCo's sooner or later, as MuJoCo's own does after a change of 1e-6 m."""
    ratio, error = compare_lengths(walks)
    assert abs(ratio - 1) < 3 * error


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_many_walks_have_the_same_length():
    ratio, error = compare_lengths(walk_in_mujoco(1024))
    assert error < 0.01
    assert abs(ratio - 1) < 0.02


def compare_lengths(walks: Walks) -> tuple[float, float]:
    """Mean length of the same walks here over that in MuJoCo, and its standard error."""
    body = to_body(walks.states[0])
    path = [to_states(body)]
    for control in walks.controls:
        body, _ = compiled(False)(body, control, walks.maze)
        path.append(to_states(body))
    ours, theirs = lengths(np.array(path)).sum(axis=0), lengths(walks.states).sum(axis=0)
    ratio, error = ours.mean() / theirs.mean(), (ours - theirs).std() / theirs.mean() / math.sqrt(len(ours))
    print(f"{ours.mean():.3f} m, in MuJoCo {theirs.mean():.3f} m: {ratio:.4f} +- {error:.4f}")
    assert np.isfinite(path).all()
    return ratio, error


def lengths(states: np.ndarray) -> np.ndarray:
    return np.linalg.norm(np.diff(states[..., :2], axis=0), axis=-1)


@pytest.mark.parametrize(
    ("action", "metres", "radians"),
    [
        (1, [0.2215, 0.4376, 0.4860, 0.4966, 0.4989], [0] * 5),
        (3, [0] * 5, [0.2462, 0.3198, 0.3209, 0.3211, 0.3210]),
        (5, [0.1865, 0.3847, 0.4573, 0.4829, 0.4917], [0.2541, 0.3195, 0.3186, 0.3182, 0.3181]),
    ],
)
def test_speeds(action, metres, radians):
    """The published distances per control from rest, and the short way to a stop."""
    maze = encode([Scenario.from_text(ROOM)] * LANES)
    body = to_body(np.zeros((LANES, 9)))
    path = [to_states(body)[0]]
    for control in [CONTROLS[action]] * 5 + [CONTROLS[0]] * 6:
        body, _ = compiled(False)(body, np.tile(control, (LANES, 1)), maze)
        path.append(to_states(body)[0])
    moves = np.diff(np.array(path), axis=0)
    np.testing.assert_allclose(np.hypot(moves[:5, 0], moves[:5, 1]), metres, atol=2e-3)
    np.testing.assert_allclose(moves[:5, 3], radians, atol=2e-3)
    assert np.abs(moves[-1]).max() < 1e-2
    assert path[-1][2] == pytest.approx(-0.000367, abs=5e-6)


@pytest.mark.parametrize("floating_objects", [False, True])
def test_touched_objects(floating_objects):
    """Balls that start around objects and drive in all directions touch what they touch in MuJoCo."""
    rng = np.random.RandomState(1)
    scenario = Scenario.from_text(ROOM, textures=("blue",) * 9, draws=(0,))
    judge = Judge(scenario, Options(good_visibility=floating_objects))
    maze = encode([scenario] * LANES)
    reach = 0.42 if floating_objects else 0.7746  # about, and exactly
    starts, controls, states, expected = [], [], [], []
    for lane in range(LANES):
        x, y = cell_to_world(scenario.objects[lane % len(scenario.objects)], scenario.grid)
        direction, distance = rng.uniform(-math.pi, math.pi), rng.uniform(0.4, 1.6) * reach
        position = (x + distance * math.cos(direction), y + distance * math.sin(direction))
        judge.place(position, rng.uniform(-math.pi, math.pi))
        judge.step(CONTROLS[rng.randint(6)])
        starts.append(judge.state)
        controls.append(CONTROLS[rng.randint(6)])
        touched = judge.step(controls[-1])[1]
        states.append(judge.state)
        expected.append([i in touched for i in range(OBJECTS)])
    body, touched = compiled(floating_objects)(to_body(np.array(starts)), np.array(controls), maze)
    np.testing.assert_allclose(to_states(body)[:, :4], np.array(states)[:, :4], atol=5e-3)
    assert LANES / 5 < np.sum(expected) < LANES * 4 / 5
    np.testing.assert_array_equal(touched, expected)


def test_who_turns_for_ever_keeps_the_speed(walks):
    """The heading is the same as of one who has turned less, and angles stay small enough for float32."""
    starts = np.zeros((LANES, 9))
    starts[:, 3] = np.linspace(-motion.WRAP - 20, motion.WRAP + 20, LANES)
    starts[-2:, 3] = 1e5, -1e6
    fresh = starts.copy()
    fresh[:, 3] = np.float32(starts[:, 3]).astype(float) % (2 * math.pi)
    angles = []
    for states in (starts, fresh):
        body, path = to_body(states), []
        for _ in range(6):
            body, _ = compiled(False)(body, np.tile(CONTROLS[3], (LANES, 1)), walks.maze)
            path.append(np.asarray(body.steer, float))
        angles.append(np.array(path))
    assert np.abs(angles[0]).max() <= motion.WRAP
    turned = [np.angle(np.exp(1j * np.diff(path, axis=0))) for path in angles]
    np.testing.assert_allclose(*turned, atol=2e-4)
    apart = np.angle(np.exp(1j * (angles[0] - angles[1])))
    assert np.abs(apart[:, :-2]).max() < 1e-3


@pytest.mark.parametrize("size", [3, 31])
def test_outside_is_wall(size):
    """In an empty maze of any size the ball stops at all four sides."""
    free = Maze(
        walls=jnp.zeros(size, jnp.uint32),
        rooms=jnp.zeros(size, jnp.uint32),
        textures=jnp.zeros(9, jnp.int32),
        objects=jnp.zeros((1, 2)),
        colors=jnp.zeros(1, jnp.int32),
    )
    for heading in range(4):
        x, y = (round(f(heading * math.pi / 2)) * (size - 0.7) for f in (math.cos, math.sin))
        mask = motion._neighbourhood(
            free.walls, motion._cell(jnp.float32(y), size), motion._cell(jnp.float32(x), size)
        )
        bits = [int(mask) >> k & 1 for k in range(9)]
        side = {0: (2, 5, 8), 1: (6, 7, 8), 2: (0, 3, 6), 3: (0, 1, 2)}[heading]
        assert [k for k in range(9) if bits[k]] == list(side)


@pytest.fixture(scope="module")
def some(walks) -> tuple[Body, jax.Array, Maze]:
    """Four balls at walls."""
    step = STEPS // 2
    lanes = np.flatnonzero(walks.wall[step])[:4]
    pick = functools.partial(jax.tree.map, lambda leaf: jnp.asarray(leaf)[lanes])
    return to_body(walks.states[step, lanes]), jnp.asarray(walks.controls[step, lanes]), pick(walks.maze)


@pytest.fixture(scope="module")
def expected(some) -> tuple[Body, jax.Array]:
    return run_unoptimised(jax.vmap(roughly), some)


def roughly(body: Body, control: jax.Array, maze: Maze) -> tuple[Body, jax.Array]:
    return move(body, control, maze, accuracy=ROUGH, substeps=10)


def run_unoptimised(function, args):
    """Compiling takes longest here, and how fast the program is does not matter."""
    return jax.jit(function).lower(*args).compile({"xla_backend_optimization_level": 0})(*args)


def check_equal(results: tuple[Body, jax.Array], expected: tuple[Body, jax.Array]) -> None:
    np.testing.assert_allclose(to_states(results[0]), to_states(expected[0]), rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(results[1], expected[1])


def test_one_by_one_in_a_scan(some, expected):
    def scan(*args):
        return jax.lax.scan(lambda _, row: (0, roughly(*row)), 0, args)[1]

    check_equal(run_unoptimised(scan, some), expected)


def test_nested_vmap_in_a_shard_map(some, expected):
    rows = jax.tree.map(lambda leaf: leaf.reshape(2, 2, *leaf.shape[1:]), some)
    mesh, spec = Mesh(np.array(jax.devices()[:1]), "lanes"), PartitionSpec("lanes")
    nested = jax.vmap(jax.vmap(roughly))
    results = run_unoptimised(jax.shard_map(nested, mesh=mesh, in_specs=spec, out_specs=spec), rows)
    check_equal(jax.tree.map(lambda leaf: leaf.reshape(4, *leaf.shape[2:]), results), expected)


def test_unbatched_arguments(some):
    """Many bodies in one maze."""
    body, control, maze = some
    alone = jax.tree.map(lambda leaf: leaf[0], (control, maze))
    shapes = jax.eval_shape(jax.vmap(move, in_axes=(0, None, None)), body, *alone)
    assert shapes[0].x.shape == (4,)
    assert shapes[1].shape == (4, OBJECTS)


def test_long_controls_look_for_walls_again():
    """310 substeps are six times 50 and 10. From the start, two cells away, the wall cannot be seen."""
    maze = jax.tree.map(lambda leaf: leaf[0], encode([Scenario.from_text(ROOM)]))
    body = Body(*jnp.array([12.9, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], jnp.float32))
    body, touched = run_unoptimised(functools.partial(move, substeps=310), (body, CONTROLS[1], maze))
    assert body.x == pytest.approx(14.8, abs=0.02)
    assert not touched.any()


def test_the_gpu_kernel_computes_the_same(some, expected, monkeypatch):
    """Interpreted here, with lanes that do not fill a block."""
    motion._run_lanes.cache_clear()
    monkeypatch.setattr(motion, "_run_cpu", functools.partial(motion._run_pallas, interpret=True))
    results = run_unoptimised(lambda *args: jax.vmap(roughly)(*args), some)
    motion._run_lanes.cache_clear()
    check_equal(results, expected)


def test_cpus_beside_a_gpu_compute_the_same(some, expected, beside_a_gpu):
    check_equal(run_unoptimised(jax.vmap(roughly), some), expected)


@pytest.mark.parametrize("floating_objects", [False, True])
def test_the_gpu_kernel_lowers(some, floating_objects, beside_a_gpu, described_gpu):
    function = jax.jit(jax.vmap(functools.partial(move, floating_objects=floating_objects)))
    text = function.trace(*some).lower(lowering_platforms=("cuda",)).as_text()
    assert "xla.gpu.triton" in text
