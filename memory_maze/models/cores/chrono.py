"""Chrono initialisation: gates that remember for long from the start (Tallec and Ollivier 2018)."""

import jax
import jax.numpy as jnp


def sample_log_spans(key: jax.Array, size: int, horizon: int) -> jax.Array:
    """(size,): logarithms of time spans of up to `horizon` steps, one for each unit."""
    return jnp.log(jax.random.uniform(jax.random.fold_in(key, 1), (size,), minval=1.0, maxval=horizon - 1.0))
