"""What a memory is: the interface.

It is used in two ways, which give the same: step by step while acting,

    carry, out = core(carry, x, reset)

and over a whole sequence while learning:

    carry, outs = core.unroll(carry, xs, resets)

The carry is a pytree of arrays. Leading axes are a batch, if there are any; the first one of a sequence is
time.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

Carry = Any  # a pytree of arrays


class Core(eqx.Module):
    """A memory, made by the `make` of its config.

    A subclass sets `output_size`, and has `initial` and `step`. What does not depend on the carry belongs to
    `prepare`, which `unroll` does for all steps at once. `unroll` may be overridden too, by anything that
    gives what the steps would: all of them in parallel, or a scan with a gradient of its own.
    """

    output_size: int = eqx.field(static=True, kw_only=True)
    """Size of the output, whatever the carry is."""

    @abc.abstractmethod
    def initial(self) -> Carry:
        """The carry at the start of an episode, of one stream: without the axes of a batch."""

    @abc.abstractmethod
    def step(self, carry: Carry, prepared: jax.Array) -> tuple[Carry, jax.Array]:
        """The next carry and the output (..., output_size), from a prepared input."""

    def prepare(self, x: jax.Array) -> jax.Array:
        """What a step needs of its input; (..., inputs) to (..., anything)."""
        return x

    def __call__(self, carry: Carry, x: jax.Array, reset: jax.Array) -> tuple[Carry, jax.Array]:
        """One step.

        Args:
            carry: After the step before.
            x: (..., inputs).
            reset: (...) bool: an episode begins with this step, and nothing before it may be known.
        """
        return self.step(self.forget(carry, reset), self.prepare(x))

    def unroll(self, carry: Carry, xs: jax.Array, resets: jax.Array) -> tuple[Carry, jax.Array]:
        """Steps over a sequence.

        Args:
            carry: Before the first step.
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
        """The initial carry where it is reset (...), and elsewhere the carry as it is."""

        def choose(new: jax.Array, old: jax.Array) -> jax.Array:
            return jnp.where(jnp.expand_dims(reset, range(reset.ndim, old.ndim)), new, old)

        return jax.tree.map(choose, self.initial(), carry)
