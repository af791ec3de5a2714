"""How far back does a policy remember? Play it with a memory that is emptied now and then, and compare."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from memory_maze.engine.types import State
from memory_maze.policies.protocol import Policy


@dataclasses.dataclass(frozen=True)
class Forgetful:
    """A policy whose memory is what it was at the start again, every so many steps."""

    policy: Policy
    period: int

    def __post_init__(self) -> None:
        if self.period < 1:
            raise ValueError(f"forget_every must be at least 1: got {self.period}")

    @property
    def sees_pictures(self) -> bool:
        return getattr(self.policy, "sees_pictures", False)

    def start(self, state: State) -> Any:
        first = self.policy.start(state)
        return first, first, jnp.int32(0)

    def act(self, memory: Any, state: Any, key: jax.Array) -> tuple[jax.Array, Any]:
        first, present, steps = memory
        present = jax.tree.map(lambda old, new: jnp.where(steps == 0, old, new), first, present)
        action, present = self.policy.act(present, state, key)
        return action, (first, present, (steps + 1) % self.period)
