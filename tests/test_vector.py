"""Many mazes through gymnasium's vector interface."""

import dataclasses

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics

from memory_maze import ENV_IDS
from memory_maze.adapters import gymnasium_vector
from memory_maze.adapters.gymnasium_vector import MemoryMazeVectorEnv

# Those of the engine are compared in test_gymnax.py.
pytestmark = [pytest.mark.pythons, pytest.mark.usefixtures("plain_pictures")]

NUM = 4
STEPS = 8
KEYWORDS = {"global_observables": True, "camera_resolution": 16, "seconds": 2, "layouts": 64}


@pytest.fixture(scope="module")
def env():
    env = MemoryMazeVectorEnv(NUM, **KEYWORDS, render_mode="rgb_array", render_resolution=32)
    yield env
    env.close()


@pytest.fixture(scope="module")
def jax_env():
    env = MemoryMazeVectorEnv(NUM, **KEYWORDS, arrays="jax")
    yield env
    env.close()


@pytest.fixture(scope="module")
def spread_env():
    env = MemoryMazeVectorEnv(NUM, **KEYWORDS, spread=True)
    yield env
    env.close()


@pytest.fixture(scope="module")
def other_env():
    """With continuous actions."""
    env = MemoryMazeVectorEnv(NUM, **KEYWORDS, discrete_actions=False)
    yield env
    env.close()


@pytest.fixture
def bare():
    """Without programs: nothing is compiled before the first reset."""
    return MemoryMazeVectorEnv(NUM, **KEYWORDS)


class Foreign:
    """An array of another library, that speaks DLPack and nothing else."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **keywords):
        return self._array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def play(env, seed, actions):
    """Everything that comes out, one item per reset or step."""
    outputs = [env.reset(seed=seed)[0]]
    return outputs + [env.step(action)[:4] for action in actions]


def random_actions(count, seed=0):
    return np.random.default_rng(seed).integers(6, size=(count, NUM))


def assert_same(one, two):
    jax.tree.map(np.testing.assert_array_equal, one, two)


def stand_on_target(env):
    """Puts every agent on its target."""
    state = env.state
    x, y = jax.device_put(state.maze.objects[jnp.arange(NUM), state.target].T, env._device)
    env._state = dataclasses.replace(state, body=dataclasses.replace(state.body, x=x, y=y))


def set_time(env, step):
    steps = jax.device_put(np.full(NUM, step, np.int32), env._device)
    env._state = dataclasses.replace(env.state, step=steps)


def test_spaces(env):
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert env.single_action_space == gymnasium.spaces.Discrete(6)
    assert env.action_space == gymnasium.spaces.MultiDiscrete([6] * NUM)
    single = gymnasium.make("memory_maze:MemoryMaze-9x9-ExtraObs-v0", camera_resolution=16)
    for name, box in single.observation_space.items():
        ours = env.single_observation_space[name]
        kind = np.float32 if box.dtype == np.float64 else box.dtype
        np.testing.assert_array_equal(ours.low, box.low)
        np.testing.assert_array_equal(ours.high, box.high)
        assert (ours.shape, ours.dtype) == (box.shape, kind)
    single.close()


def test_outputs_are_in_their_spaces(env):
    observation, info = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    assert info == {}
    env.action_space.seed(0)
    for _ in range(STEPS):
        observation, rewards, terminated, truncated, info = env.step(env.action_space.sample())
        assert env.observation_space.contains(observation)
        assert (rewards.shape, rewards.dtype) == ((NUM,), np.float32)
        assert (truncated.shape, truncated.dtype) == ((NUM,), bool)
        assert not terminated.any()
        assert info == {}


def test_numpy_results_are_writable_and_stay(env):
    first, _ = env.reset(seed=0)
    before = first["image"].copy()
    env.step(np.ones(NUM, int))
    np.testing.assert_array_equal(first["image"], before)
    first["image"][:] = 0


@pytest.mark.parametrize("seed", [0, [3, 1, 4, 1], None])
def test_every_episode_is_whole(env, seed):
    env.reset(seed=seed)
    ends = [env.step(np.zeros(NUM, int))[3].tolist() for _ in range(2 * (STEPS + 1))]
    assert ends == 2 * ([[False] * NUM] * 7 + [[True] * NUM] + [[False] * NUM])


def test_first_episodes_are_spread_when_asked_for(spread_env):
    spread_env.reset(seed=0)
    ends = np.array([spread_env.step(np.zeros(NUM, int))[3] for _ in range(3 * (STEPS + 1))])
    starts = ends.argmax(axis=0)
    assert len(set(starts)) > 1, "they end at different times"
    for i, start in enumerate(starts):
        assert start < STEPS
        np.testing.assert_array_equal(
            np.flatnonzero(ends[:, i]), np.arange(start, len(ends), STEPS + 1), "one more step for the reset"
        )


def test_cut_episodes_are_marked(spread_env):
    """From their first step to their last, as long as their sub-environment plays them."""
    for seed in (0, None):
        info = spread_env.reset(seed=seed)[1]
        steps = np.asarray(spread_env.state.step)
        lengths = np.where(info["cut"], STEPS - steps, 0)
        np.testing.assert_array_equal(info["cut"], steps > 0)
        for t in range(1, STEPS + 3):
            info = spread_env.step(np.zeros(NUM, int))[-1]
            assert (info["cut"].dtype, info["_cut"].tolist()) == (bool, [True] * NUM)
            np.testing.assert_array_equal(info["cut"], t <= lengths)


def test_whole_episodes_can_be_told_from_cut_ones(spread_env):
    """With a wrapper of gymnasium, that gives each sub-environment its info."""
    wrapped = RecordEpisodeStatistics(spread_env)
    wrapped.reset(seed=0)
    lengths = {True: [], False: []}
    for _ in range(3 * (STEPS + 1)):
        info = wrapped.step(np.zeros(NUM, int))[-1]
        for i in np.flatnonzero(info.get("_episode", [])):
            lengths[bool(info["cut"][i])].append(int(info["episode"]["l"][i]))
    assert set(lengths[False]) == {STEPS}
    assert lengths[True]
    assert max(lengths[True]) < STEPS
    wrapped = DictInfoToList(spread_env)
    _, infos = wrapped.reset(seed=0)
    assert [info["cut"] for info in infos] == (np.asarray(spread_env.state.step) > 0).tolist()


def test_the_step_after_the_last_ignores_its_action(env):
    env.reset(seed=1)
    set_time(env, STEPS - 1)
    last, _, _, truncated, _ = env.step(np.full(NUM, 1))
    assert truncated.all()
    stand_on_target(env)
    new, rewards, _, truncated, _ = env.step(np.full(NUM, 1))
    assert not rewards.any(), "although they stand on their targets"
    assert not truncated.any()
    for i in range(NUM):
        assert (new["maze_layout"][i] != last["maze_layout"][i]).any(), "a new maze"

    env.reset(seed=1)
    set_time(env, STEPS - 1)
    env.step(np.full(NUM, 1))
    other = env.step(np.full(NUM, 5))[0]
    assert_same(new, other)
    assert (env.step(np.full(NUM, 5))[0]["agent_dir"] != other["agent_dir"]).any(), "the next one counts"


def test_targets_pay(env):
    env.reset(seed=1)
    stand_on_target(env)
    before = np.asarray(env.state.target)
    rewards = env.step(np.zeros(NUM, int))[1]
    np.testing.assert_array_equal(rewards, np.ones(NUM))
    assert (np.asarray(env.state.target) != before).all()


def test_the_first_observation_of_later_episodes_is_still(env):
    """It shows the start: the agent in the middle of a cell, without any of the action."""
    env.reset(seed=2)
    set_time(env, STEPS)
    positions = env.step(np.ones(NUM, int))[0]["agent_pos"]
    np.testing.assert_allclose(positions % 1, 0.5, atol=1e-5)


def test_seeds(env):
    actions = random_actions(2 * STEPS)
    one, again, other = (play(env, seed, actions) for seed in (5, 5, 6))
    assert_same(one, again)
    assert (one[0]["image"] != other[0]["image"]).any()
    images = one[0]["image"]
    assert all((images[0] != image).any() for image in images[1:]), "mazes differ from each other"


def test_resets_without_a_seed_go_on(env):
    first, _ = env.reset(seed=5)
    second, _ = env.reset()
    assert (first["image"] != second["image"]).any()
    env.reset(seed=5)
    env.step(np.ones(NUM, int))
    assert_same(env.reset()[0], second)


def test_a_seed_for_each(env):
    first, _ = env.reset(seed=[1, 2, 3, 1])
    second, _ = env.reset(seed=np.array([2, 1, 1, 3]))
    assert_same(jax.tree.map(lambda array: array[[1, 0, 3, 2]], first), second)
    with pytest.raises(ValueError, match="one seed or 4"):
        env.reset(seed=[1, 2])


def test_none_among_the_seeds_goes_on(env):
    """As in gymnasium's own vectors."""
    env.reset(seed=[1, 2, 3, 4])
    second, _ = env.reset()
    fresh, _ = env.reset(seed=[5, 6, 7, 8])
    env.reset(seed=[1, 2, 3, 4])
    mixed, _ = env.reset(seed=[5, None, 7, None])
    for i, expected in enumerate((fresh, second, fresh, second)):
        assert_same(*(jax.tree.map(lambda array, i=i: array[i], part) for part in (mixed, expected)))
    env.reset(seed=[1, 2, 3, 4])
    assert_same(env.reset(seed=[None] * NUM)[0], second)


def test_unseeded_is_fresh(bare):
    other = MemoryMazeVectorEnv(NUM, **KEYWORDS)
    assert (jax.random.key_data(bare._keys) != jax.random.key_data(other._keys)).any()
    one, two = (MemoryMazeVectorEnv(NUM, **KEYWORDS, seed=3) for _ in range(2))
    assert_same(*(jax.random.key_data(env._keys) for env in (one, two)))


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, True, "1", [1, 2, 3, -4]])
def test_wrong_seeds_are_refused(bare, seed):
    with pytest.raises((TypeError, ValueError), match="seed"):
        bare.reset(seed=seed)


def test_jax_arrays_are_the_same(env, jax_env):
    actions = random_actions(2 * STEPS)
    on_device = play(jax_env, 7, jnp.asarray(actions))
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(on_device))
    assert_same(play(env, 7, actions), on_device)


def test_nothing_leaves_the_device(jax_env):
    jax_env.reset(seed=0)
    actions = jnp.ones(NUM, jnp.int32)
    with jax.transfer_guard("disallow"):
        for _ in range(3):
            results = jax_env.step(actions)[:4]
    (device,) = jax.tree.leaves(jax_env.state)[-1].devices()
    for leaf in jax.tree.leaves((jax_env.state, results)):
        assert leaf.devices() == {device}


def test_the_state_is_donated(jax_env):
    jax_env.reset(seed=0)
    state = jax_env.state
    jax_env.step(jnp.ones(NUM, jnp.int32))
    assert state.maze.objects.is_deleted()


def test_results_through_dlpack_are_not_copied(jax_env):
    if jax.default_backend() != "cpu":
        pytest.skip("NumPy reads the memory of the host alone")
    jax_env.reset(seed=0)
    observation, rewards, *_ = jax_env.step(jnp.ones(NUM, jnp.int32))
    for array, kind in ((observation["image"], np.uint8), (rewards, np.float32)):
        view = np.from_dlpack(array)
        assert view.dtype == kind
        assert view.__array_interface__["data"][0] == array.unsafe_buffer_pointer()
        np.testing.assert_array_equal(view, array)


def test_actions_on_the_device_are_not_copied(jax_env):
    actions = jnp.ones(NUM, jnp.int32)
    assert jax_env._take(actions).unsafe_buffer_pointer() == actions.unsafe_buffer_pointer()


@pytest.mark.parametrize(
    "convert",
    [list, tuple, np.int8, np.uint32, np.int64, jnp.int32, jnp.uint8, Foreign],
    ids=lambda convert: convert.__name__,
)
def test_actions_of_every_kind(jax_env, convert):
    actions = np.array([1, 2, 3, 4])
    jax_env.reset(seed=0)
    expected = jax_env.step(actions)[0]["agent_dir"]
    programs = gymnasium_vector._step._cache_size()
    jax_env.reset(seed=0)
    np.testing.assert_array_equal(jax_env.step(convert(actions))[0]["agent_dir"], expected)
    assert gymnasium_vector._step._cache_size() == programs, "one program for all"


WRONG_ACTIONS = {
    "scalar": 0,
    "too few": [1, 2],
    "too deep": [[1, 2, 3, 4]],
    "ragged": [1, 2, [3], 4],
    "floats": [1.0, 2.0, 3.0, 4.0],
    "bools": [True] * NUM,
    "too high": [0, 1, 2, 6],
    "too low": [0, 1, 2, -1],
    "string": "1234",
    "none": None,
    "too few in JAX": jnp.ones(3, int),
    "floats in JAX": jnp.ones(NUM),
    "foreign floats": Foreign(np.ones(NUM)),
    "foreign and too high": Foreign(np.full(NUM, 6)),
}


@pytest.mark.parametrize("actions", WRONG_ACTIONS.values(), ids=WRONG_ACTIONS)
def test_wrong_actions_are_refused(env, actions):
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"(?s)invalid actions .* 4 integers.* 1 forward"):
        env.step(actions)
    env.step([0, 1, 2, 5])


def test_continuous_actions(env, other_env):
    """The corners are the discrete actions."""
    assert other_env.action_space.shape == (NUM, 2)
    env.reset(seed=0)
    other_env.reset(seed=0)
    expected = env.step([0, 1, 2, 5])
    assert_same(other_env.step([[0, 0], [-1, 0], [0, -1], [-1, 1]])[:4], expected[:4])
    for wrong in (np.zeros(NUM), np.full((NUM, 2), np.nan), np.zeros((NUM, 2), bool), jnp.zeros((2, NUM))):
        with pytest.raises(ValueError, match=r"(?s)invalid actions .* roll \(-1 is forward\)"):
            other_env.step(wrong)


def test_render(env):
    env.reset(seed=0)
    pictures = env.render()
    assert isinstance(pictures, tuple)
    assert len(pictures) == NUM
    for picture in pictures:
        assert (picture.shape, picture.dtype) == ((32, 32, 3), np.uint8)
    assert_same(env.render(), pictures)


def test_episode_statistics(env):
    """With a wrapper of gymnasium."""
    wrapped = RecordEpisodeStatistics(env)
    wrapped.reset(seed=0)
    lengths = []
    for _ in range(3 * STEPS):
        info = wrapped.step(np.zeros(NUM, int))[-1]
        if "episode" in info:
            lengths += info["episode"]["l"][info["_episode"]].tolist()
    assert lengths == [STEPS] * 2 * NUM, "of the first episode too"


def test_the_id_makes_it():
    env = gymnasium.make_vec(
        "memory_maze:MemoryMaze-9x9-v0", num_envs=3, vectorization_mode="vector_entry_point", layouts=64
    )
    assert isinstance(env, MemoryMazeVectorEnv)
    assert env.spec is not None
    assert env.spec.id == "MemoryMaze-9x9-v0"
    assert env.observation_space == gymnasium.spaces.Box(0, 255, (3, 64, 64, 3), np.uint8)
    env.close()


def test_every_id_makes_batches():
    for name in ENV_IDS:
        assert gymnasium.spec(name).vector_entry_point is not None, name
    env = gymnasium.make_vec(
        "memory_maze:MemoryMaze-9x9-Oracle-ExtraObs-v0", num_envs=2, layouts=64, camera_resolution=18
    )
    assert isinstance(env, MemoryMazeVectorEnv)
    observation, _ = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    assert (observation["maze_layout"] == 2).any((1, 2)).all()
    env.close()


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"engine": "mujoco"}, ValueError, 'vectorization_mode="sync"'),
        ({"arrays": "torch"}, ValueError, "choose from numpy, jax"),
        ({"render_mode": "human"}, ValueError, "use rgb_array"),
        ({"num_envs": 0}, ValueError, "num_envs must be a positive integer"),
        ({"num_envs": 2.0}, ValueError, "num_envs must be a positive integer"),
        ({"top_cam": True}, TypeError, "did you mean 'top_camera'"),
        ({"seed": -1}, ValueError, "seed must be"),
    ],
)
def test_bad_keywords_are_refused(keywords, error, message):
    with pytest.raises(error, match=message):
        MemoryMazeVectorEnv(**{"num_envs": 2, "layouts": 64, **keywords})


def test_misuse_is_refused(bare):
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        bare.step(np.zeros(NUM, int))
    with pytest.raises(ValueError, match="unknown reset options"):
        bare.reset(options={"scenario": 1})
    bare.close()
    bare.close()
    for call in (bare.reset, lambda: bare.step(np.zeros(NUM, int))):
        with pytest.raises(RuntimeError, match="closed"):
            call()
