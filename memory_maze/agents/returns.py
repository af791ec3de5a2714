"""What actions were worth: pure functions of one stream."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class Vtrace(NamedTuple):
    """Of T steps."""

    targets: jax.Array  # (T,) for the values
    advantages: jax.Array  # (T,) for the policy


def vtrace(
    values: jax.Array,
    rewards: jax.Array,
    discounts: jax.Array,
    ratios: jax.Array,
    decay: float = 1.0,
    clip: float = 1.0,
) -> Vtrace:
    """V-trace (Espeholt et al. 2018, "IMPALA"), with a decay as of lambda-returns.

    Args:
        values: (T + 1,) of the states, the last for bootstrapping.
        rewards: (T,) after each action.
        discounts: (T,) of what follows each action; 0 where nothing does.
        ratios: (T,) probability of the action now and when it was taken.
        decay: lambda.
        clip: Of the ratios.
    """
    clipped = jnp.minimum(ratios, clip)
    errors = clipped * (rewards + discounts * values[1:] - values[:-1])

    def step(carry: jax.Array, inputs: tuple) -> tuple[jax.Array, jax.Array]:
        error, discount, trace = inputs
        carry = error + discount * decay * trace * carry
        return carry, carry

    _, corrections = lax.scan(step, jnp.zeros(()), (errors, discounts, clipped), reverse=True)
    targets = values[:-1] + corrections
    later = jnp.append(decay * targets[1:] + (1 - decay) * values[1:-1], values[-1])
    advantages = clipped * (rewards + discounts * later - values[:-1])
    return Vtrace(targets, advantages)
