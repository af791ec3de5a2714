"""IMPALA (Espeholt et al. 2018) as in the paper's online benchmark: V-trace, a ResNet and an LSTM."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from memory_maze.agents.impala.config import Config
from memory_maze.agents.protocol import Sequence
from memory_maze.agents.returns import Vtrace, vtrace
from memory_maze.models.cores.core import Carry, Core
from memory_maze.models.cores.forgetful import Forgetful
from memory_maze.models.nets import Linear, ResNet
from memory_maze.options import ACTIONS
from memory_maze.policies.protocol import Sight


class Network(eqx.Module):
    """What the agent is. Leading axes are a batch, if there are any."""

    torso: ResNet
    core: Core
    policy: Linear
    value: Linear

    def __init__(self, key: jax.Array, config: Config) -> None:
        torso_key, core_key, policy_key, value_key = jax.random.split(key, 4)
        dtype = jnp.bfloat16 if config.mixed_precision else jnp.float32
        self.torso = ResNet(
            torso_key,
            config.features,
            config.channels,
            blocks=config.blocks,
            fold=config.space_to_depth,
            shrink=config.downsample,
            normalize=config.normalize,
            small=config.keras_init,
            dtype=dtype,
        )
        core = config.core.make(core_key, config.features + len(ACTIONS) + 1)
        self.core = core if config.forget_every is None else Forgetful(core, config.forget_every)
        self.policy = Linear(policy_key, core.output_size, len(ACTIONS), scale=0.1)
        self.value = Linear(value_key, core.output_size, 1, scale=0.1)

    def initial(self) -> Carry:
        """The carry at the start of an episode, of one stream."""
        return self.core.initial()

    def step(self, carry: Carry, sight: Sight, key: jax.Array) -> tuple[Carry, jax.Array]:
        """The carry and the logits of the actions. It samples nothing."""
        carry, hidden = self.core(carry, self.perceive(sight), sight.first)
        return carry, self.policy(hidden)

    def unroll(self, carry: Carry, sights: Sight) -> tuple[jax.Array, jax.Array]:
        """Logits (T, ..., 6) and values (T, ...) of (T, ...) sights."""
        _, hidden = self.core.unroll(carry, self.perceive(sights), sights.first)
        return self.policy(hidden), self.value(hidden)[..., 0]

    def perceive(self, sight: Sight) -> jax.Array:
        """What the memory is told."""
        action = jax.nn.one_hot(sight.action, len(ACTIONS)) * ~sight.first[..., None]
        reward = jnp.clip(sight.reward, -1, 1)[..., None]
        return jnp.concatenate([self.torso(sight.image), action, reward], axis=-1)

    def ready(self) -> "Network":
        """The same, for acting many times."""
        return eqx.tree_at(lambda network: network.torso, self, self.torso.ready())


def init(key: jax.Array, config: Config) -> Network:
    """A network with new weights."""
    return Network(key, config)


class Losses(NamedTuple):
    """Means over all steps."""

    total: jax.Array
    policy: jax.Array
    value: jax.Array
    entropy: jax.Array


def loss(network: Network, sequence: Sequence, config: Config) -> Losses:
    """What the update makes smaller."""
    logits, values = network.unroll(sequence.carry, sequence.sights)
    now, then = jax.nn.log_softmax(logits[:-1]), jax.nn.log_softmax(sequence.logits)
    log_now, log_then = (_pick(log, sequence.actions) for log in (now, then))
    first, reward = sequence.sights.first, sequence.sights.reward
    ratios = jnp.exp(jax.lax.stop_gradient(log_now) - log_then)
    result = find_targets(jax.lax.stop_gradient(values), reward, ratios, first, sequence.truncated, config)
    counts = 1.0 - first[1:]
    policy = -_gain(log_now, log_then, result, config.clip_ratio).mean()
    value = 0.5 * (jnp.square(result.targets - values[:-1]) * counts).mean()
    entropy = -((jnp.exp(now) * now).sum(axis=-1) * counts).mean()
    total = policy + config.value_cost * value - config.entropy_cost * entropy
    return Losses(total, policy, value, entropy)


def find_targets(
    values: jax.Array,
    rewards: jax.Array,
    ratios: jax.Array,
    first: jax.Array,
    truncated: jax.Array,
    config: Config,
) -> Vtrace:
    """V-trace of (T + 1, ...) values, rewards and first steps, and of (T, ...) ratios and truncations."""
    # The action before a new episode begins does nothing. Without a ratio its error is 0, and does not run
    # back into the episode before, which the value of its last state bootstraps.
    counts = 1.0 - first[1:]
    goes_on = counts * ~truncated if config.time_limit == "terminate" else counts
    result = vtrace(values, rewards[1:] * counts, config.discount * goes_on, ratios * counts, config.lambda_)
    return result._replace(advantages=result.advantages * counts)


def _gain(log_now: jax.Array, log_then: jax.Array, result: Vtrace, trust: float | None) -> jax.Array:
    """(T, B): what its gradient makes the policy prefer."""
    if trust is None:
        return log_now * result.ratios * result.advantages
    ratios = jnp.exp(log_now - log_then)
    clipped = jnp.clip(ratios, 1 - trust, 1 + trust)
    return jnp.minimum(ratios * result.advantages, clipped * result.advantages)


def _pick(logs: jax.Array, actions: jax.Array) -> jax.Array:
    """(T, B) of (T, B, 6)."""
    return jnp.take_along_axis(logs, actions[..., None], axis=-1)[..., 0]


def make_optimizer(config: Config) -> optax.GradientTransformation:
    rate: Any = config.learning_rate
    if config.lr_decay_steps is not None:
        updates = config.epochs * config.lr_decay_steps // (config.batch_size * config.unroll_length)
        rate = optax.linear_schedule(rate, config.lr_end_fraction * rate, updates)
    adam = optax.adam(rate, b1=config.adam_b1, eps=config.adam_epsilon)
    if config.max_grad_norm is None:
        return adam
    return optax.chain(optax.clip_by_global_norm(config.max_grad_norm), adam)


def update(
    network: Network, optimizer_state: Any, batch: Sequence, config: Config, axis: str | None = None
) -> tuple[Network, Any, dict[str, jax.Array]]:
    """One gradient step; with the name of a mapped axis, on the sequences of all devices together."""

    def total_loss(network: Network) -> tuple[jax.Array, Losses]:
        losses = loss(network, batch, config)
        return losses.total, losses

    gradients, losses = eqx.filter_grad(total_loss, has_aux=True)(network)
    if axis is not None:
        gradients, losses = jax.lax.pmean((gradients, losses), axis)
    changes, optimizer_state = make_optimizer(config).update(gradients, optimizer_state)
    network = eqx.apply_updates(network, changes)
    metrics = {f"loss_{name}": value for name, value in losses._asdict().items()}
    return network, optimizer_state, metrics | {"gradient_norm": optax.tree.norm(gradients)}
