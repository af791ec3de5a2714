"""The paper's sequence models (section Offline Experiments), with its hyperparameters."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from memory_maze.models.cores.gru import GRU
from memory_maze.models.nets import MLP
from memory_maze.models.rssm import RSSM, Latent, divergence
from memory_maze.models.vision import make_vision
from memory_maze.options import ACTIONS
from memory_maze.probing.model import Carry, Learned, Sequence, SequenceModel
from memory_maze.system.limits import check_between, check_least

_NORM_EPSILON = 1e-3  # of the dynamics' layers, as of the probes'


@dataclasses.dataclass(frozen=True)
class Config:
    """The hyperparameters of all baselines."""

    recurrent: int = 2048
    """Size of the recurrent state."""
    hidden: int = 1000
    """Units of the RSSM's hidden layers."""
    groups: int = 32
    """Number of categorical variables in the RSSM's stochastic state."""
    classes: int = 32
    """Number of classes per variable."""
    divergence: float = 1.0
    """Scale of the RSSM's KL loss."""
    balance: float = 0.8
    """KL balancing: weight of the prior's loss."""
    latent: int = 32
    """Size of the VAE's embedding."""
    latent_units: int = 256
    """Units of the hidden layer before the embedding."""
    vae_divergence: float = 0.1
    """Scale of the VAE's KL loss."""
    dynamics_layers: int = 2
    """Hidden layers of the network that predicts the next embedding."""
    dynamics_units: int = 400
    """Units per layer of that network."""
    depth: int = 48
    """Channels of the first convolution; later ones have multiples of it."""
    shrink: int = 1
    """If more than 1, downsample the image by this factor and use no convolutions."""
    mixed_precision: bool = True
    """Compute large matrix products in bfloat16."""

    def __post_init__(self) -> None:
        for name in (
            *("recurrent", "hidden", "groups", "classes", "latent", "latent_units"),
            *("dynamics_layers", "dynamics_units", "depth", "shrink"),
        ):
            check_least(1, **{name: getattr(self, name)})
        check_least(0, divergence=self.divergence, vae_divergence=self.vae_divergence)
        check_between(0, 1, balance=self.balance)

    @property
    def dtype(self) -> Any:
        return jnp.bfloat16 if self.mixed_precision else jnp.float32


PRESETS = {
    "paper": Config(),
    "small": Config(
        recurrent=256,
        hidden=128,
        groups=16,
        classes=16,
        latent_units=128,
        dynamics_units=128,
        depth=16,
        shrink=4,
        mixed_precision=False,
    ),
    "debug": Config(
        recurrent=16,
        hidden=8,
        groups=2,
        classes=4,
        latent=4,
        latent_units=8,
        dynamics_units=8,
        depth=1,
        shrink=8,
        mixed_precision=False,
    ),
}


class VAE(SequenceModel):
    """A VAE of single images (Kingma & Welling 2014), without memory."""

    encoder: Any
    moments: MLP
    decoder: Any
    scale: float = eqx.field(static=True)
    state_size: int = eqx.field(static=True)

    def __init__(self, key: jax.Array, config: Config) -> None:
        vision_key, key = jax.random.split(key)
        self.encoder, self.decoder = make_vision(
            vision_key, config.latent, config.depth, config.shrink, config.dtype
        )
        self.moments = MLP(
            key, self.encoder.outputs, config.latent_units, 1, 2 * config.latent, dtype=config.dtype
        )
        self.scale, self.state_size = config.vae_divergence, config.latent

    def initial(self) -> Carry:
        return ()

    def embed(self, images: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Mean and logarithm of the standard deviation, (..., latent)."""
        mean, log_std = jnp.split(self.moments(self.encoder(images)), 2, axis=-1)
        return mean, jnp.clip(log_std, -10.0, 5.0)

    def learn(self, images: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array, dict[str, jax.Array]]:
        """The loss, the means, and metrics."""
        mean, log_std = self.embed(images)
        drawn = mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape)
        image = self.decoder.loss(drawn, images).mean()
        diverged = 0.5 * (jnp.square(mean) + jnp.exp(2 * log_std) - 1 - 2 * log_std).sum(axis=-1).mean()
        metrics = {"loss_image": image, "loss_divergence": diverged}
        return image + self.scale * diverged, mean, metrics

    def observe(self, carry: Carry, sequence: Sequence, key: jax.Array) -> tuple[Carry, jax.Array]:
        return carry, self.embed(sequence.image)[0]

    def loss(self, carry: Carry, sequence: Sequence, key: jax.Array) -> tuple[jax.Array, Learned]:
        loss, mean, metrics = self.learn(sequence.image, key)
        return loss, Learned(carry, mean, metrics)


class VAEGRU(SequenceModel):
    """A GRU over a VAE's embeddings that predicts the next one (Ha & Schmidhuber 2018)."""

    vae: VAE
    core: GRU
    dynamics: MLP
    supervised: bool = eqx.field(static=True)
    state_size: int = eqx.field(static=True)

    def __init__(self, key: jax.Array, config: Config, supervised: bool = False) -> None:
        vae_key, core_key, key = jax.random.split(key, 3)
        self.vae = VAE(vae_key, config)
        self.core = GRU(core_key, config.latent + len(ACTIONS), config.recurrent, config.dtype)
        self.dynamics = MLP(
            key,
            config.recurrent + len(ACTIONS),
            config.dynamics_units,
            config.dynamics_layers,
            config.latent,
            _NORM_EPSILON,
            config.dtype,
        )
        self.supervised, self.state_size = supervised, config.recurrent

    def initial(self) -> Carry:
        return self.core.initial()

    def observe(self, carry: Carry, sequence: Sequence, key: jax.Array) -> tuple[Carry, jax.Array]:
        return self._remember(carry, sequence, self.vae.embed(sequence.image)[0])

    def loss(self, carry: Carry, sequence: Sequence, key: jax.Array) -> tuple[jax.Array, Learned]:
        loss, embeds, metrics = self.vae.learn(sequence.image, key)
        # The VAE alone learns embeddings, unless the probe may reach them; then so does the prediction.
        inputs = embeds if self.supervised else jax.lax.stop_gradient(embeds)
        carry, states = self._remember(carry, sequence, inputs)
        guesses = self.dynamics(jnp.concatenate([states[:-1], sequence.action[1:]], axis=-1))
        wrong = 0.5 * jnp.square(guesses - jax.lax.stop_gradient(embeds[1:])).sum(axis=-1)
        follows = ~sequence.reset[1:]
        prediction = (wrong * follows).sum() / jnp.maximum(follows.sum(), 1)
        metrics["loss_prediction"] = prediction
        return loss + prediction, Learned(carry, states, metrics)

    def _remember(self, carry: Carry, sequence: Sequence, embeds: jax.Array) -> tuple[Carry, jax.Array]:
        inputs = jnp.concatenate([embeds, sequence.action], axis=-1)
        return self.core.unroll(carry, inputs, sequence.reset)


class WorldModel(SequenceModel):
    """DreamerV2's world model without rewards: an RSSM that predicts pictures."""

    encoder: Any
    rssm: RSSM
    decoder: Any
    scale: float = eqx.field(static=True)
    balance: float = eqx.field(static=True)
    carries: bool = eqx.field(static=True)
    frozen: bool = eqx.field(static=True)
    state_size: int = eqx.field(static=True)

    def __init__(self, key: jax.Array, config: Config, carries: bool = True, frozen: bool = False) -> None:
        vision_key, key = jax.random.split(key)
        size = config.recurrent + config.groups * config.classes
        self.encoder, self.decoder = make_vision(vision_key, size, config.depth, config.shrink, config.dtype)
        self.rssm = RSSM(
            key,
            self.encoder.outputs,
            len(ACTIONS),
            config.recurrent,
            config.hidden,
            config.groups,
            config.classes,
            config.dtype,
        )
        self.scale, self.balance = config.divergence, config.balance
        self.carries, self.frozen, self.state_size = carries, frozen, size

    def initial(self) -> Latent:
        return self.rssm.initial()

    def observe(self, carry: Latent, sequence: Sequence, key: jax.Array) -> tuple[Latent, jax.Array]:
        embeds = self.encoder(sequence.image)
        carry, states, _ = self.rssm.observe(carry, embeds, sequence.action, sequence.reset, key)
        return carry, states.vector

    def loss(self, carry: Latent, sequence: Sequence, key: jax.Array) -> tuple[jax.Array, Learned]:
        embeds = self.encoder(sequence.image)
        carry, states, beliefs = self.rssm.observe(carry, embeds, sequence.action, sequence.reset, key)
        image = self.decoder.loss(states.vector, sequence.image).mean()
        diverged = divergence(beliefs, self.balance).mean()
        metrics = {"loss_image": image, "loss_divergence": diverged}
        return image + self.scale * diverged, Learned(carry, states.vector, metrics)


# In the order of the paper's table, and by its names.
MODELS: dict[str, Callable[[jax.Array, Config], SequenceModel]] = {
    "vae": VAE,
    "supervised": functools.partial(VAEGRU, supervised=True),
    "rssm": functools.partial(WorldModel, carries=False),
    "vae-gru": VAEGRU,
    "rssm-tbtt": WorldModel,
    "rssm-untrained": functools.partial(WorldModel, frozen=True),
}
TITLES = {
    "constant": "Constant baseline",
    "vae": "VAE (no memory)",
    "supervised": "Supervised oracle",
    "rssm": "RSSM",
    "vae-gru": "VAE+GRU (TBTT)",
    "rssm-tbtt": "RSSM (TBTT)",
    "rssm-untrained": "RSSM, untrained",
}
