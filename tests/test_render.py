"""The JAX pictures against MuJoCo's: every size, every view, close to walls, with and without objects."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec
from PIL import Image
from placing import teleport

from memory_maze import TASKS, Sampler, Scenario, make_task
from memory_maze.engine.picture import textures
from memory_maze.engine.picture.render import Scene, View, draw_in_kernels, draw_lanes, finish, render
from memory_maze.engine.picture.staging import Stage
from memory_maze.engine.types import Maze
from memory_maze.options import Options
from memory_maze.reference.engine import MujocoEngine
from memory_maze.reference.observation import draw_border
from memory_maze.scenario import CORRIDOR, WALL, WALL_TEXTURES, free_cells
from memory_maze.world import BORDER_COLORS, COLORS, cell_to_world

PLAIN = View(border=False)
BLACK = np.zeros(3, np.uint8)
LANES = 20
HALL = """
###########
#         #
#  r   y  #
#         #
#    b    #
#    g    #
#         #
#  p s    #
#         #
#>        #
###########
"""


def to_maze(scenario):
    walls = np.array([[char == WALL for char in row] for row in scenario.walls])
    rooms = np.array([[char not in (WALL, CORRIDOR) for char in row] for row in scenario.rooms])
    return Maze(
        walls=bit_rows(walls),
        rooms=bit_rows(rooms),
        textures=np.array([WALL_TEXTURES.index(name) for name in scenario.textures], np.int32),
        objects=np.array([cell_to_world(cell, scenario.grid) for cell in scenario.objects], np.float32),
        colors=np.array(scenario.colors, np.int32),
    )


def bit_rows(grid):
    """Rows from the bottom, without the outer wall."""
    inside = grid[1:-1, 1:-1][::-1]
    return (inside.astype(np.uint32) << np.arange(inside.shape[1], dtype=np.uint32)).sum(1, dtype=np.uint32)


@dataclasses.dataclass
class State:
    """A scenario with a pose (x, y, heading) in it."""

    scenario: Scenario
    pose: tuple[float, float, float]


def random_states(task, count, seed):
    """Poses anywhere in free cells where the ball fits, five per maze."""
    rng, sampler, states = np.random.RandomState(seed), Sampler(task, seed), []
    for index in range(count):
        if index % 5 == 0:
            scenario = dataclasses.replace(sampler.sample(), hidden=())
            free = free_cells(scenario.walls)
        x, y = cell_to_world(free[rng.randint(len(free))], scenario.grid)
        shift_x, shift_y = rng.uniform(-0.8, 0.8, size=2)
        states.append(State(scenario, (x + shift_x, y + shift_y, rng.uniform(-math.pi, math.pi))))
    return states


ENGINES = {}


@pytest.fixture(scope="module", autouse=True)
def _close_engines():
    yield
    for engine in ENGINES.values():
        engine.close()


def make_engine(grid, options):
    """One for each size and look: opening a GL context takes a second."""
    if (grid, options) not in ENGINES:
        ENGINES[grid, options] = MujocoEngine(grid, options)
    return ENGINES[grid, options]


def reference_images(states, options):
    engine = make_engine(states[0].scenario.grid, options)
    images, current = [], None
    for state in states:
        if state.scenario is not current:
            current = state.scenario
            engine.reset(current)
        teleport(engine, state.pose[:2], float(state.pose[2]))
        images.append(engine.image())
    return np.array(images)


def draw(view, maze, poses, visible, border):
    """Not jitted as a whole, so that the compiled inner program is shared between tests."""
    x, y, heading = jnp.asarray(poses).T
    one = functools.partial(render, view, textures.load_atlas())
    return jax.vmap(one)(maze, x, y, jnp.zeros_like(x), heading, visible, border)


def arguments(states, border=BLACK):
    maze = jax.tree.map(lambda *arrays: np.stack(arrays), *[to_maze(state.scenario) for state in states])
    poses = np.array([state.pose for state in states], np.float32)
    visible = np.ones((len(states), maze.objects.shape[1]), bool)
    for lane, state in enumerate(states):
        visible[lane, list(state.scenario.hidden)] = False
    return maze, poses, visible, np.broadcast_to(border, (len(states), 3))


def our_images(states, view):
    """Filled up to full batches, so that tests share compiled programs."""
    full = -(-len(states) // LANES) * LANES
    images = draw(view, *arguments((states * LANES)[:full]))
    return np.array(images)[: len(states)]


def psnr(images, expected):
    """(B,) decibels."""
    error = ((images.astype(float) - expected) ** 2).mean((1, 2, 3))
    return 10 * np.log10(255**2 / np.maximum(error, 1e-3))


def compare(states, view, options):
    return psnr(our_images(states, view), reference_images(states, options))


@pytest.mark.parametrize(
    ("size", "objects"),
    [
        (9, 3),
        (15, 6),
        (7, 1),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in ((11, 4), (13, 5), (31, 6))),
    ],
)
def test_first_person_pictures(size, objects):
    task = TASKS.get(f"{size}x{size}", make_task(size, objects))
    decibels = compare(random_states(task, LANES, seed=10 + size), PLAIN, Options())
    assert decibels.mean() >= 42, decibels.mean()
    assert decibels.min() >= 32, decibels.min()


VARIANTS = {
    "HD": (View(resolution=256, border=False), {"camera_resolution": 256}),
    "Top": (View(resolution=256, top=True, border=False), {"camera_resolution": 256, "top_camera": True}),
    "Vis": (View(wall_height=0.4, object_height=1.1, border=False), {"good_visibility": True}),
    "Vis-Top": (
        View(resolution=256, wall_height=0.4, object_height=1.1, top=True, border=False),
        {"camera_resolution": 256, "top_camera": True, "good_visibility": True},
    ),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_pictures_of_variants(name):
    view, keywords = VARIANTS[name]
    decibels = compare(random_states(TASKS["9x9"], LANES, seed=21), view, Options(**keywords))
    assert decibels.mean() >= 42, decibels.mean()
    assert decibels.min() >= 38, decibels.min()


def hall(**changes):
    scenario = Scenario.from_text(HALL)
    return dataclasses.replace(scenario.fill(np.random.RandomState(4), 1), **changes)


def test_six_objects_at_once_near_and_far():
    poses = [
        (-7, -7, math.pi / 4),
        (-1, -7, math.pi / 2),
        (0, -2.2, math.pi / 2),
        (0, -4.5, 1.5),
        (-3, 3, -1),
    ]
    states = [State(hall(), pose) for pose in poses]
    decibels = compare(states, PLAIN, Options())
    assert decibels.min() >= 34, decibels


def test_inside_an_object():
    """The agent walks through objects, whose inner side cannot be seen."""
    x, y = cell_to_world(hall().objects[0], 11)
    states = [State(hall(), (x + dx, y, heading)) for dx in (-0.7, -0.4, 0.0, 0.3) for heading in (0.0, 2.0)]
    decibels = compare(states, PLAIN, Options())
    assert decibels.min() >= 32, decibels


def test_camera_at_a_wall():
    angles = np.linspace(-1.5, 1.5, 7)
    states = [State(hall(), (8.8, 1.3, angle)) for angle in angles]
    states += [State(hall(), (8.81, 8.81, angle + math.pi / 4)) for angle in angles]
    decibels = compare(states, PLAIN, Options())
    assert decibels.min() >= 32, decibels


def test_hidden_objects_are_not_drawn():
    pose = (-1.0, -7.0, math.pi / 2)
    states = [State(hall(hidden=hidden), pose) for hidden in ((), (0, 2), (0, 1, 2, 3, 4, 5))]
    images = our_images(states, PLAIN)
    assert (images[0] != images[1]).any()
    assert (images[1] != images[2]).any()
    assert psnr(images, reference_images(states, Options())).min() >= 38


@pytest.mark.parametrize("resolution", [16, 32, 64, 96, 256])
def test_border(resolution):
    image = np.random.RandomState(0).randint(256, size=(resolution, resolution, 3), dtype=np.uint8)
    color = (COLORS[3] * 255 * 0.7).astype(np.uint8)
    packed = jnp.asarray(textures.pack(image.astype(float)).reshape(1, -1))
    framed = finish(View(resolution=resolution), packed, color[None])[0]
    plain = finish(View(resolution=resolution, border=False), packed, color[None])[0]
    np.testing.assert_array_equal(plain, image)
    draw_border(image, BORDER_COLORS[3])
    np.testing.assert_array_equal(framed, image)


def assert_equal(images, expected):
    """But for the rare pixel whose sample lies on an edge: other programs may round otherwise."""
    assert images.shape == expected.shape
    differs = (np.asarray(images) != np.asarray(expected)).any(-1)
    assert differs.mean() <= 5e-4, differs.sum()


def test_one_lane_jitted_and_framed():
    states = random_states(TASKS["9x9"], LANES, seed=24)
    batch = our_images(states, PLAIN)
    one = jax.jit(functools.partial(render, View()))
    color = np.array([1, 2, 3], np.uint8)
    for lane in (0, 7, 19):
        maze, pose, visible, _ = jax.tree.map(lambda array, lane=lane: array[lane], arguments(states))
        image = one(textures.load_atlas(), maze, pose[0], pose[1], 0.0, pose[2], visible, color)
        assert image.dtype == jnp.uint8
        assert_equal(image[2:-2, 2:-2], batch[lane, 2:-2, 2:-2])
        assert (image[:2] == color).all()
        assert (image[:, -2:] == color).all()
    assert one._cache_size() == 1


def test_nested_maps_reach_all_lanes():
    states = random_states(TASKS["9x9"], LANES, seed=25)
    maze, poses, visible, border = arguments(states)
    expected = our_images(states, PLAIN)
    nested = jax.tree.map(lambda array: array.reshape(4, 5, *array.shape[1:]), (maze, poses, visible, border))
    images = jax.vmap(functools.partial(draw, PLAIN))(*nested)
    assert images.shape == (4, 5, 64, 64, 3)
    assert_equal(images.reshape(expected.shape), expected)


def test_one_maze_for_all_lanes():
    states = [State(hall(), (x, -7.0, 1.0)) for x in np.linspace(-8, 8, LANES)]
    maze, poses, visible, border = arguments(states)
    maze = jax.tree.map(lambda array: array[0], maze)

    def one(pose):
        x, y, heading = pose
        return render(PLAIN, textures.load_atlas(), maze, x, y, 0.0, heading, visible[0], border[0])

    assert_equal(jax.vmap(one)(poses), our_images(states, PLAIN))


def test_scan_and_shard_map():
    """Three lanes to a step, the mazes on every device, the poses shared out."""
    states = random_states(TASKS["9x9"], 3, seed=26)
    maze, poses, visible, border = arguments(states)

    def walk(maze, poses):
        def step(poses, _):
            return poses, draw(PLAIN, maze, poses, visible, border)

        return jax.lax.scan(step, poses, None, length=2)[1]

    mesh, shared = Mesh(np.array(jax.devices()[:1]), "lanes"), PartitionSpec("lanes")
    walk = jax.shard_map(
        walk, mesh=mesh, in_specs=(PartitionSpec(), shared), out_specs=PartitionSpec(None, "lanes")
    )
    images = jax.jit(walk)(maze, poses)
    assert_equal(images[1], our_images(states, PLAIN))


def scene_of(states, border):
    maze, poses, visible, border = arguments(states, border)
    x, y, heading = jnp.asarray(poses).T
    return Scene(
        jax.tree.map(jnp.asarray, maze), x, y, jnp.zeros_like(x), heading, visible, jnp.asarray(border)
    )


@pytest.mark.parametrize("resolution", [64, pytest.param(33, marks=pytest.mark.slow)])
def test_the_gpu_kernels_draw_the_same(resolution):
    """Interpreted here; odd sizes fill neither blocks nor words. The hall shows up to six objects."""
    halls = [State(hall(), (x, -7.0, 1.0)) for x in (-8, -4, 0)]
    view = View(resolution=resolution)
    scene, atlas = scene_of(halls, np.array([1, 2, 3], np.uint8)), textures.load_atlas()
    interpreted = jax.jit(functools.partial(draw_in_kernels, view, interpret=True))
    images = np.array(interpreted(atlas, scene)).astype(int)
    expected = np.array(jax.jit(functools.partial(draw_lanes, view, Stage()))(atlas, scene))
    difference = np.abs(images - expected)
    assert difference.max() <= 1
    assert difference.mean() < 1e-3


def test_cpus_beside_a_gpu_draw_the_same(request):
    args = arguments(random_states(TASKS["9x9"], 4, seed=28))
    alone = jax.jit(functools.partial(draw, View()))(*args)
    request.getfixturevalue("beside_a_gpu")
    np.testing.assert_array_equal(jax.jit(functools.partial(draw, View()))(*args), alone)


def test_the_gpu_kernels_lower(beside_a_gpu, described_gpu):
    states = random_states(TASKS["9x9"], 4, seed=28)
    maze, poses, visible, border = arguments(states)
    auto = (jax.sharding.AxisType.Auto,)
    mesh = jax.sharding.AbstractMesh((1,), ("lanes",), auto, abstract_device=described_gpu)
    shared = PartitionSpec("lanes")
    program = functools.partial(draw, View())
    for function in (program, jax.shard_map(program, mesh=mesh, in_specs=shared, out_specs=shared)):
        traced = jax.jit(function).trace(maze, poses, visible, border)
        text = traced.lower(lowering_platforms=("cuda",)).as_text()
        assert text.count("xla.gpu.triton") == 2


def test_a_mapped_atlas_is_refused():
    states = random_states(TASKS["9x9"], 2, seed=27)
    maze, poses, visible, border = arguments(states)
    atlas = jax.tree.map(lambda array: jnp.stack([array[:4]] * 2), textures.load_atlas())
    with pytest.raises(ValueError, match="in_axes=None"):
        jax.vmap(functools.partial(render, PLAIN))(atlas, maze, *poses.T, poses[:, 2], visible, border)


def test_views_that_cannot_be_drawn():
    with pytest.raises(NotImplementedError, match="walls of"):
        View(wall_height=1.0, object_height=1.1)
    with pytest.raises(ValueError, match="resolution"):
        View(resolution=0)
    assert hash(View()) == hash(View())


def test_atlas_is_cached_and_rebuilt_if_damaged(tmp_path, monkeypatch):
    monkeypatch.delenv("MEMORY_MAZE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    pixels = np.random.RandomState(0).randint(256, size=(2, 16, 16, 3), dtype=np.uint8)
    sources = [png(image, tmp_path, "RGB") for image in pixels]
    path = textures.cache_path(sources)
    assert path.parent == tmp_path / "memory-maze" / "textures"
    assert path != textures.cache_path(sources[::-1])
    first = textures.load_arrays(path, sources)
    written = path.read_bytes()
    monkeypatch.setattr(textures, "decode_png", lambda data: pytest.fail("the cache was not used"))
    for array, again in zip(first, textures.load_arrays(path, sources), strict=True):
        np.testing.assert_array_equal(array, again)
    monkeypatch.undo()
    flipped = bytearray(written)
    flipped[200] ^= 1
    for damaged in (b"", written[: len(written) // 2], bytes(flipped), b"x" * len(written)):
        path.write_bytes(damaged)
        for array, again in zip(first, textures.load_arrays(path, sources), strict=True):
            np.testing.assert_array_equal(array, again)
        assert path.read_bytes() == written


def test_atlas_without_a_writable_cache(tmp_path):
    source = png(np.full((4, 4, 3), 9, np.uint8), tmp_path, "RGB")
    (tmp_path / "file").write_text("")
    texels, _ = textures.load_arrays(tmp_path / "file" / "atlas.npz", [source])
    assert set(texels.tolist()) == {9 | 9 << 8 | 9 << 16}


def png(pixels, folder, mode):
    image = Image.fromarray(pixels).convert(mode)
    image.save(folder / "image.png")
    return (folder / "image.png").read_bytes()


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P"])
def test_png_decoder(tmp_path, mode):
    """Smooth and noisy pictures make the encoder use all filters."""
    ramp = np.add.outer(np.arange(50), 2 * np.arange(40))[..., None] + np.array([0, 30, 90])
    noise = np.random.RandomState(1).randint(40, size=ramp.shape)
    data = png(((ramp + noise) % 256).astype(np.uint8), tmp_path, mode)
    expected = np.asarray(Image.open(tmp_path / "image.png").convert("RGB"))
    np.testing.assert_array_equal(textures.decode_png(data), expected)
    with pytest.raises(ValueError, match="not a PNG"):
        textures.decode_png(b"GIF89a")


def test_atlas_steps():
    """Level 0 twice, then every level and its blend with the next, down to one texel."""
    atlas = textures.load_atlas()
    sides = 2 ** (np.asarray(atlas.table).reshape(-1, textures.SLOTS)[:, 0] & 15)
    expected = [1024] * 2 + [side for side in 2 ** np.arange(9, 0, -1) for _ in range(2)] + [1]
    assert sides.tolist() == expected
    path = textures.texture_paths()[3]
    full = np.asarray(Image.open(path).convert("RGBA").convert("RGB"), np.uint32)
    packed = full[..., 0] | full[..., 1] << 8 | full[..., 2] << 16
    np.testing.assert_array_equal(np.asarray(atlas.texels)[3 * 2**20 : 4 * 2**20], packed.reshape(-1))
