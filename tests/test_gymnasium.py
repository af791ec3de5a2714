"""The gymnasium ids, as a user of the published package expects them."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import memory_maze
from memory_maze import ENV_IDS, Scenario, make_task
from memory_maze.adapters.gymnasium import MemoryMazeEnv
from memory_maze.adapters.simulation import ENGINES, Simulation
from memory_maze.engine.single import JaxEngine

MAP = """
###########
#r        #
# ####### #
# #     # #
# #  P  # #
#    g    #
# #  P  # #
# #     # #
# ####### #
#        b#
###########
"""


@pytest.fixture(params=ENGINES)
def engine(request):
    return request.param


@pytest.fixture
def make(engine):
    """`gymnasium.make` whose environments are closed after the test."""
    envs = []

    def make(name="9x9", **keywords):
        envs.append(gymnasium.make(f"memory_maze:MemoryMaze-{name}-v0", engine=engine, **keywords))
        return envs[-1]

    yield make
    for env in envs:
        env.close()


def test_there_are_64_ids():
    assert len(set(ENV_IDS)) == 64
    assert "MemoryMaze-13x13-Oracle-ExtraObs-v0" in ENV_IDS


def test_jax_is_the_default():
    env = gymnasium.make("memory_maze:MemoryMaze-9x9-v0")
    assert isinstance(env.unwrapped.simulation.engine, JaxEngine)


def check(name, engine):
    """All of them take minutes: here are the smallest and the largest, and of MuJoCo some variants."""
    _, size, *variant, _ = name.split("-")
    some = engine == "mujoco" and size == "9x9" and variant in (["Top"], ["ExtraObs"], ["HiFreq", "HD"])
    often = some or (size in ("9x9", "15x15") and not variant)
    return pytest.param(name, engine, marks=[] if often else [pytest.mark.slow])


@pytest.mark.parametrize(("name", "engine"), [check(name, engine) for engine in ENGINES for name in ENV_IDS])
def test_every_id_passes_the_checker(name, engine):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(f"memory_maze:{name}", engine=engine, render_mode="rgb_array")
        check_env(env.unwrapped)
        env.close()


def test_the_checker_with_continuous_actions(make):
    check_env(make("9x9", discrete_actions=False, render_mode="rgb_array").unwrapped)


@pytest.mark.newest
def test_the_checker_with_another_version_of_mujoco():
    check_env(gymnasium.make("memory_maze:MemoryMaze-9x9-v0", engine="mujoco").unwrapped)


def test_observations_are_the_published_ones(make):
    assert make("9x9").observation_space == gymnasium.spaces.Box(0, 255, (64, 64, 3), np.uint8)
    assert make("9x9").action_space == gymnasium.spaces.Discrete(6)
    space = make("9x9-ExtraObs").observation_space
    shapes = {key: (box.shape, box.dtype.name) for key, box in space.items()}
    assert shapes == {
        "agent_dir": ((2,), "float64"),
        "agent_pos": ((2,), "float64"),
        "image": ((64, 64, 3), "uint8"),
        "maze_layout": ((9, 9), "uint8"),
        "target_color": ((3,), "float64"),
        "target_pos": ((2,), "float64"),
        "target_vec": ((2,), "float64"),
        "targets_pos": ((3, 2), "float64"),
        "targets_vec": ((3, 2), "float64"),
    }


def test_observations_agree_with_each_other(make, engine):
    env, rounding = make("13x13-ExtraObs"), {"jax": 2e-6, "mujoco": 1e-9}[engine]
    observation, _ = env.reset(seed=4)
    for action in [1, 4, 1, 1, 5, 1, 2, 2, 1]:
        observation, *_ = env.step(action)
        forward = observation["agent_dir"]
        right = np.array([forward[1], -forward[0]])
        offsets = observation["targets_pos"] - observation["agent_pos"]
        expected = np.stack([offsets @ right, offsets @ forward], axis=1)
        np.testing.assert_allclose(observation["targets_vec"], expected, atol=rounding)
        x, y = observation["agent_pos"].astype(int)
        assert observation["maze_layout"][y, x] == 1
        for x, y in observation["targets_pos"]:
            assert (x % 1, y % 1) == (0.5, 0.5)
            assert observation["maze_layout"][int(y), int(x)] == 1
        border = (observation["target_color"] * 255 * 0.7).astype(np.uint8)
        assert (observation["image"][0] == border).all()


def test_seeds_at_reset_are_seeds_of_the_published_constructor(make, engine):
    env = make("9x9")
    first, _ = env.reset(seed=11)
    second, _ = env.reset()
    again = Simulation("9x9", seed=11, engine=engine, image_only_obs=True)
    np.testing.assert_array_equal(first, again.reset())
    np.testing.assert_array_equal(second, again.reset())
    np.testing.assert_array_equal(env.reset(seed=11)[0], first)
    np.testing.assert_array_equal(make("9x9", seed=11).reset()[0], first)
    again.close()


def test_unseeded_episodes_differ(make):
    assert (make().reset()[0] != make().reset()[0]).any()


def test_the_time_limit_truncates_and_never_terminates(make):
    env = make("9x9", seconds=2)
    env.reset(seed=0)
    ends = [env.step(0)[2:4] for _ in range(8)]
    assert ends == [(False, False)] * 7 + [(False, True)]
    with pytest.raises(RuntimeError, match="the episode is over: call reset"):
        env.unwrapped.step(0)
    env.reset()
    env.step(0)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "steps"), [("9x9", 1000), ("15x15", 4000), ("9x9-HiFreq", 10_000)])
def test_whole_episodes(make, name, steps):
    env = make(name)
    env.reset(seed=0)
    for t in range(1, steps + 1):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        assert (terminated, truncated) == (False, t == steps)


def test_steps_before_reset_are_refused():
    env = MemoryMazeEnv("9x9")
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        env.step(0)
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        _ = env.scenario


@pytest.mark.parametrize("action", [6, -1, 1.0, "forward", None, [1], np.array([1, 2])])
def test_wrong_actions_are_refused(make, action):
    env = make().unwrapped
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"invalid action .* 1 forward"):
        env.step(action)
    env.step(np.int64(5))
    env.step(np.array(5))


@pytest.mark.parametrize("action", [1, [0.0], [np.nan, 0.0], "ab", [[0, 0]]])
def test_wrong_continuous_actions_are_refused(make, action):
    env = make(discrete_actions=False).unwrapped
    env.reset(seed=0)
    with pytest.raises(ValueError, match="two finite numbers"):
        env.step(action)


def test_continuous_actions_are_the_controls(make):
    """(-1, 0) is forward; the corners are the discrete actions; more than 1 is 1."""
    positions = []
    for action, keywords in (
        (4, {}),
        ((-1.0, -1.0), {"discrete_actions": False}),
        ((-9, -9), {"discrete_actions": False}),
    ):
        env = make("9x9-ExtraObs", **keywords).unwrapped
        env.reset(seed=3)
        for _ in range(5):
            observation, *_ = env.step(action)
        positions.append(observation["agent_pos"])
    np.testing.assert_array_equal(positions[0], positions[1])
    np.testing.assert_array_equal(positions[0], positions[2])


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"top_cam": True}, TypeError, "did you mean 'top_camera'"),
        ({"colour": 1}, TypeError, "unknown keyword 'colour'"),
        ({"engine": "unity"}, ValueError, "unknown engine 'unity'"),
        ({"task": "10x10"}, ValueError, "unknown task '10x10'"),
        ({"task": 9}, TypeError, "task must be"),
        ({"control_freq": 3}, ValueError, "control_freq must divide 200"),
        ({"control_freq": 0}, ValueError, "must be a positive number"),
        ({"control_freq": 1000}, ValueError, "control_freq must divide 200"),
        ({"camera_resolution": 0}, ValueError, "camera_resolution must be"),
        ({"camera_resolution": 64.0}, ValueError, "camera_resolution must be"),
        ({"target_color_in_image": False}, ValueError, "needs target_color_in_image"),
        ({"show_path": True}, ValueError, "needs global_observables"),
        ({"render_mode": "ascii"}, ValueError, "unknown render_mode 'ascii'"),
        ({"seed": -1}, ValueError, "seed must be"),
    ],
)
def test_bad_keywords_are_refused(keywords, error, message):
    with pytest.raises(error, match=message):
        MemoryMazeEnv(**{"image_only_obs": True, **keywords})


def test_bad_reset_options_are_refused(make):
    env = make().unwrapped
    with pytest.raises(ValueError, match="unknown reset options"):
        env.reset(options={"layout": 1})
    with pytest.raises(ValueError, match="make_task"):
        env.reset(options={"scenario": Scenario.from_text(MAP.replace("r", " "))})
    with pytest.raises(ValueError, match="seed must be"):
        env.reset(seed=2**40)


def test_a_scenario_is_played(make):
    """Fixed maze, random starts."""
    env, scenario = make("9x9-ExtraObs"), Scenario.from_text(MAP)
    starts = set()
    for seed in range(12):
        observation, _ = env.reset(seed=seed, options={"scenario": scenario})
        starts.add(tuple(observation["agent_pos"]))
        np.testing.assert_array_equal(observation["targets_pos"], [[0.5, 8.5], [4.5, 4.5], [8.5, 0.5]])
    assert starts == {(4.5, 5.5), (4.5, 3.5)}
    played = env.unwrapped.scenario
    assert played.complete
    again, _ = make("9x9-ExtraObs").reset(seed=99, options={"scenario": played})
    np.testing.assert_array_equal(again["image"], observation["image"])


def test_a_scenario_for_every_reset(make, tmp_path):
    Scenario.from_text(MAP).save(tmp_path / "maze.json")
    env = make("9x9-ExtraObs", scenario=tmp_path / "maze.json")
    layouts = [env.reset()[0]["maze_layout"] for _ in range(3)]
    np.testing.assert_array_equal(layouts[0], layouts[2])


def test_random_mazes_go_on_after_a_scenario(make):
    env = make("9x9-ExtraObs")
    env.reset(seed=1, options={"scenario": Scenario.from_text(MAP)})
    one, _ = env.reset()
    env.reset(seed=1, options={"scenario": Scenario.from_text(MAP)})
    two, _ = env.reset()
    np.testing.assert_array_equal(one["image"], two["image"])


def test_other_sizes_through_an_id(make):
    env = make("9x9-ExtraObs", task=make_task(21, objects=5))
    assert env.observation_space["maze_layout"].shape == (21, 21)
    assert env.observation_space.contains(env.reset(seed=0)[0])


def test_render(make):
    env = make("9x9", render_mode="rgb_array")
    observation, _ = env.reset(seed=3)
    picture = env.render()
    assert picture.shape == (256, 256, 3)
    small = picture.reshape(64, 4, 64, 4, 3).mean(axis=(1, 3))
    assert np.abs(small - observation)[4:-4, 4:-4].mean() < 4, "the same view, finer"
    assert env.unwrapped.metadata["render_fps"] == 4
    assert make("9x9-HiFreq").unwrapped.metadata["render_fps"] == 40
    top = make("9x9-Top", render_mode="rgb_array", render_resolution=128)
    top.reset(seed=3)
    assert top.render().shape == (128, 128, 3)


def test_render_does_not_change_observations(make):
    env, silent = make("9x9", render_mode="rgb_array"), make("9x9")
    env.reset(seed=3)
    silent.reset(seed=3)
    for action in (1, 2, 4):
        env.render()
        np.testing.assert_array_equal(env.step(action)[0], silent.step(action)[0])


def test_vector_environments():
    for mode in ("sync", "async"):
        # Spawned, because this process runs JAX; test_processes.py forks.
        settings = {"context": "spawn"} if mode == "async" else {}
        envs = gymnasium.make_vec(
            "memory_maze:MemoryMaze-9x9-v0", num_envs=2, vectorization_mode=mode, vector_kwargs=settings
        )
        images, _ = envs.reset(seed=5)
        assert images.shape == (2, 64, 64, 3)
        single = Simulation("9x9", seed=6, image_only_obs=True)
        np.testing.assert_array_equal(images[1], single.reset())
        envs.step(np.array([1, 2]))
        envs.close()
        single.close()


def test_the_top_level_names():
    assert all(hasattr(memory_maze, name) for name in memory_maze.__all__)
