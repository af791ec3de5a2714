"""Dreamer's actor and critic (Hafner et al. 2021), as in the program of the Memory Maze paper.

They learn from what the world model imagines under the actor: REINFORCE with lambda-returns, whose values and
baseline are those of a target critic. No gradient reaches the world model.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from memory_maze.agents.returns import lambda_returns
from memory_maze.models.nets import MLP
from memory_maze.models.rssm import Latent
from memory_maze.models.world_model import WorldModel


class Dream(NamedTuple):
    """N imagined sequences of H actions."""

    features: jax.Array  # (H + 1, N, state_size): the first are those of the starts
    actions: jax.Array  # (H, N) int32


class Returns(NamedTuple):
    """What the actions of a dream were worth."""

    returns: jax.Array  # (H, N)
    advantages: jax.Array  # (H, N)
    weights: jax.Array  # (H, N): the chance that the episode had not ended before
    rewards: jax.Array  # (H, N): of the world model
    values: jax.Array  # (H + 1, N): of the target critic


class Losses(NamedTuple):
    """Means over all imagined steps."""

    actor: jax.Array
    critic: jax.Array
    entropy: jax.Array


def imagine(model: WorldModel, actor: MLP, starts: Latent, horizon: int, key: jax.Array) -> Dream:
    """What would follow (N, ...) states under the actor."""
    ready, actions = model.rssm.ready(), len(actor.out.bias)

    def step(state: Latent, key: jax.Array) -> tuple[Latent, tuple[jax.Array, jax.Array]]:
        action_key, state_key = jax.random.split(key)
        features = state.vector
        action = jax.random.categorical(action_key, actor(features)).astype(jnp.int32)
        noise = model.rssm.sample_noise(state_key, action.shape)
        return ready.imagine(state, jax.nn.one_hot(action, actions), noise), (features, action)

    last, (features, taken) = jax.lax.scan(step, starts, jax.random.split(key, horizon))
    dream = Dream(jnp.concatenate([features, last.vector[None]]), taken)
    return jax.lax.stop_gradient(dream)


def find_returns(
    model: WorldModel, target: MLP, dream: Dream, discount: float = 0.995, lambda_: float = 0.95
) -> Returns:
    """Of the world model's rewards and ends, and of the target critic's values."""
    rewards = model.reward(dream.features[1:])[..., 0]
    logits = model.terminal(dream.features)[..., 0]
    values = target(dream.features)[..., 0]
    goes_on = jax.nn.sigmoid(-logits)
    returns = lambda_returns(values, rewards, discount * goes_on[1:], lambda_)
    # A sum of logarithms, which a certain end makes very small and never NaN.
    weights = jnp.exp(jnp.cumsum(jax.nn.log_sigmoid(-logits), axis=0))[:-1]
    return jax.lax.stop_gradient(Returns(returns, returns - values[:-1], weights, rewards, values))


def find_losses(actor: MLP, critic: MLP, dream: Dream, found: Returns, entropy_cost: float = 0.001) -> Losses:
    """What actor and critic make smaller, each of its own."""
    logs = jax.nn.log_softmax(actor(dream.features[:-1]))
    taken = jnp.take_along_axis(logs, dream.actions[..., None], axis=-1)[..., 0]
    entropy = -(jnp.exp(logs) * logs).sum(axis=-1)
    policy = -(taken * found.advantages + entropy_cost * entropy)
    wrong = 0.5 * jnp.square(critic(dream.features[:-1])[..., 0] - found.returns)
    return Losses((found.weights * policy).mean(), (found.weights * wrong).mean(), entropy.mean())


def choose_target(critic: MLP, target: MLP, update: jax.Array, interval: int = 100) -> MLP:
    """The target critic of an update: the critic as it is, copied every so many updates."""
    copied = update % interval == 0
    return jax.tree.map(lambda new, old: jnp.where(copied, new, old), critic, target)
