"""A world model: an RSSM that predicts images, rewards and ends of episodes (Hafner et al. 2021).

As in the program of the Memory Maze paper: all three heads read the whole state, and send gradients into it.
"""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from memory_maze.models.nets import MLP
from memory_maze.models.rssm import NORM_EPSILON, RSSM, Latent, divergence
from memory_maze.models.vision import make_vision


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Of a world model; by default those of the paper."""

    deter: int = 2048
    """Length of the recurrent vector."""
    hidden: int = 1000
    """Units of the RSSM's hidden layers."""
    groups: int = 32
    """One-hot vectors in the stochastic state."""
    classes: int = 32
    """Length of each."""
    cell: Literal["plain", "normed"] = "plain"
    """The recurrent cell: a plain GRU, or DreamerV2's with a layer norm."""
    depth: int = 48
    """Channels of the first convolution."""
    shrink: int = 1
    """See the means of squares of so many pixels, by a small network without convolutions."""
    vision_units: int = 96
    """Units of its hidden layer."""
    head_layers: int = 4
    """Hidden layers of the heads."""
    head_units: int = 400
    """Units of each."""


class Records(NamedTuple):
    """What happened: T steps of B streams, time first."""

    image: jax.Array  # (T, B, S, S, 3) uint8
    action: jax.Array  # (T, B, actions) float32: one-hot, the one that led to the image; 0 at a start
    reward: jax.Array  # (T, B) float32: with the image
    terminal: jax.Array  # (T, B) float32: 1 where the episode ended with the image
    reset: jax.Array  # (T, B) bool: the state before is to be forgotten


class Learned(NamedTuple):
    """What a world model learned from."""

    carry: Latent  # after the records
    states: Latent  # (T, B, ...)
    metrics: dict[str, jax.Array]


class WorldModel(eqx.Module):
    """Predicts what is seen, and imagines what would be."""

    encoder: Any
    rssm: RSSM
    decoder: Any
    reward: MLP
    terminal: MLP

    def __init__(
        self,
        key: jax.Array,
        actions: int,
        sizes: Sizes,
        dtype: Any = jnp.float32,
        *,
        zero_heads: bool = False,
    ) -> None:
        vision_key, rssm_key, reward_key, terminal_key = jax.random.split(key, 4)
        size = sizes.deter + sizes.groups * sizes.classes
        net = {"units": sizes.vision_units, "layers": 1, "epsilon": NORM_EPSILON}
        self.encoder, self.decoder = make_vision(vision_key, size, sizes.depth, sizes.shrink, dtype, **net)
        self.rssm = RSSM(
            rssm_key,
            self.encoder.outputs,
            actions,
            sizes.deter,
            sizes.hidden,
            sizes.groups,
            sizes.classes,
            dtype,
            cell=sizes.cell,
            norms=True,
        )
        self.reward, self.terminal = (
            MLP(key, size, sizes.head_units, sizes.head_layers, 1, NORM_EPSILON, dtype, zero=zero_heads)
            for key in (reward_key, terminal_key)
        )

    def initial(self) -> Latent:
        """Of one stream."""
        return self.rssm.initial()

    def observe(self, carry: Latent, records: Records, key: jax.Array) -> tuple[Latent, Latent]:
        """The carry after records, and the (T, B, ...) states on the way."""
        embeds = self.encoder(records.image)
        return self.rssm.observe(carry, embeds, records.action, records.reset, key)[:2]

    def loss(
        self,
        carry: Latent,
        records: Records,
        key: jax.Array,
        *,
        balance: float = 0.8,
        scales: Mapping[str, float] = MappingProxyType({}),
    ) -> tuple[jax.Array, Learned]:
        """The mean over all records of minus their logarithmic probability, and of the KL.

        Args:
            carry: Of the RSSM, before the records.
            records: What to learn from.
            key: Of the samples.
            balance: The share of the KL's gradient that the prior learns from.
            scales: Coefficients of "image", "reward", "terminal" and "kl" that are not 1.
        """
        embeds = self.encoder(records.image)
        carry, states, beliefs = self.rssm.observe(carry, embeds, records.action, records.reset, key)
        features = states.vector
        rewards, ends = self.reward(features)[..., 0], self.terminal(features)[..., 0]
        losses = {
            "image": self.decoder.loss(features, records.image),
            "reward": 0.5 * jnp.square(rewards - records.reward),
            "terminal": jax.nn.softplus(ends) - records.terminal * ends,
            "kl": divergence(beliefs, balance),
        }
        means = {name: values.mean() for name, values in losses.items()}
        paid = records.reward > 0
        metrics = {f"loss_{name}": value for name, value in means.items()}
        # Nothing is learned in imagination before rewards are predicted.
        metrics["predicted_reward"] = (rewards * paid).sum() / jnp.maximum(paid.sum(), 1)
        total = sum((scales.get(name, 1.0) * mean for name, mean in means.items()), jnp.float32(0))
        return total, Learned(jax.lax.stop_gradient(carry), states, metrics)
