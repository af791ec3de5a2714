"""The border, the path and the minimap."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from memory_maze import TASKS, Sampler
from memory_maze.observation import draw_border, draw_minimap, layout_of, shortest_path
from memory_maze.scenario import COLORS

pytestmark = pytest.mark.pythons


@pytest.mark.parametrize(("resolution", "width"), [(16, 1), (32, 1), (64, 2), (128, 2), (256, 4)])
def test_border(resolution, width):
    image = np.full((resolution, resolution, 3), 7, np.uint8)
    draw_border(image, COLORS[0])
    inner = image[width:-width, width:-width]
    assert (inner == 7).all()
    inner[:] = (137, 30, 24)  # red, as published
    assert (image == (137, 30, 24)).all()


@given(st.integers(0, 10**6), st.sampled_from(list(TASKS)), st.data())
def test_shortest_path(seed, task, data):
    layout = layout_of(Sampler(TASKS[task], seed).sample())
    free = [(int(x), int(y)) for y, x in np.argwhere(layout)]
    start, finish = data.draw(st.sampled_from(free)), data.draw(st.sampled_from(free))
    path = shortest_path(layout, start, finish)
    assert (path[0], path[-1]) == (start, finish)
    assert all(layout[y, x] for x, y in path)
    assert all(abs(a - c) + abs(b - d) == 1 for (a, b), (c, d) in itertools.pairwise(path))
    assert len(path) == len(shortest_path(layout, finish, start))


def test_no_path_into_a_wall():
    layout = np.array([[1, 0, 1]], np.uint8)
    assert shortest_path(layout, (0, 0), (2, 0)) == []


def minimap_by_pillow(image, layout, position, forward):
    """The published drawing, by the library that the published package uses."""
    cells = len(layout)
    size = 2 * cells
    colors = np.array([[0, 0, 0], [255, 255, 255], [0, 255, 0]], np.uint8)[layout]
    colors[int(position[1]), int(position[0])] = (255, 0, 0)
    picture = Image.fromarray(np.flip(colors, 0)).resize((size, size), resample=0)
    shift = (position - cells / 2) / cells * size
    picture = picture.transform(picture.size, 0, (1, 0, shift[0], 0, 1, -shift[1]), resample=0)
    picture = picture.rotate(np.arctan2(*forward) / np.pi * 180, resample=0)
    corner = image[:size, -size:]
    corner[:] = corner // 2 + np.asarray(picture) // 2


@given(
    st.integers(0, 10**6), st.sampled_from(list(TASKS)), st.floats(0.11, 0.89), st.floats(-math.pi, math.pi)
)
def test_minimap_is_drawn_as_pillow_draws_it(seed, task, place, angle):
    layout = layout_of(Sampler(TASKS[task], seed).sample())
    layout[0, : len(layout) // 2] *= 2
    forward = np.array([math.cos(angle), math.sin(angle)])
    position = np.array([place, 1 - place * place]) * len(layout)
    image = np.random.RandomState(seed).randint(0, 256, (64, 64, 3)).astype(np.uint8)
    expected = image.copy()
    draw_minimap(image, layout, position, forward)
    minimap_by_pillow(expected, layout, position, forward)
    np.testing.assert_array_equal(image, expected)


@pytest.mark.parametrize("forward", [(0, 1), (1, 0), (0, -1), (-1, 0)])
def test_minimap_at_right_angles(forward):
    layout = layout_of(Sampler(TASKS["9x9"], 3).sample())
    image = np.zeros((64, 64, 3), np.uint8)
    expected = image.copy()
    draw_minimap(image, layout, np.array([4.5, 3.2]), np.array(forward, float))
    minimap_by_pillow(expected, layout, np.array([4.5, 3.2]), np.array(forward, float))
    np.testing.assert_array_equal(image, expected)
