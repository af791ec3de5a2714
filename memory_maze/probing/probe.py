"""Probes: what is asked of a state, the network that answers, and how answers are scored."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from memory_maze.models.nets import MLP
from memory_maze.paper import Target
from memory_maze.probing.config import ProbeConfig

KEYS = ("image", "action", "reset", "agent_pos", "agent_dir", "maze_layout", "targets_vec")


class Truth(NamedTuple):
    """What is true of (T, B) steps: a probe may be told the first two, and is asked for one of the others."""

    position: jax.Array  # (T, B, 2) float32: from -1 to 1 across the maze
    direction: jax.Array  # (T, B, 2) float32
    walls: jax.Array  # (T, B, N, N) uint8: 1 is free
    objects: jax.Array  # (T, B, n, 2) float32: to the right and ahead, in cells


def make_truth(batch: dict[str, Any]) -> Truth:
    """Of arrays with the data set's keys, time first."""
    size = batch["maze_layout"].shape[-1]
    position = 2 * batch["agent_pos"] / size - 1
    return Truth(position, batch["agent_dir"], batch["maze_layout"], batch["targets_vec"])


class Probe(eqx.Module):
    """Predictions from a state, and from the agent's position and direction if it is told them."""

    net: MLP
    target: Target = eqx.field(static=True)
    told: bool = eqx.field(static=True)

    def __init__(
        self,
        key: jax.Array,
        target: Target,
        inputs: int,
        size: int,
        objects: int,
        config: ProbeConfig,
        dtype: Any = jnp.float32,
    ) -> None:
        outputs = size * size if target == "walls" else 2 * objects
        self.target, self.told = target, target in config.told
        inputs = inputs + 4 if self.told else inputs
        self.net = MLP(key, inputs, config.units, config.layers, outputs, config.norm_epsilon, dtype)

    def answer(self, states: jax.Array, truth: Truth) -> jax.Array:
        """Logits of free cells (..., N, N), or places of objects (..., n, 2)."""
        if self.told:
            states = jnp.concatenate([states, truth.position, truth.direction], axis=-1)
        return self.net(states).reshape(getattr(truth, self.target).shape)

    def loss(self, states: jax.Array, truth: Truth) -> jax.Array:
        """BCE or half the squared error, of all cells or objects together.

        Sums, as in the paper's program: beside a model's own losses a mean over cells would hardly count.
        """
        answer = self.answer(states, truth)
        if self.target == "walls":
            losses = optax.sigmoid_binary_cross_entropy(answer, truth.walls.astype(jnp.float32))
            return losses.sum(axis=(-2, -1)).mean()
        return jnp.square(answer - truth.objects).sum(axis=(-2, -1)).mean() / 2

    def score(self, states: jax.Array, truth: Truth) -> jax.Array:
        """(...): the share of cells that are right in percent, or the squared error over objects."""
        answer = self.answer(states, truth)
        if self.target == "walls":
            return score_walls(answer > 0, truth.walls)
        return score_objects(answer, truth.objects)


def score_walls(answer: jax.Array, walls: jax.Array) -> jax.Array:
    """Percent of cells that are right, (...)."""
    return 100 * (answer == (walls > 0)).mean(axis=(-2, -1))


def score_objects(answer: jax.Array, objects: jax.Array) -> jax.Array:
    """Squared distance, in cells, mean of all objects, (...)."""
    return jnp.square(answer - objects).sum(axis=-1).mean(axis=-1)
