"""Every variant of the reference observes what the published package observed on the same walk."""

import functools

import numpy as np
import pytest
from conftest import GOLDEN
from test_golden import assert_same_picture

from memory_maze.adapters.simulation import Simulation

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
    "Hidden-Top": {"seed": 68, **TOP},
}
BOTH = {"Oracle-Top", "Vis-Top"}  # of what others have


@functools.cache
def load():
    with np.load(GOLDEN / "variants.npz") as file:
        return {key: file[key] for key in file}


def part(name):
    return {
        key.removeprefix(name + "/"): value for key, value in load().items() if key.startswith(name + "/")
    }


def test_all_variants_are_recorded():
    assert {key.split("/")[0] for key in load()} == set(VARIANTS)
    assert all(part(name)["reward"].sum() > 0 for name in VARIANTS)


def make_simulation(name):
    keywords = {"seed": 5, "global_observables": True, **VARIANTS[name]}
    return Simulation("9x9", engine="mujoco", **keywords)


@pytest.mark.exact
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in BOTH else name for name in VARIANTS]
)
def test_variants_are_identical(name):
    golden = part(name)
    simulation = make_simulation(name)
    pictures = dict(zip(golden["image_step"].tolist(), golden["image"], strict=True))
    observation, reward = simulation.reset(), 0.0
    for t, action in enumerate(golden["action"]):
        if t > 0:
            observation, reward, _ = simulation.step(int(action))
        assert reward == golden["reward"][t], t
        for key in observation.keys() - {"image"}:
            np.testing.assert_allclose(observation[key], golden[key][t], atol=1e-9, err_msg=f"{key} {t}")
        if t in pictures:
            assert_same_picture(observation["image"], pictures.pop(t), 0.1)
    assert not pictures
    simulation.close()


@pytest.mark.similar
@pytest.mark.newest
@pytest.mark.parametrize("name", VARIANTS)
def test_first_frames_of_variants_look_the_same(name):
    simulation = make_simulation(name)
    image, expected = simulation.reset()["image"], part(name)["image"][0]
    assert np.abs(image.astype(int) - expected.astype(int)).mean() <= 0.5
    simulation.close()
