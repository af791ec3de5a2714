"""Any memory, reset every so many steps, as an ablation."""

import equinox as eqx
import jax
import jax.numpy as jnp

from memory_maze.models.cores.core import Carry, Core


class Forgetful(Core):
    """The carry is that of the core, and how many steps it was since the last reset."""

    core: Core
    period: int = eqx.field(static=True)

    def __init__(self, core: Core, period: int) -> None:
        self.output_size = core.output_size
        self.core, self.period = core, period

    def initial(self) -> Carry:
        return self.core.initial(), jnp.int32(0)

    def prepare(self, x: jax.Array) -> jax.Array:
        return self.core.prepare(x)

    def step(self, carry: Carry, prepared: jax.Array) -> tuple[Carry, jax.Array]:
        inner, steps = carry
        inner, out = self.core.step(self.core.forget(inner, steps == 0), prepared)
        return (inner, (steps + 1) % self.period), out
