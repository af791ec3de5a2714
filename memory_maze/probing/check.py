"""The rules that a sequence model must keep, tried out on noise before it is trained for hours."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from memory_maze.options import ACTIONS
from memory_maze.probing.model import Carry, Learned, Sequence, SequenceModel, initial_carry

STEPS, STREAMS, MIDDLE = 6, 3, 3


class ModelError(ValueError):
    """A model that breaks a rule; the message says which."""


def check_model(model: SequenceModel, key: jax.Array) -> None:
    """Raises `ModelError` if the scores of a model would mean nothing."""
    size = getattr(model, "state_size", None)
    if not isinstance(size, int) or size < 1:
        raise ModelError(f"state_size is {size!r}: it should be the length of a state, like 2048")
    for name in ("initial", "observe", "loss"):
        if not callable(getattr(model, name, None)):
            raise ModelError(f"{name} is missing: see memory_maze.probing.model")
    carry, sequence = initial_carry(model, STREAMS), _make_sequence(0)
    observe = eqx.filter_jit(lambda carry, sequence: model.observe(carry, sequence, key))
    after, states = _take_pair("observe", observe(carry, sequence), "carry, states")
    _check_carry("observe", after, carry)
    _check_states("observe", states, size)
    _check_loss(model, carry, sequence, key, size)
    _check_knowledge(lambda carry, sequence: observe(carry, sequence)[1], model, sequence)


def _make_sequence(seed: int) -> Sequence:
    rng = np.random.default_rng(seed)
    return Sequence(
        jnp.asarray(rng.integers(0, 256, (STEPS, STREAMS, 64, 64, 3), np.uint8)),
        jnp.asarray(
            np.eye(len(ACTIONS), dtype=np.float32)[rng.integers(len(ACTIONS), size=(STEPS, STREAMS))]
        ),
        jnp.zeros((STEPS, STREAMS), bool),
    )


def _take_pair(where: str, made: Any, what: str) -> tuple[Any, Any]:
    if not isinstance(made, tuple) or len(made) != 2:
        raise ModelError(f"{where} gives {type(made).__name__}: it should give {what}")
    return made


def _check_carry(where: str, after: Carry, before: Carry) -> None:
    describe = lambda tree: jax.tree.map(lambda leaf: (jnp.shape(leaf), jnp.result_type(leaf)), tree)  # noqa: E731
    found, wanted = describe(after), describe(before)
    if jax.tree.structure(after) != jax.tree.structure(before) or found != wanted:
        raise ModelError(
            f"{where} gives a carry of {found}: it should be like that of initial() for each of "
            f"{STREAMS} streams, {wanted}"
        )


def _check_states(where: str, states: Any, size: int) -> None:
    wanted = (STEPS, STREAMS, size)
    if jnp.shape(states) != wanted:
        raise ModelError(
            f"{where} gives states of shape {jnp.shape(states)} for {STEPS} steps of {STREAMS} streams: "
            f"it should be {wanted}, for state_size is {size}"
        )
    if not jnp.issubdtype(jnp.result_type(states), jnp.floating):
        raise ModelError(
            f"{where} gives states of type {jnp.result_type(states)}: they should be floating point"
        )
    if not np.isfinite(states).all():
        raise ModelError(f"{where} gives states that are not finite")


def _check_loss(model: SequenceModel, carry: Carry, sequence: Sequence, key: jax.Array, size: int) -> None:
    grad = eqx.filter_jit(
        eqx.filter_value_and_grad(lambda model: model.loss(carry, sequence, key), has_aux=True)
    )
    try:
        (loss, learned), gradients = grad(model)
    except (TypeError, ValueError) as error:
        raise ModelError(f"loss has no gradient: {str(error).splitlines()[0]}") from error
    if not isinstance(learned, Learned):
        raise ModelError(f"loss gives {type(learned).__name__} with the loss: it should be a Learned")
    if not np.isfinite(loss):
        raise ModelError(f"loss is {loss}")
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients)):
        raise ModelError("the gradient of loss is not finite")
    _check_carry("loss", learned.carry, carry)
    _check_states("loss", learned.states, size)


def _check_knowledge(
    observe: Callable[[Carry, Sequence], jax.Array], model: SequenceModel, sequence: Sequence
) -> None:
    """States may depend on what their own stream has seen since it was reset, and on nothing else."""
    carry, other = initial_carry(model, STREAMS), _make_sequence(1)

    def differ(one: Sequence, two: Sequence, carries: tuple[Carry, Carry] = (carry, carry)) -> jax.Array:
        states = [observe(carry, sequence) for carry, sequence in zip(carries, (one, two), strict=True)]
        return np.abs(np.asarray(states[0]) - np.asarray(states[1])).max(axis=-1) > 1e-3

    def swap(where: Any) -> Sequence:
        return Sequence(
            sequence.image.at[where].set(other.image[where]),
            sequence.action.at[where].set(other.action[where]),
            sequence.reset,
        )

    if differ(sequence, swap(np.s_[:, 1:]))[:, 0].any():
        raise ModelError("states of a stream depend on other streams of the batch")
    if differ(sequence, swap(np.s_[MIDDLE:]))[:MIDDLE].any():
        raise ModelError("states depend on later inputs")
    reset = sequence._replace(reset=sequence.reset.at[MIDDLE, 0].set(True))
    before = swap(np.s_[:MIDDLE])._replace(reset=reset.reset)
    if differ(reset, before)[MIDDLE:, 0].any():
        raise ModelError(
            "states depend on the previous trajectory: where reset is true, start from the initial carry"
        )
    first = sequence._replace(reset=sequence.reset.at[0].set(True))
    noise = jax.tree.map(lambda leaf: leaf + 1 if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf, carry)
    if differ(first, first, (carry, noise)).any():
        raise ModelError(
            "states depend on the previous carry: where reset is true, start from the initial carry"
        )
