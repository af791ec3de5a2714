"""The interface of memory cores.

A core has two equivalent modes: step by step while acting,

    carry, out = core(carry, x, reset)

and over a whole sequence while training:

    carry, outs = core.unroll(carry, xs, resets)

The carry is a pytree of arrays. Leading axes, if any, are batch axes; the first axis of a sequence is time.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

Carry = Any  # a pytree of arrays


class Core(eqx.Module):
    """A memory core, created by the `make` method of its config.

    Subclasses set `output_size` and implement `initial` and `step`. Computation that does not depend on the
    carry belongs in `prepare`, which `unroll` applies to all steps at once. Override `unroll` for a faster
    equivalent of the steps, such as a parallel scan or a scan with a custom gradient.
    """

    output_size: int = eqx.field(static=True, kw_only=True)
    """Size of the output; independent of the carry."""

    @abc.abstractmethod
    def initial(self) -> Carry:
        """Returns the carry at the start of an episode, without batch axes."""

    @abc.abstractmethod
    def step(self, carry: Carry, prepared: jax.Array) -> tuple[Carry, jax.Array]:
        """Returns the next carry and the output (..., output_size) for a prepared input."""

    def prepare(self, x: jax.Array) -> jax.Array:
        """Transforms inputs for `step`: (..., inputs) to (..., anything)."""
        return x

    def __call__(self, carry: Carry, x: jax.Array, reset: jax.Array) -> tuple[Carry, jax.Array]:
        """Takes a single step.

        Args:
            carry: Carry after the previous step.
            x: (..., inputs).
            reset: (...) bool: whether this is the first step of an episode, which starts from `initial()`.
        """
        return self.step(self.forget(carry, reset), self.prepare(x))

    def unroll(self, carry: Carry, xs: jax.Array, resets: jax.Array) -> tuple[Carry, jax.Array]:
        """Steps over a sequence.

        Args:
            carry: Carry before the first step.
            xs: (T, ..., inputs).
            resets: (T, ...) bool.

        Returns:
            The carry after the last step, and the outputs (T, ..., output_size).
        """

        def step(carry: Carry, inputs: tuple[jax.Array, jax.Array]) -> tuple[Carry, jax.Array]:
            prepared, reset = inputs
            return self.step(self.forget(carry, reset), prepared)

        return lax.scan(step, carry, (self.prepare(xs), resets))

    def forget(self, carry: Carry, reset: jax.Array) -> Carry:
        """Replaces the carry by the initial one where `reset` (...) is true."""

        def choose(new: jax.Array, old: jax.Array) -> jax.Array:
            return jnp.where(jnp.expand_dims(reset, range(reset.ndim, old.ndim)), new, old)

        return jax.tree.map(choose, self.initial(), carry)
