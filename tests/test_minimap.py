"""The minimap of the JAX engine is that of the reference, cell for cell and pixel for pixel."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from memory_maze import TASKS, Sampler, make_task
from memory_maze.engine.picture import minimap
from memory_maze.reference.observation import draw_minimap, mark_path
from memory_maze.scenario import layout_of

SIZES = (7, 9, 11, 13, 15, 31)
NUM = 200


def bit_rows(cells):
    return (cells * (1 << np.arange(cells.shape[-1]))).sum(-1).astype(np.uint32)


def cells_of(rows):
    return np.asarray(rows)[..., None] >> np.arange(rows.shape[-1]) & 1


def draw_layouts(size, count, rng):
    """Half of them mazes, half noise: cells without a way to each other, long ways, many equal ones."""
    task = TASKS.get(f"{size}x{size}") or make_task(size, objects=3)
    sampler = Sampler(task, size)
    mazes = [layout_of(sampler.sample()) for _ in range(min(count // 2, 20))]
    share = rng.uniform(0.5, 1, (count - len(mazes), 1, 1))
    return np.concatenate([mazes, rng.random((len(share), size, size)) < share]).astype(np.uint8)


find_paths = jax.jit(jax.vmap(minimap.find_path))


def snake(size):
    """The longest way: along every other row."""
    layout = np.ones((size, size), np.uint8)
    layout[1::2] = 0
    layout[1::4, -1] = layout[3::4, 0] = 1
    return layout


@pytest.mark.parametrize("size", SIZES)
def test_paths(size):
    rng = np.random.default_rng(size)
    layouts = np.concatenate([draw_layouts(size, NUM, rng), [snake(size), snake(size)[:, ::-1]]])
    places = rng.uniform(0, size, (2, len(layouts), 2)).astype(np.float32)
    places[:, -2:] = [[[0.5, 0.5]] * 2, [[size - 0.5, size - 0.5]] * 2]
    found = find_paths(bit_rows(1 - layouts), *places)
    lengths = []
    for layout, path, start, finish in zip(layouts, cells_of(found), *places.astype(int), strict=True):
        expected = mark_path(layout, start, finish)
        np.testing.assert_array_equal(path, expected == 2)
        lengths.append(path.sum())
    assert lengths[-2] > size * size / 2
    assert min(lengths) == 0, "walls without a way are among them"


draw_maps = jax.jit(jax.vmap(minimap.draw_minimap))


@pytest.mark.parametrize("size", SIZES)
def test_pictures(size):
    rng = np.random.default_rng(size)
    layouts = draw_layouts(size, NUM, rng)
    layouts = np.where(rng.random(layouts.shape) < 0.2, 2, layouts).astype(np.uint8)
    positions = rng.uniform(0, size, (NUM, 2)).astype(np.float32)
    positions[:10] = np.floor(positions[:10]) + 0.5
    angles = rng.uniform(-np.pi, np.pi, NUM)
    angles[:8] = np.arange(8) * np.pi / 4
    forwards = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    forwards[8:12] = (0, 1), (1, 0), (0, -1), (-1, 0)
    forwards[12:] *= rng.uniform(1 - 2e-6, 1 + 2e-6, (NUM - 12, 1))  # as rounding does, and a little more
    images = rng.integers(0, 256, (NUM, 64, 64, 3), np.uint8)
    drawn = draw_maps(images, bit_rows(layouts > 0), bit_rows(layouts == 2), positions, forwards)
    for image, ours, *scene in zip(images, drawn, layouts, positions, forwards, strict=True):
        layout, position, forward = scene
        draw_minimap(image, layout, position.astype(float), forward.astype(float))
        np.testing.assert_array_equal(ours, image)


def test_under_shard_map():
    """Loops there must begin with what differs between devices."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), "lanes")
    spec = jax.sharding.PartitionSpec("lanes")
    walls, places = jnp.zeros((3, 9), jnp.uint32), jnp.full((3, 2), 4.5)
    find = jax.shard_map(find_paths, mesh=mesh, in_specs=spec, out_specs=spec)
    assert cells_of(find(walls, places, 0 * places)).sum() == 3 * (4 + 4 + 1)
