"""Plays scenarios one at a time, for the single-environment interfaces."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from memory_maze.engine import motion
from memory_maze.engine.env import begin_scenario, make_view, render_state
from memory_maze.engine.targets import collect
from memory_maze.engine.textures import load_atlas
from memory_maze.engine.types import Body, State
from memory_maze.files import cache_folder
from memory_maze.options import Options
from memory_maze.scenario import Scenario


class Glance(NamedTuple):
    """What the host wants to know after a step, in one transfer."""

    image: Any  # (R, R, 3) uint8
    pose: Any  # (4,) float32: x, y, z, steer
    target: Any  # () int32
    draws_used: Any  # () int32
    reward: Any  # () float32


class JaxEngine:
    """One maze at a time. `reset` with a complete scenario, then `step` with two controls."""

    backend = None

    def __init__(self, options: Options) -> None:
        cache_programs()
        # The border is the interface's concern.
        self._options = dataclasses.replace(options, image_only_obs=False, target_color_in_image=False)
        self._atlas = load_atlas()

    def reset(self, scenario: Scenario) -> None:
        """Starts the episode of a complete scenario."""
        self.scenario = scenario
        self._state = begin_scenario(scenario)
        self._touched = scenario.hidden
        self._look(_glance(self._options, self._atlas, self._state))

    def step(self, control: np.ndarray) -> float:
        """Holds a control (roll, steer) for one action and returns the reward."""
        self._state, glance = _step(self._options, self._atlas, self._state, np.asarray(control, np.float32))
        self._touched = ()
        self._look(glance)
        return float(self._reward)

    def image(self) -> np.ndarray:
        """What the camera of this variant sees, without the border."""
        return self._image.copy()

    def draw(self, top: bool, resolution: int) -> np.ndarray:
        """The first-person or the top view at a resolution."""
        options = dataclasses.replace(self._options, top_camera=top, camera_resolution=resolution)
        return np.array(_glance(options, self._atlas, self._state).image)

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
        x, y, z, steer = (jnp.float32(value) for value in positions[:4])
        body = Body(x, y, z, steer, *(jnp.float32(value) for value in velocities))
        self._state = dataclasses.replace(self._state, body=body)
        self._look(_glance(self._options, self._atlas, self._state))

    def follow(self, target: int, draws_used: int) -> None:
        """Asks for the same object as the reference, where only one of them saw a touch."""
        self._state = dataclasses.replace(
            self._state, target=jnp.int32(target), draws_used=jnp.int32(draws_used), paid=jnp.bool_(False)
        )
        self.target, self.draws_used = target, draws_used

    def teleport(self, position: tuple[float, float]) -> None:
        """Puts the ball at rest somewhere else, in metres, with the heading of the start."""
        body = begin_scenario(self.scenario).body
        x, y = (jnp.float32(value) for value in position)
        self._state = dataclasses.replace(self._state, body=dataclasses.replace(body, x=x, y=y))
        self._look(_glance(self._options, self._atlas, self._state))

    def close(self) -> None:
        """Nothing to free."""

    def _look(self, glance: Glance) -> None:
        self._image, self._pose, target, draws_used, self._reward = jax.device_get(glance)
        self.target, self.draws_used = int(target), int(draws_used)


@functools.partial(jax.jit, static_argnums=0)
def _step(options: Options, atlas: Any, state: State, control: jax.Array) -> tuple[State, Glance]:
    body, touched = motion.move(
        state.body,
        control,
        state.maze,
        substeps=options.substeps,
        floating_objects=options.good_visibility,
    )
    state, reward = collect(state, touched | state.touched)
    state = dataclasses.replace(state, body=body)
    return state, _describe(options, atlas, state, reward)


@functools.partial(jax.jit, static_argnums=0)
def _glance(options: Options, atlas: Any, state: State) -> Glance:
    return _describe(options, atlas, state, jax.numpy.float32(0))


def _describe(options: Options, atlas: Any, state: State, reward: jax.Array) -> Glance:
    body = state.body
    pose = jax.numpy.stack([body.x, body.y, body.z, body.steer])
    image = render_state(make_view(options), atlas, state)
    return Glance(image, pose, state.target, state.draws_used, reward)


def cache_programs() -> None:
    """Keeps compiled programs on disk, unless the user has chosen how: the next process starts at once."""
    if getattr(jax.config, "jax_compilation_cache_dir", None) is None:
        jax.config.update("jax_compilation_cache_dir", str(cache_folder("programs")))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
