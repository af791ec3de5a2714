"""The gymnax conventions, used as PureJaxRL uses them."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from memory_maze.adapters.gymnasium_vector import MemoryMazeVectorEnv
from memory_maze.adapters.gymnax import Box, Dict, Discrete, GymnaxEnv, Params

STEPS = 8
KEYWORDS: dict[str, Any] = {"camera_resolution": 16, "seconds": 2, "layouts": 64}


@pytest.fixture(scope="module")
def env():
    return GymnaxEnv("9x9", **KEYWORDS, image_only_obs=True, final_observation=True)


def keys(seed, count):
    return jax.random.split(jax.random.key(seed), count)


def play(env, seed, count, params=None):
    """The first observation and state, then the output of every step."""
    params = params or env.default_params
    first, *rest = keys(seed, count + 1)
    outputs = [env.reset(first, params)]
    for key in rest:
        outputs.append(env.step(key, outputs[-1][1], jnp.int32(1), params))
    return outputs


def data(tree):
    """Arrays that NumPy can compare."""
    return jax.tree.map(
        lambda leaf: jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf,
        tree,
    )


def test_names(env):
    assert env.name == "MemoryMaze-9x9"
    assert env.num_actions == env.action_space(env.default_params).n == 6
    assert env.default_params == Params(STEPS)
    assert env.default_params.replace(max_steps_in_episode=3) == Params(3)
    assert jax.tree.leaves(env.default_params) == [STEPS]
    with pytest.raises(dataclasses.FrozenInstanceError):
        env.default_params.max_steps_in_episode = 3


def test_spaces(env):
    space = env.observation_space(env.default_params)
    assert space == Box(0, 255, (16, 16, 3), np.uint8)
    sample = space.sample(jax.random.key(0))
    assert (sample.shape, sample.dtype) == (space.shape, space.dtype)
    assert sample.max() > 250
    actions = jax.vmap(env.action_space().sample)(keys(0, 100))
    assert set(actions.tolist()) == set(range(6))
    assert env.action_space() == Discrete(6)
    assert not Discrete(6).contains(6)


def test_spaces_of_other_variants():
    env = GymnaxEnv("11x11", **KEYWORDS, global_observables=True, discrete_actions=False)
    controls, space = env.action_space(), env.observation_space()
    assert env.num_actions == 2
    assert (controls.shape, controls.dtype, controls.low, controls.high) == ((2,), jnp.float32, -1, 1)
    assert isinstance(space, Dict)
    assert space.contains(space.sample(jax.random.key(0)))
    key = jax.random.key(0)
    observation, state = jax.eval_shape(env.reset, key)
    step = jax.eval_shape(env.step, key, state, controls.sample(key))
    for result in (observation, step[0]):
        assert {name: array.shape for name, array in result.items()} == space.shape
        assert {name: array.dtype for name, array in result.items()} == {
            name: np.dtype(kind) for name, kind in space.dtype.items()
        }


def test_episodes_and_automatic_resets(env):
    (observation, state), *steps = play(env, 0, 2 * STEPS + 1)
    assert [bool(step[3]) for step in steps] == [t % STEPS == 0 for t in range(1, 2 * STEPS + 2)]
    assert [int(step[1].step) for step in steps] == [t % STEPS for t in range(1, 2 * STEPS + 2)]
    assert (observation.shape, observation.dtype) == ((16, 16, 3), np.uint8)
    for previous, (observation, state, reward, done, info) in zip([None, *steps], steps, strict=False):
        assert info["discount"] == 1
        assert info["truncated"] == done
        assert (reward.shape, reward.dtype) == ((), np.float32)
        same_picture = bool((info["final_observation"] == observation).all())
        assert same_picture == (not done), "the last picture is not lost"
        if previous is not None:
            before, after = previous[1].maze.walls, state.maze.walls
            assert bool((before == after).all()) == (not done), "a new maze"
        if done:
            np.testing.assert_array_equal(observation, env.env.render(state))


def test_episodes_are_those_of_the_vector_environment(env):
    """From the same states, by the same actions; the mazes that follow are drawn by other keys."""
    vector = MemoryMazeVectorEnv(
        4, **KEYWORDS, image_only_obs=True, render_mode="rgb_array", render_resolution=32
    )
    images, _ = vector.reset(seed=3)
    for picture, small in zip(vector.render(), images, strict=True):
        coarse = picture.reshape(16, 2, 16, 2, 3).mean(axis=(1, 3))
        assert np.abs(coarse - small)[2:-2, 2:-2].mean() < 20, "the same view, finer"
    states = jax.tree.map(jnp.copy, vector.state)  # the vector environment gives its own to its next step
    params, step = env.default_params, jax.jit(jax.vmap(env.step, in_axes=(0, 0, 0, None)))
    actions = np.random.default_rng(0).integers(6, size=(STEPS, 4))
    for t, action in enumerate(actions, 1):
        images, rewards, terminated, truncated, _ = vector.step(action)
        _, states, paid, done, info = step(keys(t, 4), states, jnp.asarray(action), params)
        np.testing.assert_array_equal(truncated, done)
        np.testing.assert_array_equal(truncated, info["truncated"])
        assert not terminated.any()
        np.testing.assert_array_equal(rewards, paid)
        np.testing.assert_allclose(images.astype(int), info["final_observation"].astype(int), atol=1)
    assert done.all()
    vector.close()


def test_targets_pay(env):
    _, state = env.reset(jax.random.key(0), env.default_params)
    x, y = state.maze.objects[state.target]
    standing = dataclasses.replace(state, body=dataclasses.replace(state.body, x=x, y=y))
    rewards, targets = [], set()
    for key in keys(0, 20):
        _, after, reward, _, _ = env.step(key, standing, jnp.int32(0), env.default_params)
        rewards.append(float(reward))
        targets.add(int(after.target))
    assert rewards == [1.0] * 20
    assert targets == {0, 1, 2} - {int(state.target)}, "the key of the step draws the next target"


def test_keys_decide(env):
    one, again, other = (play(env, seed, STEPS) for seed in (1, 1, 2))
    jax.tree.map(np.testing.assert_array_equal, data(one), data(again))
    assert (one[0][0] != other[0][0]).any()
    assert (one[-1][0] != other[-1][0]).any()


def test_params_shorten_episodes_without_a_new_program(env):
    play(env, 0, 1)
    programs = GymnaxEnv.step._cache_size()
    ends = [bool(step[3]) for step in play(env, 0, 7, Params(3))[1:]]
    assert ends == [False, False, True, False, False, True, False]
    assert GymnaxEnv.step._cache_size() == programs


def test_keys_of_either_style(env):
    new = jax.eval_shape(env.reset, jax.random.key(0))
    old = jax.eval_shape(env.reset, jax.random.PRNGKey(0))
    assert new == old
    after = jax.eval_shape(env.step, jax.random.PRNGKey(0), new[1], jnp.int32(0))
    assert after[:2] == new, "what scan needs"


class LogState(NamedTuple):
    env_state: Any
    episode_return: Any
    episode_length: Any
    returned_return: Any
    returned_length: Any


class LogWrapper:
    """Accounts of episodes as PureJaxRL's wrapper of this name keeps them."""

    def __init__(self, env):
        self._env = env

    def __getattr__(self, name):
        return getattr(self._env, name)

    def reset(self, key, params=None):
        observation, state = self._env.reset(key, params)
        return observation, LogState(state, jnp.float32(0), jnp.int32(0), jnp.float32(0), jnp.int32(0))

    def step(self, key, state, action, params=None):
        observation, env_state, reward, done, info = self._env.step(key, state.env_state, action, params)
        episode_return, length = state.episode_return + reward, state.episode_length + 1
        state = LogState(
            env_state,
            episode_return * (1 - done),
            length * (1 - done),
            state.returned_return * (1 - done) + episode_return * done,
            state.returned_length * (1 - done) + length * done,
        )
        info = info | {"length": state.returned_length, "return": state.returned_return, "ended": done}
        return observation, state, reward, done, info


class Transition(NamedTuple):
    observation: Any
    action: Any
    value: Any
    log_prob: Any
    reward: Any
    done: Any
    info: Any


def init_network(key, inputs, actions, hidden=32):
    first, second, third = jax.random.split(key, 3)
    return {
        "hidden": jax.random.normal(first, (inputs, hidden)) / inputs**0.5,
        "policy": jax.random.normal(second, (hidden, actions)) * 0.1,
        "value": jax.random.normal(third, (hidden, 1)) * 0.1,
    }


def apply_network(params, observation):
    x = observation.reshape(*observation.shape[:-3], -1) / 255
    hidden = jnp.tanh(x @ params["hidden"])
    return jax.nn.log_softmax(hidden @ params["policy"]), (hidden @ params["value"])[..., 0]


def ppo_loss(params, batch, advantages, returns):
    log_probs, value = apply_network(params, batch.observation)
    log_prob = jnp.take_along_axis(log_probs, batch.action[..., None], -1)[..., 0]
    ratio = jnp.exp(log_prob - batch.log_prob)
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    policy_loss = -jnp.minimum(ratio * advantages, jnp.clip(ratio, 0.8, 1.2) * advantages).mean()
    entropy = -(jnp.exp(log_probs) * log_probs).sum(-1).mean()
    return policy_loss + 0.5 * jnp.square(value - returns).mean() - 0.01 * entropy


def estimate_advantages(batch, last_value, discount=0.99, decay=0.95):
    def backwards(carry, transition):
        advantage, next_value = carry
        alive = 1 - transition.done
        error = transition.reward + discount * next_value * alive - transition.value
        advantage = error + discount * decay * alive * advantage
        return (advantage, transition.value), advantage

    start = (jnp.zeros_like(last_value), last_value)
    return jax.lax.scan(backwards, start, batch, reverse=True)[1]


def make_train(env, env_params, num_envs, num_steps, num_updates, rate=0.05, epochs=2):
    """PureJaxRL's loop: everything in one program."""

    def env_step(carry, _):
        params, env_state, observation, key = carry
        key, action_key, step_key = jax.random.split(key, 3)
        log_probs, value = apply_network(params, observation)
        action = jax.random.categorical(action_key, log_probs)
        log_prob = jnp.take_along_axis(log_probs, action[:, None], -1)[:, 0]
        step_keys = jax.random.split(step_key, num_envs)
        next_observation, env_state, reward, done, info = jax.vmap(env.step, in_axes=(0, 0, 0, None))(
            step_keys, env_state, action, env_params
        )
        transition = Transition(observation, action, value, log_prob, reward, done, info)
        return (params, env_state, next_observation, key), transition

    def update(carry, _):
        carry, batch = jax.lax.scan(env_step, carry, None, num_steps)
        params, env_state, observation, key = carry
        advantages = estimate_advantages(batch, apply_network(params, observation)[1])
        returns = advantages + batch.value

        def descend(params, _):
            loss, gradient = jax.value_and_grad(ppo_loss)(params, batch, advantages, returns)
            return jax.tree.map(lambda p, g: p - rate * g, params, gradient), loss

        params, losses = jax.lax.scan(descend, params, None, epochs)
        return (params, env_state, observation, key), (losses, batch.reward, batch.info)

    def train(key):
        key, network_key, reset_key = jax.random.split(key, 3)
        inputs = int(np.prod(env.observation_space(env_params).shape))
        params = init_network(network_key, inputs, env.action_space(env_params).n)
        reset_keys = jax.random.split(reset_key, num_envs)
        observation, env_state = jax.vmap(env.reset, in_axes=(0, None))(reset_keys, env_params)
        carry, logs = jax.lax.scan(update, (params, env_state, observation, key), None, num_updates)
        return params, carry[0], logs

    return train


@pytest.mark.slow
def test_a_training_loop_in_one_program():
    env = LogWrapper(GymnaxEnv("9x9", **KEYWORDS, image_only_obs=True))
    train = jax.jit(make_train(env, env.default_params, num_envs=4, num_steps=12, num_updates=6))
    before, after, (losses, rewards, info) = jax.device_get(train(jax.random.PRNGKey(30)))
    assert losses.shape == (6, 2)
    assert np.isfinite(losses).all()
    for name in before:
        assert np.isfinite(after[name]).all()
        assert (before[name] != after[name]).any(), name
    ended, length, returned = (info[name].reshape(72, 4) for name in ("ended", "length", "return"))
    np.testing.assert_array_equal(ended, np.tile(np.arange(1, 73)[:, None] % STEPS == 0, (1, 4)))
    np.testing.assert_array_equal(length[STEPS - 1 :], STEPS)
    expected = rewards.reshape(9, STEPS, 4).sum(axis=1)
    np.testing.assert_array_equal(returned[STEPS - 1 :: STEPS], expected)
    assert "final_observation" not in info
