"""Dreamer (Hafner et al. 2021) as in the paper's online benchmark, with and without carried memory.

The world model learns from windows of a replay, the actor and the critic from what it imagines after each of
their records. Where the paper and its program differ is told in docs/training.md.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from memory_maze.agents.dreamer.behaviour import choose_target, find_losses, find_returns, imagine
from memory_maze.agents.dreamer.config import Config, ProbeConfig
from memory_maze.agents.protocol import Window
from memory_maze.models.nets import MLP
from memory_maze.models.rssm import NORM_EPSILON, Latent, ReadyRSSM
from memory_maze.models.vision import pool
from memory_maze.models.world_model import Records, Sizes, WorldModel
from memory_maze.options import ACTIONS
from memory_maze.policies.protocol import Sight
from memory_maze.tasks import MAX_OBJECTS


class Acting(eqx.Module):
    """What is needed to act, with weights that are prepared."""

    encoder: Any
    rssm: ReadyRSSM
    actor: MLP
    downsample: int = eqx.field(static=True)

    def step(self, carry: Latent, sight: Sight, key: jax.Array) -> tuple[Latent, jax.Array]:
        """The state, sampled from the posterior, and the logits of the actions."""
        embed = self.encoder(pool(sight.image, self.downsample))
        action = to_one_hot(sight.action, sight.first)
        state = self.rssm.step(carry, embed, action, sight.first, self.rssm.sample_noise(key))
        return state, self.actor(state.vector)


class Network(eqx.Module):
    """All that is trained."""

    model: WorldModel
    actor: MLP
    critic: MLP
    probes: dict[str, MLP]  # by what they predict
    downsample: int = eqx.field(static=True)

    def __init__(self, key: jax.Array, config: Config) -> None:
        model_key, actor_key, critic_key, probe_key = jax.random.split(key, 4)
        dtype = jnp.bfloat16 if config.mixed_precision else jnp.float32
        sizes = Sizes(
            deter=config.deter,
            hidden=config.hidden,
            groups=config.groups,
            classes=config.classes,
            cell=config.cell,
            depth=config.depth,
            shrink=config.downsample,
            vision_units=config.vision_units,
            head_layers=config.head_layers,
            head_units=config.head_units,
        )
        self.model = WorldModel(model_key, len(ACTIONS), sizes, dtype, zero_heads=config.zero_heads)
        size, units, layers = self.model.rssm.state_size, config.head_units, config.head_layers

        def make(key: jax.Array, outputs: int) -> MLP:
            zero = config.zero_heads
            return MLP(key, size, units, layers, outputs, NORM_EPSILON, dtype, init="pytorch", zero=zero)

        self.actor, self.critic = make(actor_key, len(ACTIONS)), make(critic_key, 1)
        self.probes = _make_probes(probe_key, size, config, dtype)
        self.downsample = config.downsample

    def initial(self) -> Latent:
        """The carry at the start of an episode, of one stream."""
        return self.model.initial()

    def step(self, carry: Latent, sight: Sight, key: jax.Array) -> tuple[Latent, jax.Array]:
        """The state and the logits of the actions."""
        return self.ready().step(carry, sight, key)

    def ready(self) -> Acting:
        """What acts, for acting many times."""
        return Acting(self.model.encoder, self.model.rssm.ready(), self.actor, self.downsample)


def _make_probes(key: jax.Array, size: int, config: Config, dtype: Any) -> dict[str, MLP]:
    """Two coordinates of each object, and of the target. There is room for the objects of all tasks."""
    if not isinstance(config, ProbeConfig):
        return {}
    outputs = {"targets_vec": 2 * MAX_OBJECTS, "target_vec": 2}
    return {
        name: MLP(
            key, size, config.probe_units, config.probe_layers, count, NORM_EPSILON, dtype, init="pytorch"
        )
        for key, (name, count) in zip(jax.random.split(key), outputs.items(), strict=True)
    }


def to_one_hot(action: jax.Array, first: jax.Array) -> jax.Array:
    """(..., 6): the action that led here, or zeros where none did."""
    return jax.nn.one_hot(action, len(ACTIONS)) * ~first[..., None]


def to_records(window: Window) -> Records:
    """What the world model learns from."""
    return Records(
        image=window.image,
        action=to_one_hot(window.action, window.first),
        reward=window.reward,
        terminal=jnp.zeros_like(window.reward),  # the time limit truncates
        reset=window.reset,
    )


class Learner(NamedTuple):
    """What else there is of a run than its networks."""

    target: MLP  # the target critic
    model_optimizer: Any
    actor_optimizer: Any
    critic_optimizer: Any
    updates: jax.Array  # () int32


def init(key: jax.Array, config: Config) -> Network:
    """Networks with new weights."""
    return Network(key, config)


def begin(network: Network, config: Config) -> Learner:
    """The learner of a new run."""
    model, actor, critic = make_optimizers(config)
    nets: Any = network.actor, network.critic
    return Learner(
        # Copied, as both are donated.
        jax.tree.map(jnp.copy, network.critic),
        model.init(_trained(network)),
        actor.init(nets[0]),
        critic.init(nets[1]),
        jnp.int32(0),
    )


def make_optimizers(config: Config) -> list[optax.GradientTransformation]:
    """Of world model, actor and critic; each clips its own gradients."""
    rates = config.learning_rate, config.actor_learning_rate, config.critic_learning_rate
    return [
        optax.chain(
            optax.clip_by_global_norm(config.max_grad_norm),
            optax.adamw(rate, eps=config.adam_epsilon, weight_decay=config.weight_decay),
        )
        for rate in rates
    ]


def _trained(network: Network) -> Any:
    """World model and probes are one group."""
    return network.model, network.probes


def update(
    network: Network,
    learner: Learner,
    carry: Latent,
    window: Window,
    key: jax.Array,
    config: Config,
    axis: str | None = None,
) -> tuple[Network, Learner, Latent, dict[str, jax.Array]]:
    """One gradient step of each part; with the name of a mapped axis, on the windows of all devices."""
    model_key, dream_key = jax.random.split(key)
    records = to_records(window)

    def model_loss(parts: tuple[WorldModel, dict[str, MLP]]) -> tuple[jax.Array, Any]:
        model, probes = parts
        scales = {"kl": config.kl_scale, "reward": config.reward_scale}
        loss, learned = model.loss(carry, records, model_key, balance=config.kl_balance, scales=scales)
        asked = find_probe_losses(probes, learned.states.vector, window.others)
        return loss + sum(asked.values()), (learned, {"loss_total": loss} | learned.metrics | asked)

    of_model, (learned, metrics) = eqx.filter_grad(model_loss, has_aux=True)(_trained(network))
    if isinstance(config, ProbeConfig) and config.probe_head == "fixed":
        of_model = of_model[0], jax.tree.map(jnp.zeros_like, of_model[1])
    # All with the weights from before this update.
    starts = jax.tree.map(
        lambda leaf: leaf[:: config.imagine_every].reshape(-1, leaf.shape[-1]), learned.states
    )
    dream = imagine(network.model, network.actor, jax.lax.stop_gradient(starts), config.horizon, dream_key)
    target = choose_target(network.critic, learner.target, learner.updates, config.target_interval)
    found = find_returns(network.model, target, dream, config.discount, config.lambda_)

    def behaviour_loss(nets: tuple[MLP, MLP]) -> tuple[jax.Array, Any]:
        losses = find_losses(*nets, dream, found, config.entropy_cost)
        return losses.actor + losses.critic, losses

    nets = network.actor, network.critic
    of_nets, losses = eqx.filter_grad(behaviour_loss, has_aux=True)(nets)
    metrics |= {f"loss_{name}": value for name, value in losses._asdict().items()}
    metrics |= {
        "imagined_reward": found.rewards.mean(),
        "value": found.values[0].mean(),
        "advantage_deviation": found.advantages.std(),
    }
    if axis is not None:
        of_model, of_nets, metrics = jax.lax.pmean((of_model, of_nets, metrics), axis)
    gradients = of_model, *of_nets
    parts = _trained(network), *nets
    states = learner.model_optimizer, learner.actor_optimizer, learner.critic_optimizer
    applied = [_apply(*each) for each in zip(make_optimizers(config), gradients, states, parts, strict=True)]
    (parts, states) = zip(*applied, strict=True)
    for name, gradient in zip(("model", "actor", "critic"), gradients, strict=True):
        metrics[f"gradient_norm_{name}"] = optax.tree.norm(gradient)
    (model, probes), actor, critic = parts
    network = eqx.tree_at(
        lambda network: (network.model, network.probes, network.actor, network.critic),
        network,
        (model, probes, actor, critic),
    )
    return network, Learner(target, *states, learner.updates + 1), learned.carry, metrics


def _apply(optimizer: optax.GradientTransformation, gradients: Any, state: Any, parts: Any) -> tuple:
    changes, state = optimizer.update(gradients, state, parts)
    return eqx.apply_updates(parts, changes), state


def predict(network: Network, window: Window, seen: int, key: jax.Array) -> jax.Array:
    """(T, B, S, S, 3) uint8: images as decoded, of which only the first ones are seen.

    The others are imagined under the actions that were taken.
    """
    see_key, imagine_key = jax.random.split(key)
    model, records = network.model, to_records(window)
    rssm, rows = model.rssm.ready(), window.first.shape[1]
    carry = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (rows, *leaf.shape)), network.initial())
    first = jax.tree.map(lambda leaf: leaf[:seen], records)
    carry, states = model.observe(carry, first, see_key)

    def step(state: Latent, given: tuple[jax.Array, jax.Array]) -> tuple[Latent, Latent]:
        action, key = given
        state = rssm.imagine(state, action, rssm.sample_noise(jax.random.split(key, rows)))
        return state, state

    keys = jax.random.split(imagine_key, len(records.action) - seen)
    _, imagined = jax.lax.scan(step, carry, (records.action[seen:], keys))
    features = jnp.concatenate([states.vector, imagined.vector])
    return jnp.clip(jnp.round(255 * (model.decoder(features) + 0.5)), 0, 255).astype(jnp.uint8)


def find_probe_losses(
    probes: dict[str, MLP], features: jax.Array, truth: dict[str, jax.Array]
) -> dict[str, jax.Array]:
    """Half of the squared errors of all coordinates, as means over records."""
    losses = {}
    for name, probe in probes.items():
        right = truth[name].reshape(*features.shape[:-1], -1)
        wrong = probe(features)[..., : right.shape[-1]] - right
        losses[f"loss_{name}"] = 0.5 * jnp.square(wrong).sum(axis=-1).mean()
    return losses
