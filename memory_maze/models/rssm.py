"""The recurrent state space model of DreamerV2 (Hafner et al. 2021): a world model's memory.

The state is a recurrent vector `deter` and `stoch`, one-hot vectors sampled from what is seen (the
posterior). The prior guesses them before anything is seen.

    deter_t = GRU(deter_{t-1}, stoch_{t-1}, action_t)
    prior_t(deter_t)    posterior_t(deter_t, embed_t)    stoch_t ~ posterior_t

`action_t` is the one that led to what is seen at t.
"""

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from memory_maze.models.nets import LayerNorm, Linear, elu, lower, upper
from memory_maze.models.ops.recurrence import Layer, unroll

_MULTIPLE = 64  # of which sizes should be for products of matrices; others are padded, in every step


class Latent(NamedTuple):
    """A state, also the carry. Leading axes are a batch, if there are any."""

    deter: jax.Array  # (..., deter_size)
    stoch: jax.Array  # (..., groups * classes): one-hot in each group

    @property
    def vector(self) -> jax.Array:
        return jnp.concatenate([self.deter, self.stoch], axis=-1)


class Beliefs(NamedTuple):
    """Logits (..., groups, classes)."""

    posterior: jax.Array
    prior: jax.Array


class RSSM(eqx.Module):
    """Steps over what was seen, or guesses what would be.

    Args:
        key: Of the weights.
        embed: Size of what is seen.
        actions: Size of an action.
        deter: Size of the recurrent vector.
        hidden: Units of the hidden layers.
        groups: How many one-hot vectors.
        classes: Their length.
        dtype: Of the matrices' products.
    """

    enter: Linear  # stoch, action -> hidden
    gates: Linear  # hidden, deter -> 3 * deter
    norm: LayerNorm
    see: Linear  # deter, embed -> hidden
    posterior: Linear
    guess: Linear  # deter -> hidden
    prior: Linear
    groups: int = eqx.field(static=True)
    classes: int = eqx.field(static=True)
    dtype: Any = eqx.field(static=True)

    def __init__(
        self,
        key: jax.Array,
        embed: int,
        actions: int,
        deter: int = 2048,
        hidden: int = 1000,
        groups: int = 32,
        classes: int = 32,
        dtype: Any = jnp.float32,
    ) -> None:
        keys = iter(jax.random.split(key, 6))
        stoch = groups * classes
        self.enter = Linear(next(keys), stoch + actions, hidden)
        self.gates = Linear(next(keys), hidden + deter, 3 * deter)
        self.norm = LayerNorm(3 * deter, epsilon=1e-3)
        self.see = Linear(next(keys), deter + embed, hidden)
        self.posterior = Linear(next(keys), hidden, stoch)
        self.guess = Linear(next(keys), deter, hidden)
        self.prior = Linear(next(keys), hidden, stoch)
        self.groups, self.classes, self.dtype = groups, classes, dtype

    @property
    def deter_size(self) -> int:
        return len(self.norm.scale) // 3

    @property
    def state_size(self) -> int:
        return self.deter_size + self.groups * self.classes

    def initial(self) -> Latent:
        """Of one stream."""
        return Latent(jnp.zeros(self.deter_size), jnp.zeros(self.groups * self.classes))

    def observe(
        self, carry: Latent, embeds: jax.Array, actions: jax.Array, resets: jax.Array, key: jax.Array
    ) -> tuple[Latent, Latent, Beliefs]:
        """Steps over (T, ...) of what was seen; gives the carry, and (T, ...) states and beliefs."""
        deter_size, stoch_size = self.deter_size, self.groups * self.classes
        # What does not depend on the state is done for all steps at once.
        from_action = lower(self.enter, stoch_size, actions.astype(self.dtype))
        from_embed = lower(self.see, deter_size, embeds.astype(self.dtype))
        noise = jax.random.gumbel(key, (*resets.shape, self.groups, self.classes))
        keep = 1 - resets[..., None].astype(jnp.float32)
        # Once, and not in every step: the type, and a size that GPUs like.
        more = -len(self.enter.bias) % _MULTIPLE
        layers = {
            "enter": _widen_outputs(upper(self.enter, stoch_size), more),
            "gates": _widen_inputs(self.gates, len(self.enter.bias), more),
            "see": _widen_outputs(upper(self.see, deter_size), more),
            "posterior": _widen_inputs(self.posterior, len(self.see.bias), more),
        }
        layers = jax.tree.map(lambda leaf: leaf.astype(self.dtype), layers) | {"norm": self.norm}
        step = functools.partial(_step, self.groups, self.dtype)
        inputs, given = (_widen(from_action, more), _widen(from_embed, more)), (keep, noise)
        carry, (states, posterior) = unroll(step, layers, Latent(*carry), inputs, given)
        return carry, states, Beliefs(posterior, self._guess(states.deter))

    def imagine(self, carry: Latent, action: jax.Array, key: jax.Array) -> Latent:
        """The state after an action, if nothing is seen."""
        stoch_size = self.groups * self.classes
        layers = {"enter": upper(self.enter, stoch_size), "gates": self.gates, "norm": self.norm}
        from_action = lower(self.enter, stoch_size, action.astype(self.dtype))
        deter = _move(self.dtype, layers, carry, from_action)
        logits = self._guess(deter)
        return Latent(deter, _sample(logits, jax.random.gumbel(key, logits.shape)))

    def _guess(self, deter: jax.Array) -> jax.Array:
        return _split(self.prior(elu(self.guess(deter.astype(self.dtype)))), self.groups)


def _widen(x: jax.Array, more: int) -> jax.Array:
    """So many zeros at the end of the last axis."""
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, more)])


def _widen_outputs(layer: Linear, more: int) -> Linear:
    """With so many outputs that are 0."""
    return jax.tree.map(lambda leaf: _widen(leaf, more), layer)


def _widen_inputs(layer: Linear, at: int, more: int) -> Linear:
    """With so many inputs, from the given one on, that do nothing."""
    first, last = layer.weight[:at], layer.weight[at:]
    zeros = jnp.zeros((more, layer.weight.shape[1]))
    return eqx.tree_at(lambda layer: layer.weight, layer, jnp.concatenate([first, zeros, last]))


# The loop takes no weights but those of its layers: what it does is not part of the module.


def _step(
    groups: int,
    dtype: Any,
    layers: Mapping[str, Layer],
    carry: Latent,
    inputs: tuple[jax.Array, jax.Array],
    given: tuple[jax.Array, jax.Array],
) -> tuple[Latent, Any]:
    (from_action, from_embed), (keep, noise) = inputs, given
    deter = _move(dtype, layers, Latent(keep * carry.deter, keep * carry.stoch), from_action)
    hidden = elu(layers["see"](deter.astype(dtype)) + from_embed)
    logits = _split(layers["posterior"](hidden), groups)
    state = Latent(deter, _sample(logits, noise))
    return state, (state, logits)


def _move(dtype: Any, layers: Mapping[str, Layer], carry: Latent, from_action: jax.Array) -> jax.Array:
    hidden = elu(layers["enter"](carry.stoch.astype(dtype)) + from_action)
    both = jnp.concatenate([hidden, carry.deter.astype(dtype)], axis=-1)
    gate, candidate, update = jnp.split(layers["norm"](layers["gates"](both)), 3, axis=-1)
    candidate = jnp.tanh(jax.nn.sigmoid(gate) * candidate)
    update = jax.nn.sigmoid(update - 1)  # remembers at first
    return update * candidate + (1 - update) * carry.deter


def _split(logits: jax.Array, groups: int) -> jax.Array:
    return logits.astype(jnp.float32).reshape(*logits.shape[:-1], groups, -1)


@jax.custom_vjp
def _sample(logits: jax.Array, noise: jax.Array) -> jax.Array:
    """One-hot samples, with the gradients of their probabilities (straight through)."""
    samples = jax.nn.one_hot(jnp.argmax(logits + noise, axis=-1), logits.shape[-1])
    return samples.reshape(*samples.shape[:-2], -1)


def _sample_forward(logits: jax.Array, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
    return _sample(logits, noise), logits


def _sample_backward(logits: jax.Array, cotangent: jax.Array) -> tuple[jax.Array, None]:
    probs, cotangent = jax.nn.softmax(logits), cotangent.reshape(logits.shape)
    return probs * (cotangent - (probs * cotangent).sum(axis=-1, keepdims=True)), None


_sample.defvjp(_sample_forward, _sample_backward)


def divergence(beliefs: Beliefs, balance: float = 0.8) -> jax.Array:
    """(...): KL of the posterior to the prior, which learns `balance` of it (Hafner et al. 2021)."""
    stop = jax.lax.stop_gradient
    to_prior = _divergence(stop(beliefs.posterior), beliefs.prior)
    to_posterior = _divergence(beliefs.posterior, stop(beliefs.prior))
    return balance * to_prior + (1 - balance) * to_posterior


def _divergence(one: jax.Array, two: jax.Array) -> jax.Array:
    one, two = jax.nn.log_softmax(one), jax.nn.log_softmax(two)
    return (jnp.exp(one) * (one - two)).sum(axis=(-2, -1))
