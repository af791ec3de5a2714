"""Plays scenarios one at a time, for the single-environment interfaces."""

import dataclasses
import functools
import os
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from memory_maze.engine import rules
from memory_maze.engine.env import begin_scenario, make_view, render_state
from memory_maze.engine.picture.render import View
from memory_maze.engine.picture.textures import Atlas, load_atlas
from memory_maze.engine.types import Body, State
from memory_maze.options import Options
from memory_maze.scenario import Scenario
from memory_maze.system.programs import cache_programs

MIN_DRAWS = 4096  # more than a sampled episode of any published task has


class Glance(NamedTuple):
    """What the host wants to know after a step, in one transfer."""

    image: Any  # (R, R, 3) uint8
    pose: Any  # (4,) float32: x, y, z, steer
    target: Any  # () int32
    draws_used: Any  # () int32
    reward: Any  # () float32


class JaxEngine:
    """One maze at a time. `reset` with a complete scenario, then `step` with two controls.

    It runs on the CPU: one maze is too little work for a GPU. JAX starts with the first reset, so that an
    environment that was only made can be forked, as gymnasium's asynchronous vectors do.
    """

    backend = None
    _process: ClassVar[int | None] = None

    def __init__(self, options: Options) -> None:
        cache_programs()
        # The border is the interface's concern.
        self._view = dataclasses.replace(make_view(options), border=False)
        # Only what changes the program, so that variants share it.
        self._play = functools.partial(_play, self._view, options.substeps, options.good_visibility)
        self._atlas: Atlas | None = None

    def reset(self, scenario: Scenario) -> None:
        """Starts the episode of a complete scenario."""
        self._check_process()
        if self._atlas is None:
            self._device = _choose_device()
            self._atlas = jax.device_put(load_atlas(), self._device)
        self.scenario, self._touched = scenario, scenario.hidden
        with jax.default_device(self._device):
            self._state = begin_scenario(scenario)
        self._change(draws=_pad_draws(scenario))
        self._look()

    def step(self, control: np.ndarray) -> float:
        """Holds a control (roll, steer) for one action and returns the reward."""
        self._check_process()
        self._touched = ()
        return self._look(control)

    def image(self) -> np.ndarray:
        """What the camera of this variant sees, without the border."""
        return self._image.copy()

    def draw(self, top: bool, resolution: int) -> np.ndarray:
        """The first-person or the top view at a resolution."""
        view = dataclasses.replace(self._view, top=top, resolution=resolution)
        if view == self._view:
            return self.image()
        return np.array(_draw(view, self._atlas, self._state))

    @property
    def position(self) -> np.ndarray:
        """(2,) metres from the middle of the maze."""
        return self._pose[:2].astype(np.float64)

    @property
    def axes(self) -> np.ndarray:
        """(2, 2): the agent's right and forward directions as columns."""
        heading = -float(self._pose[3])
        forward = np.array([np.cos(heading), np.sin(heading)])
        return np.stack([[forward[1], -forward[0]], forward], axis=1)

    @property
    def pose(self) -> np.ndarray:
        """(4,) float32: x, y, z (m) and steer (rad)."""
        return self._pose.copy()

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

    def place(self, positions: np.ndarray, velocities: np.ndarray) -> None:
        """Takes over a state of the reference: x, y, z (m), steer and roll (rad), and their rates."""
        self._change(body=Body(*np.asarray([*positions[:4], *velocities], np.float32)))
        self._look()

    def follow(self, target: int, draws_used: int) -> None:
        """Asks for the same object as the reference, where only one of them saw a touch."""
        self._change(target=np.int32(target), draws_used=np.int32(draws_used), paid=np.bool_(False))
        self.target, self.draws_used = target, draws_used

    def teleport(self, position: tuple[float, float]) -> None:
        """Puts the ball at rest somewhere else, in metres, with the heading of the start."""
        x, y = np.asarray(position, np.float32)
        self._change(body=dataclasses.replace(begin_scenario(self.scenario).body, x=x, y=y))
        self._look()

    def close(self) -> None:
        """Nothing to free."""

    def _check_process(self) -> None:
        """JAX would wait forever for threads that a fork left behind."""
        if JaxEngine._process is None:
            JaxEngine._process = os.getpid()
        if JaxEngine._process != os.getpid():
            raise RuntimeError(
                "JAX does not survive a fork: play in spawned processes (for gymnasium's vectors "
                'context="spawn"), or fork before the first reset'
            )

    def _change(self, **fields: Any) -> None:
        # Arrays that were not put there by name would make another program of the next step.
        self._state = jax.device_put(dataclasses.replace(self._state, **fields), self._device)

    def _look(self, control: np.ndarray | None = None) -> float:
        """Moves by a control, if there is one, and takes in what is seen then; returns the reward."""
        moves = control is not None
        control = np.asarray(control if moves else (0, 0), np.float32)
        self._state, glance = self._play(self._atlas, self._state, control, moves)
        self._image, self._pose, target, draws_used, reward = jax.device_get(glance)
        self.target, self.draws_used = int(target), int(draws_used)
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
) -> tuple[State, Glance]:
    """One program for steps and resets, which only look: compiling it is most of the start."""
    after, reward, _ = rules.advance(state, control, substeps=substeps, floating_objects=floating)
    # What stays the same is passed on as it is, without a copy.
    state = jax.tree.map(lambda new, old: old if new is old else jnp.where(moves, new, old), after, state)
    body = state.body
    pose = jnp.stack([body.x, body.y, body.z, body.steer])
    return state, Glance(render_state(view, atlas, state), pose, state.target, state.draws_used, reward)


@functools.partial(jax.jit, static_argnums=0)
def _draw(view: View, atlas: Atlas, state: State) -> jax.Array:
    return render_state(view, atlas, state)
