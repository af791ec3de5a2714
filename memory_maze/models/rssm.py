"""The recurrent state space model of DreamerV2 (Hafner et al. 2021): a world model's memory.

The state is a recurrent vector `deter` and `stoch`, one-hot vectors sampled from what is seen (the
posterior). The prior guesses them before anything is seen.

    deter_t = GRU(deter_{t-1}, stoch_{t-1}, action_t)
    prior_t(deter_t)    posterior_t(deter_t, embed_t)    stoch_t ~ posterior_t

`action_t` is the one that led to what is seen at t.
"""

import functools
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from memory_maze.models.nets import LayerNorm, Linear, elu, upper
from memory_maze.models.ops.recurrence import Layer, unroll

NORM_EPSILON = 1e-3
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
    """Steps over what was seen, or imagines what would be.

    Args:
        key: Of the weights.
        embed: Size of what is seen.
        actions: Size of an action.
        deter: Size of the recurrent vector.
        hidden: Units of the hidden layers.
        groups: How many one-hot vectors.
        classes: Their length.
        cell: "normed", the GRU of DreamerV2 with a layer norm over its gates, or "plain", the usual one.
        norms: Put a layer norm before the ELU of each hidden layer.
        dtype: Of the matrices' products.
    """

    enter: Linear  # stoch, action -> hidden
    enter_norm: LayerNorm | None
    gates: Linear  # hidden, deter -> 3 * deter; without deter in a plain cell
    recur: Linear | None  # deter -> 3 * deter, of a plain cell
    norm: LayerNorm | None  # of the gates
    see: Linear  # deter, embed -> hidden
    see_norm: LayerNorm | None
    posterior: Linear
    guess: Linear  # deter -> hidden
    guess_norm: LayerNorm | None
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
        *,
        cell: Literal["normed", "plain"] = "normed",
        norms: bool = False,
    ) -> None:
        keys = iter(jax.random.split(key, 6))
        stoch, plain = groups * classes, cell == "plain"
        # Each input has a matrix with limits of its own, where the norms are.
        join = _join_linear if norms else _whole_linear
        self.enter = join(next(keys), (stoch, actions), hidden)
        gates_key = next(keys)
        self.gates = Linear(gates_key, hidden if plain else hidden + deter, 3 * deter)
        self.recur = _orthogonal_linear(jax.random.fold_in(gates_key, 1), deter, 3 * deter) if plain else None
        self.norm = None if plain else LayerNorm(3 * deter, NORM_EPSILON)
        self.see = join(next(keys), (deter, embed), hidden)
        self.posterior = Linear(next(keys), hidden, stoch)
        self.guess = Linear(next(keys), deter, hidden)
        self.prior = Linear(next(keys), hidden, stoch)
        self.enter_norm, self.see_norm, self.guess_norm = (
            LayerNorm(hidden, NORM_EPSILON) if norms else None for _ in range(3)
        )
        self.groups, self.classes, self.dtype = groups, classes, dtype

    @property
    def deter_size(self) -> int:
        return self.gates.weight.shape[1] // 3

    @property
    def stoch_size(self) -> int:
        return self.groups * self.classes

    @property
    def state_size(self) -> int:
        return self.deter_size + self.stoch_size

    def initial(self) -> Latent:
        """Of one stream."""
        return Latent(jnp.zeros(self.deter_size), jnp.zeros(self.stoch_size))

    def observe(
        self, carry: Latent, embeds: jax.Array, actions: jax.Array, resets: jax.Array, key: jax.Array
    ) -> tuple[Latent, Latent, Beliefs]:
        """Steps over (T, ...) of what was seen; gives the carry, and (T, ...) states and beliefs."""
        noise = self.sample_noise(key, resets.shape)
        ready = self.ready()
        inputs = ready.from_action(actions), ready.from_embed(embeds)
        keep = 1 - resets[..., None].astype(jnp.float32)
        step = functools.partial(_step, self.groups, self.dtype)
        carry, (states, posterior) = unroll(step, ready.seeing, Latent(*carry), inputs, (keep, noise))
        return carry, states, Beliefs(posterior, self._guess(states.deter))

    def imagine(self, carry: Latent, action: jax.Array, key: jax.Array) -> Latent:
        """The state after an action, if nothing is seen."""
        return self.ready().imagine(carry, action, self.sample_noise(key, action.shape[:-1]))

    def sample_noise(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """(*shape, groups, classes) Gumbel noise: it samples a state."""
        return jax.random.gumbel(key, (*shape, self.groups, self.classes))

    def ready(self) -> "ReadyRSSM":
        """The same, for many steps: what is made of the weights is made once."""
        more = -len(self.enter.bias) % _MULTIPLE
        layers = {
            "enter": _widen_outputs(upper(self.enter, self.stoch_size), more),
            "gates": _widen_inputs(self.gates, len(self.enter.bias), more),
            "see": _widen_outputs(upper(self.see, self.deter_size), more),
            "posterior": _widen_inputs(self.posterior, len(self.see.bias), more),
            "guess": _widen_outputs(self.guess, more),
            "prior": _widen_inputs(self.prior, len(self.guess.bias), more),
        }
        layers |= {} if self.recur is None else {"recur": self.recur}
        layers = jax.tree.map(lambda leaf: leaf.astype(self.dtype), layers)
        for name in ("posterior", "prior"):
            layers[name] = _Logits(layers[name])
        for name in ("enter_norm", "see_norm", "guess_norm"):
            if (norm := getattr(self, name)) is not None:
                layers[name] = _WidenedNorm(norm, more)
        layers |= {} if self.norm is None else {"norm": self.norm}
        action = _widen(self.enter.weight[self.stoch_size :], more).astype(self.dtype)
        embed = _widen(self.see.weight[self.deter_size :], more).astype(self.dtype)
        return ReadyRSSM(layers, action, embed, self.groups, self.classes, self.dtype)

    def _guess(self, deter: jax.Array) -> jax.Array:
        hidden = self.guess(deter.astype(self.dtype))
        hidden = hidden if self.guess_norm is None else self.guess_norm(hidden).astype(self.dtype)
        prior = _Logits(jax.tree.map(lambda leaf: leaf.astype(self.dtype), self.prior))
        return _split(prior(elu(hidden)), self.groups)


class ReadyRSSM(eqx.Module):
    """An RSSM whose weights are prepared: it steps, and learns nothing."""

    layers: dict[str, Any]
    action: jax.Array  # (actions, hidden) of `enter`
    embed: jax.Array  # (embed, hidden) of `see`
    groups: int = eqx.field(static=True)
    classes: int = eqx.field(static=True)
    dtype: Any = eqx.field(static=True)

    def sample_noise(self, keys: jax.Array) -> jax.Array:
        """(..., groups, classes) Gumbel noise of one step, a key for each state."""
        sample = functools.partial(jax.random.gumbel, shape=(self.groups, self.classes))
        for _ in range(keys.ndim):
            sample = jax.vmap(sample)
        return sample(keys)

    @property
    def seeing(self) -> dict[str, Any]:
        """The layers that a step needs in which something is seen."""
        return {name: layer for name, layer in self.layers.items() if name not in _GUESSING}

    def from_action(self, actions: jax.Array) -> jax.Array:
        """(..., hidden): what does not depend on the state is done for all steps at once."""
        return actions.astype(self.dtype) @ self.action

    def from_embed(self, embeds: jax.Array) -> jax.Array:
        """Likewise."""
        return embeds.astype(self.dtype) @ self.embed

    def step(
        self, carry: Latent, embed: jax.Array, action: jax.Array, reset: jax.Array, noise: jax.Array
    ) -> Latent:
        """The state after one step of what was seen, as `observe` has it."""
        keep = 1 - reset[..., None].astype(jnp.float32)
        inputs = self.from_action(action), self.from_embed(embed)
        return _step(self.groups, self.dtype, self.layers, carry, inputs, (keep, noise))[0]

    def imagine(self, carry: Latent, action: jax.Array, noise: jax.Array) -> Latent:
        """The state after an action, if nothing is seen."""
        deter = _move(self.dtype, self.layers, carry, self.from_action(action))
        hidden = _activate(self.layers, "guess_norm", self.layers["guess"](deter.astype(self.dtype)))
        return Latent(deter, sample_one_hot(_split(self.layers["prior"](hidden), self.groups), noise))


_GUESSING = {"guess", "guess_norm", "prior"}


class _Logits(eqx.Module):
    """A layer whose products are summed up in float32, and stay so."""

    layer: Linear

    def __call__(self, x: jax.Array) -> jax.Array:
        product = jnp.matmul(x, self.layer.weight, preferred_element_type=jnp.float32)
        return product + self.layer.bias.astype(jnp.float32)


class _WidenedNorm(eqx.Module):
    """A layer norm of what was there before it was widened."""

    norm: LayerNorm
    more: int = eqx.field(static=True)

    def __call__(self, x: jax.Array) -> jax.Array:
        return _widen(self.norm(x[..., : len(self.norm.scale)]), self.more)


def _whole_linear(key: jax.Array, inputs: tuple[int, ...], outputs: int) -> Linear:
    return Linear(key, sum(inputs), outputs)


def _join_linear(key: jax.Array, inputs: tuple[int, ...], outputs: int) -> Linear:
    """A layer of several inputs, the weights of each of which are initialised for themselves."""
    keys = jax.random.split(key, len(inputs))
    parts = [Linear(key, size, outputs).weight for key, size in zip(keys, inputs, strict=True)]
    layer = Linear(key, 1, outputs)
    return eqx.tree_at(lambda layer: layer.weight, layer, jnp.concatenate(parts))


def _orthogonal_linear(key: jax.Array, inputs: int, outputs: int) -> Linear:
    weight = jax.nn.initializers.orthogonal()(key, (inputs, outputs))
    return eqx.tree_at(lambda layer: layer.weight, Linear(key, inputs, outputs), weight)


def _widen(x: jax.Array, more: int) -> jax.Array:
    """So many zeros at the end of the last axis: a size that GPUs like."""
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
    hidden = _activate(layers, "see_norm", layers["see"](deter.astype(dtype)) + from_embed)
    logits = _split(layers["posterior"](hidden), groups)
    state = Latent(deter, sample_one_hot(logits, noise))
    return state, (state, logits)


def _activate(layers: Mapping[str, Layer], norm: str, x: jax.Array) -> jax.Array:
    return elu(layers[norm](x).astype(x.dtype) if norm in layers else x)


def _move(dtype: Any, layers: Mapping[str, Layer], carry: Latent, from_action: jax.Array) -> jax.Array:
    hidden = _activate(layers, "enter_norm", layers["enter"](carry.stoch.astype(dtype)) + from_action)
    if "recur" in layers:
        sums = layers["gates"](hidden).astype(jnp.float32)
        recurrent = layers["recur"](carry.deter.astype(dtype)).astype(jnp.float32)
        reset, update, candidate = jnp.split(sums, 3, axis=-1)
        of_reset, of_update, of_candidate = jnp.split(recurrent, 3, axis=-1)
        candidate = jnp.tanh(candidate + jax.nn.sigmoid(reset + of_reset) * of_candidate)
        keep = jax.nn.sigmoid(update + of_update)
        return (1 - keep) * candidate + keep * carry.deter
    both = jnp.concatenate([hidden, carry.deter.astype(dtype)], axis=-1)
    reset, candidate, update = jnp.split(layers["norm"](layers["gates"](both)), 3, axis=-1)
    candidate = jnp.tanh(jax.nn.sigmoid(reset) * candidate)
    update = jax.nn.sigmoid(update - 1)  # remembers at first
    return update * candidate + (1 - update) * carry.deter


def _split(logits: jax.Array, groups: int) -> jax.Array:
    return logits.reshape(*logits.shape[:-1], groups, -1)


@jax.custom_vjp
def sample_one_hot(logits: jax.Array, noise: jax.Array) -> jax.Array:
    """One-hot samples, with the gradients of their probabilities (straight through)."""
    samples = jax.nn.one_hot(jnp.argmax(logits + noise, axis=-1), logits.shape[-1])
    return samples.reshape(*samples.shape[:-2], -1)


def _sample_forward(logits: jax.Array, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
    return sample_one_hot(logits, noise), logits


def _sample_backward(logits: jax.Array, cotangent: jax.Array) -> tuple[jax.Array, None]:
    probs, cotangent = jax.nn.softmax(logits), cotangent.reshape(logits.shape)
    return probs * (cotangent - (probs * cotangent).sum(axis=-1, keepdims=True)), None


sample_one_hot.defvjp(_sample_forward, _sample_backward)


def divergence(beliefs: Beliefs, balance: float = 0.8) -> jax.Array:
    """(...): KL of the posterior to the prior, which learns `balance` of it (Hafner et al. 2021)."""
    stop = jax.lax.stop_gradient
    to_prior = _divergence(stop(beliefs.posterior), beliefs.prior)
    to_posterior = _divergence(beliefs.posterior, stop(beliefs.prior))
    return balance * to_prior + (1 - balance) * to_posterior


def _divergence(one: jax.Array, two: jax.Array) -> jax.Array:
    one, two = jax.nn.log_softmax(one), jax.nn.log_softmax(two)
    return (jnp.exp(one) * (one - two)).sum(axis=(-2, -1))
