"""Plays scenarios one at a time, for the single-environment interfaces."""

import dataclasses
import functools
import os
from collections.abc import Iterable
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from memory_maze.engine import rules
from memory_maze.engine.env import begin_scenario
from memory_maze.engine.observe import make_view, observe, render_state
from memory_maze.engine.picture.render import View
from memory_maze.engine.picture.textures import Atlas, load_atlas
from memory_maze.engine.types import State
from memory_maze.options import Options
from memory_maze.scenario import Scenario
from memory_maze.system.programs import cache_programs

MIN_DRAWS = 4096  # more than a sampled episode of any published task has


class JaxEngine:
    """One maze at a time. `reset` with a complete scenario, then `step` with two controls.

    It runs on the CPU: one maze is too little work for a GPU. JAX starts with the first reset, so that an
    environment that was only made can be forked, as gymnasium's asynchronous vectors do.
    """

    backend = None
    _process: ClassVar[int | None] = None

    def __init__(self, options: Options) -> None:
        cache_programs()
        self._view = make_view(options)
        # Only what changes the program, so that variants share it.
        self._play = functools.partial(_play, self._view, options.substeps, options.good_visibility)
        self._atlas: Atlas | None = None
        self._seen: dict[str, jax.Array]  # all there is to observe

    def reset(self, scenario: Scenario) -> None:
        """Starts the episode of a complete scenario."""
        self._check_process()
        if self._atlas is None:
            self._device = _choose_device()
            self._atlas = jax.device_put(load_atlas(), self._device)
        self.scenario, self._touched = scenario, scenario.hidden
        with jax.default_device(self._device):
            self._state = begin_scenario(scenario)
        # Arrays that were not put there by name would make another program of the next step.
        state = dataclasses.replace(self._state, draws=_pad_draws(scenario))
        self._state = jax.device_put(state, self._device)
        self._look()

    def step(self, control: np.ndarray) -> float:
        """Holds a control (roll, steer) for one action and returns the reward."""
        self._check_process()
        self._touched = ()
        return self._look(control)

    def observe(self, names: Iterable[str]) -> dict[str, np.ndarray]:
        """The observations of these names."""
        return {name: np.asarray(self._seen[name]) for name in names}

    def render(self, top: bool, resolution: int) -> np.ndarray:
        """The first-person or the top view at a resolution, for people: with the border."""
        view = dataclasses.replace(self._view, top=top, resolution=resolution, border=True, minimap=False)
        if view == self._view:
            return np.array(self._seen["image"])
        return np.array(_render(view, self._atlas, self._state))

    @property
    def pose(self) -> np.ndarray:
        """(4,) float32: x, y, z (m) and steer (rad)."""
        body = self._state.body
        return np.array([body.x, body.y, body.z, body.steer], np.float32)

    @property
    def target(self) -> int:
        """The object that is asked for."""
        return int(self._state.target)

    @property
    def draws_used(self) -> int:
        """Of the scenario's target draws."""
        return int(self._state.draws_used)

    @property
    def touched(self) -> tuple[int, ...]:
        """Objects that count as touched and were not yet handled: only before the first step."""
        return self._touched

    @property
    def state(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions and velocities of x, y, z (m), steer and roll (rad); the roll angle is not kept."""
        body = jax.tree.map(float, self._state.body)
        positions = [body.x, body.y, body.z, body.steer, np.nan]
        return np.array(positions), np.array([body.vx, body.vy, body.vz, body.steer_rate, body.roll_rate])

    def close(self) -> None:
        """Nothing to free."""

    def _check_process(self) -> None:
        """JAX would wait forever for threads that a fork left behind."""
        if JaxEngine._process is None:
            JaxEngine._process = os.getpid()
        if JaxEngine._process != os.getpid():
            raise RuntimeError(
                "JAX does not work after a fork: use spawned processes (for gymnasium's vectors "
                'context="spawn"), or fork before the first reset'
            )

    def _look(self, control: np.ndarray | None = None) -> float:
        """Moves by a control, if there is one, and takes in what is seen then; returns the reward."""
        moves = control is not None
        control = np.asarray(control if moves else (0, 0), np.float32)
        self._state, self._seen, reward = self._play(self._atlas, self._state, control, moves)
        return float(reward)


def _choose_device() -> jax.Device | None:
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        return None  # JAX_PLATFORMS leaves it out


def _pad_draws(scenario: Scenario) -> np.ndarray:
    """The draws, and those that follow when they run out: as many in all episodes, for one program."""
    assert scenario.draws is not None
    size = max(MIN_DRAWS, 1 << len(scenario.draws).bit_length())
    draws = np.arange(size, dtype=np.int32) % len(scenario.objects)
    draws[: len(scenario.draws)] = scenario.draws
    return draws


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _play(
    view: View, substeps: int, floating: bool, atlas: Atlas, state: State, control: jax.Array, moves: bool
) -> tuple[State, dict[str, jax.Array], jax.Array]:
    """One program for steps and resets, which only look: compiling it is most of the start."""
    after, reward, _ = rules.advance(state, control, substeps=substeps, floating_objects=floating)
    # What stays the same is passed on as it is, without a copy.
    state = jax.tree.map(lambda new, old: old if new is old else jnp.where(moves, new, old), after, state)
    return state, observe(view, atlas, state), reward


@functools.partial(jax.jit, static_argnums=0)
def _render(view: View, atlas: Atlas, state: State) -> jax.Array:
    return render_state(view, atlas, state)
