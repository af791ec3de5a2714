"""Plays scenarios in MuJoCo: the physics, the touch rule and the order of targets."""

from collections.abc import Iterable

import mujoco
import numpy as np

from memory_maze.options import PHYSICS_TIMESTEP, Options
from memory_maze.reference.model import Look, build_maze
from memory_maze.reference.observation import Observer, draw_border
from memory_maze.reference.renderer import Renderer
from memory_maze.scenario import Scenario
from memory_maze.world import BORDER_COLORS, cell_to_world

# Nothing can be touched from farther away than this, whatever the ball does in between.
_REACH, _MAX_SPEED = 0.9, 2.5


class MujocoEngine:
    """One maze at a time. `reset` with a complete scenario, then `step` with two controls."""

    def __init__(self, grid: int, options: Options, render_resolution: int | None = None) -> None:
        self._options = options
        self.draws_used, self.target = 1, 0
        self._look = make_look(options, seen_from_above=render_resolution is not None)
        self._renderer = Renderer(grid, self._look, max(options.camera_resolution, render_resolution or 0))

    def reset(self, scenario: Scenario) -> None:
        """Starts the episode of a complete scenario."""
        assert scenario.complete, scenario
        assert scenario.heading is not None
        self.scenario = scenario
        maze = build_maze(scenario, self._look)
        self._model = mujoco.MjModel.from_xml_string(maze.xml)
        self._data = mujoco.MjData(self._model)
        self._head = self._model.body("head_body").id
        self._target_geoms = [self._model.geom(f"target{i}").id for i in range(len(scenario.objects))]
        self._target_positions = np.array([cell_to_world(cell, scenario.grid) for cell in scenario.objects])
        self._spawn(cell_to_world(scenario.spawns[0], scenario.grid), scenario.heading)
        self.draws_used, self.target = 1, scenario.draw(0)
        self._touched = set(scenario.hidden)
        self._paid: int | None = None
        self._observer = Observer(scenario, self._options)
        self._renderer.load(maze, self._model, self._data)
        self._show_hidden()

    def step(self, control: np.ndarray) -> float:
        """Holds a control (roll, steer) for one action and returns the reward."""
        self._data.ctrl[:] = control
        hidden = bool(self._touched)
        self._advance(self._options.substeps)
        reward = self._collect()
        if hidden:
            self._show_hidden()
        return reward

    def observe(self, names: Iterable[str]) -> dict[str, np.ndarray]:
        """The observations of these names."""
        return self._observer.observe(names, self.image, self.position, self.axes, self.target)

    def render(self, top: bool, resolution: int) -> np.ndarray:
        """The first-person or the top view at a resolution, for people: with the border."""
        picture = self._draw(top, resolution)
        draw_border(picture, BORDER_COLORS[self.scenario.colors[self.target]])
        return picture

    def image(self) -> np.ndarray:
        """What the camera of this variant sees, without the border."""
        return self._draw(self._options.top_camera, self._options.camera_resolution)

    @property
    def position(self) -> np.ndarray:
        """(2,) metres from the middle of the maze."""
        return self._data.xpos[self._head, :2].copy()

    @property
    def axes(self) -> np.ndarray:
        """(2, 2): the agent's right and forward directions as columns."""
        return self._data.xmat[self._head].reshape(3, 3)[:2, :2].copy()

    @property
    def pose(self) -> np.ndarray:
        """(4,) float64: x, y, z (m) and steer (rad)."""
        return self._data.qpos[:4].copy()

    @property
    def touched(self) -> tuple[int, ...]:
        """Objects that count as touched and were not yet handled: only before the first step."""
        return tuple(sorted(self._touched))

    @property
    def state(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions and velocities of x, y, z (m), steer and roll (rad)."""
        return self._data.qpos.copy(), self._data.qvel.copy()

    @property
    def backend(self) -> str | None:
        """The GL backend in use, or None before the first picture."""
        return self._renderer.backend

    def show(self, pose: np.ndarray, hidden: np.ndarray, target: int) -> None:
        """Puts the ball at x, y, z (m) and steer (rad), hides some objects, and asks for one: to look."""
        self.target = target
        self._data.qpos[:4] = pose
        mujoco.mj_forward(self._model, self._data)
        touched = set(np.flatnonzero(hidden).tolist())
        if touched != self._touched:
            self._touched = touched
            self._show_hidden()

    def close(self) -> None:
        self._renderer.close()

    def _draw(self, top: bool, resolution: int) -> np.ndarray:
        return self._renderer.draw("top" if top else "egocentric", resolution)

    def _spawn(self, position: tuple[float, float], heading: float) -> None:
        # Twice, as the published reset does: the solver starts the second from the first's solution.
        mujoco.mj_forward(self._model, self._data)
        self._data.qpos[:2] = position
        self._data.qpos[self._model.joint("steer").qposadr[0]] = -heading
        disabled = self._model.opt.disableflags
        self._model.opt.disableflags = disabled | mujoco.mjtDisableBit.mjDSBL_ACTUATION
        mujoco.mj_forward(self._model, self._data)
        self._model.opt.disableflags = disabled

    def _advance(self, substeps: int) -> None:
        """Contacts are those of the end of each substep, hence the second half of a step first."""
        model, data = self._model, self._data
        offsets = self._target_positions - data.qpos[:2]
        reach = _REACH + _MAX_SPEED * substeps * PHYSICS_TIMESTEP
        near = np.flatnonzero((offsets**2).sum(axis=1) < reach**2).tolist()
        if not near:
            mujoco.mj_step2(model, data)
            if substeps > 1:
                mujoco.mj_step(model, data, nstep=substeps - 1)
            mujoco.mj_step1(model, data)
            return
        for _ in range(substeps):
            mujoco.mj_step2(model, data)
            mujoco.mj_step1(model, data)
            geoms = data.contact.geom
            for index in near:
                if (geoms == self._target_geoms[index]).any():
                    self._touched.add(index)

    def _collect(self) -> float:
        """Pays for the current target and draws the next; touching any other has no effect."""
        reward = 0.0
        if self._paid not in self._touched:
            self._paid = None
        for index in sorted(self._touched):
            if index == self.target != self._paid and not reward:
                reward = 1.0
                self.target = self._next_target()
                self._paid = self.target if self.target == index else None
            self._touched.discard(index)
        return reward

    def _next_target(self) -> int:
        """The next draw that is not being touched; a lone object must be left and found again."""
        count = len(self.scenario.objects)
        if count == 1:
            return self.target
        taken = self._touched if len(self._touched) < count else {self.target}
        while True:
            target = self.scenario.draw(self.draws_used)
            self.draws_used += 1
            if target not in taken:
                return target

    def _show_hidden(self) -> None:
        for index, geom in enumerate(self._target_geoms):
            self._model.mat_rgba[self._model.geom_matid[geom], 3] = index not in self._touched
        self._renderer.refresh()


def make_look(options: Options, seen_from_above: bool = False) -> Look:
    """Geometry of a variant."""
    return Look(
        wall_height=options.wall_height,
        object_height=options.object_height,
        tops=options.good_visibility or options.top_camera or seen_from_above,
    )
