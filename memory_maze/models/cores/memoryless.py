"""No memory, for comparison."""

import math

import jax

from memory_maze.models.cores.core import Carry, Core
from memory_maze.models.nets import Linear


class Memoryless(Core):
    """A layer with ReLU: as many parameters as it needs to give as large an output."""

    inputs: Linear

    def __init__(self, key: jax.Array, inputs: int, size: int) -> None:
        self.output_size = size
        self.inputs = Linear(key, inputs, size, scale=math.sqrt(2))

    def initial(self) -> Carry:
        return ()

    def prepare(self, x: jax.Array) -> jax.Array:
        return jax.nn.relu(self.inputs(x))

    def step(self, carry: Carry, prepared: jax.Array) -> tuple[Carry, jax.Array]:
        return carry, prepared
