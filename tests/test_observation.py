"""What is observed: the same by the engine and by the reference's copy; its border, path and minimap."""

import dataclasses
import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from memory_maze import TASKS, Sampler
from memory_maze.engine import observe as observe_module
from memory_maze.engine.env import Env, begin_scenario
from memory_maze.engine.observe import make_view, observe
from memory_maze.engine.picture.textures import load_atlas
from memory_maze.observation import observation_arrays
from memory_maze.options import Options
from memory_maze.reference.observation import Observer, draw_border, draw_minimap, shortest_path
from memory_maze.scenario import layout_of
from memory_maze.world import BORDER_COLORS, CELL_METRES

VIEWS = {
    "border": ("9x9", {}),
    "wide border": ("11x11", {"camera_resolution": 256}),
    "path": ("9x9", {"show_path": True, "target_color_in_image": False}),
    "path in a small picture": (
        "15x15",
        {"show_path": True, "target_color_in_image": False, "camera_resolution": 33},
    ),
}
NUM = 8


def random_states(task, options, rng):
    """Anywhere in free cells, in any direction, asking for any object."""
    scenarios, states = [], []
    sampler = Sampler(task, 3, randomize_colors=True)
    for _ in range(NUM):
        scenario = sampler.sample()
        column, row = rng.permutation(np.argwhere(layout_of(scenario).T))[0] + rng.uniform(0.2, 0.8, 2)
        x, y = (np.float32((place - task.size / 2) * CELL_METRES) for place in (column, row))
        state = begin_scenario(scenario)
        body = dataclasses.replace(state.body, x=x, y=y, steer=np.float32(rng.uniform(-9, 9)))
        target = np.int32(rng.integers(task.objects))
        states.append(dataclasses.replace(state, body=body, target=target))
        scenarios.append(scenario)
    return scenarios, jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


@pytest.mark.parametrize("name", VIEWS)
def test_the_engine_and_the_reference_observe_the_same(name, monkeypatch):
    """But for the camera's picture, which test_render.py compares."""
    task, options = TASKS[VIEWS[name][0]], Options(global_observables=True, **VIEWS[name][1])
    scenarios, states = random_states(task, options, np.random.default_rng(0))
    side = options.camera_resolution
    pictures = np.random.default_rng(1).integers(0, 256, (NUM, side, side, 3), np.uint8)
    see = jax.jit(jax.vmap(functools.partial(observe, make_view(options), load_atlas())))
    if options.show_path:  # over the same noise
        monkeypatch.setattr(observe_module, "render", lambda *_: jnp.asarray(pictures[0]))
        pictures[:] = pictures[0]
    else:  # over a picture that has the border of another target
        others = dataclasses.replace(states, target=(states.target + 1) % task.objects)
        pictures = np.array(see(others)["image"])
    seen = jax.device_get(see(states))
    arrays = observation_arrays(task, options, np.float32)
    assert seen.keys() == arrays.keys()
    for index, scenario in enumerate(scenarios):
        body = jax.tree.map(lambda leaf, index=index: float(leaf[index]), states.body)
        forward = np.array([math.cos(-body.steer), math.sin(-body.steer)])
        axes = np.stack([[forward[1], -forward[0]], forward], axis=1)
        place, target = np.array([body.x, body.y]), int(states.target[index])
        camera = pictures[index].copy
        expected = Observer(scenario, options).observe(arrays, camera, place, axes, target)
        assert (expected["image"] != pictures[index]).any()
        for key, array in arrays.items():
            ours = seen[key][index]
            assert (ours.shape, ours.dtype) == (array.shape, array.dtype), key
            assert ((array.low <= ours) & (ours <= array.high)).all(), key
            if array.dtype == np.uint8:
                np.testing.assert_array_equal(ours, expected[key], key)
            np.testing.assert_allclose(ours, expected[key], atol=2e-6, err_msg=key)


def test_only_what_is_asked_for_is_observed():
    task, options = TASKS["9x9"], Options(global_observables=True)
    _, states = random_states(task, options, np.random.default_rng(0))
    state = jax.tree.map(lambda leaf: leaf[0], states)
    names = ("agent_pos", "target_vec")
    seen = observe(make_view(options), load_atlas(), state, names)
    assert tuple(seen) == names
    assert Env("9x9", layouts=16, image_only_obs=True).observe(state).shape == (64, 64, 3)


@pytest.mark.parametrize(("resolution", "width"), [(16, 1), (32, 1), (64, 2), (128, 2), (256, 4)])
def test_border(resolution, width):
    image = np.full((resolution, resolution, 3), 7, np.uint8)
    draw_border(image, BORDER_COLORS[0])
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
