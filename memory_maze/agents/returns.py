"""What actions were worth: pure functions of time first, then a batch if there is any."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


def lambda_returns(values: jax.Array, rewards: jax.Array, discounts: jax.Array, lambda_: float) -> jax.Array:
    """(T, ...) lambda-returns: means of returns that are bootstrapped after 1, 2, ... steps.

    Args:
        values: (T + 1, ...) of the states, the last for bootstrapping.
        rewards: (T, ...) after each action.
        discounts: (T, ...) of what follows each action; 0 where nothing does.
        lambda_: The weight of longer ones: 0 takes the first value, 1 the rewards up to the last.
    """

    def step(later: jax.Array, now: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        reward, discount, value = now
        return (found := reward + discount * ((1 - lambda_) * value + lambda_ * later)), found

    return lax.scan(step, values[-1], (rewards, discounts, values[1:]), reverse=True)[1]


class Vtrace(NamedTuple):
    """Of T steps."""

    targets: jax.Array  # (T, ...) for the values
    advantages: jax.Array  # (T, ...) for the policy
    ratios: jax.Array  # (T, ...) clipped: weights of the advantages


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
        values: (T + 1, ...) of the states, the last for bootstrapping.
        rewards: (T, ...) after each action.
        discounts: (T, ...) of what follows each action; 0 where nothing does.
        ratios: (T, ...) probability of the action now and when it was taken.
        decay: lambda.
        clip: Of the ratios.
    """
    clipped = jnp.minimum(ratios, clip)
    errors = clipped * (rewards + discounts * values[1:] - values[:-1])

    def join(later: tuple, earlier: tuple) -> tuple:
        (later_error, later_trace), (error, trace) = later, earlier
        return error + trace * later_error, trace * later_trace

    # correction = error + trace * the next correction, in as many rounds as T has bits.
    corrections, _ = lax.associative_scan(join, (errors, discounts * decay * clipped), reverse=True)
    targets = values[:-1] + corrections
    later = jnp.concatenate([decay * targets[1:] + (1 - decay) * values[1:-1], values[-1:]])
    return Vtrace(targets, rewards + discounts * later - values[:-1], clipped)
