"""Pictures of a maze by MuJoCo's own renderer, with one GL context and one set of textures."""

import os
import weakref

import mujoco
import numpy as np

from memory_maze.reference import gl
from memory_maze.reference.model import Look, MazeXml, build_graphics

_ROLE = int(mujoco.mjtTextureRole.mjTEXROLE_RGB)
_ROLES = int(mujoco.mjtTextureRole.mjNTEXROLE)
_VERSION = tuple(int(part) for part in mujoco.__version__.split(".")[:2])
# From 3.12 on MuJoCo anchors the texture of a plane at its corner instead of its middle.
_ANCHORED_AT_CORNER = _VERSION >= (3, 12)


class Renderer:
    """Draws mazes of one size and look. GL is opened by the first picture, so an unused one is free."""

    def __init__(self, grid: int, look: Look, resolution: int) -> None:
        self._grid, self._look, self.resolution = grid, look, resolution
        self._context: gl.Context | None = None
        self._closed = False
        self._pid = os.getpid()
        self._option = mujoco.MjvOption()
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._pixels = np.empty((resolution, resolution, 3), np.uint8)

    @property
    def backend(self) -> str | None:
        """The GL backend in use, or None before the first picture."""
        return self._context.backend if self._context else None

    def load(self, maze: MazeXml, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Makes this maze the one that is drawn."""
        self._maze, self._model, self._data = maze, model, data
        self._scene: mujoco.MjvScene | None = None

    def draw(self, camera: str, resolution: int | None = None) -> np.ndarray:
        """The view of a camera of the model as (resolution, resolution, 3) uint8."""
        resolution = resolution or self.resolution
        assert resolution <= self.resolution, (resolution, self.resolution)
        self._open()
        assert self._context is not None
        self._context.make_current()
        try:
            return self._draw(camera, resolution)
        finally:
            self._context.release()

    def refresh(self) -> None:
        """Takes over a change of the maze, such as a hidden object."""
        self._scene = None

    def close(self) -> None:
        """Gives the GL context back; may be called twice."""
        self._closed = True
        if self._context is not None:
            self._context = None
            self._release()

    def _draw(self, camera: str, resolution: int) -> np.ndarray:
        self._camera.fixedcamid = self._model.camera(camera).id
        scene = self._static_scene()
        mujoco.mjv_updateCamera(self._model, self._data, self._camera, scene)
        mujoco.mjv_makeLights(self._model, self._data, scene)
        scene.ngeom = self._num_static
        if camera == "top":  # the agent does not see itself
            moving = int(mujoco.mjtCatBit.mjCAT_DYNAMIC)
            mujoco.mjv_addGeoms(self._model, self._data, self._option, mujoco.MjvPerturb(), moving, scene)
        viewport = mujoco.MjrRect(0, 0, resolution, resolution)
        pixels = self._pixels[:resolution, :resolution]
        if resolution != self.resolution:
            pixels = np.empty((resolution, resolution, 3), np.uint8)
        mujoco.mjr_render(viewport, scene, self._mjr)
        mujoco.mjr_readPixels(pixels, None, viewport, self._mjr)
        return pixels[::-1].copy()

    def _static_scene(self) -> mujoco.MjvScene:
        """Walls, floor and objects: they change only with the maze."""
        if self._scene is not None:
            return self._scene
        self._bind_materials()
        scene = mujoco.MjvScene(self._model, maxgeom=self._model.ngeom + 50)
        static = int(mujoco.mjtCatBit.mjCAT_STATIC)
        mujoco.mjv_updateScene(self._model, self._data, self._option, None, self._camera, static, scene)
        # Planes are numbered by their order in the maze's model; here by their size.
        for geom in scene.geoms[: scene.ngeom]:
            if geom.type == mujoco.mjtGeom.mjGEOM_PLANE and geom.dataid >= 0:
                geom.dataid = self._plane_number[self._maze.planes[geom.dataid]]
        self._scene, self._num_static = scene, scene.ngeom
        return scene

    def _bind_materials(self) -> None:
        """Points the renderer's table of materials to the textures that this maze uses."""
        for index, material in enumerate(self._maze.materials):
            self._mjr.mat_texid[index * _ROLES + _ROLE] = self._texture_number[material.texture]
            self._mjr.mat_texrepeat[2 * index : 2 * index + 2] = material.repeat

    def _open(self) -> None:
        if self._closed:
            raise RuntimeError("the environment is closed")
        if self._context is not None:
            if self._pid != os.getpid():
                raise gl.GLError(
                    "this environment rendered before the process was forked: "
                    "create environments inside the child process, or use the spawn start method"
                )
            return
        self._pid = os.getpid()
        xml, textures, planes = build_graphics(self._grid, self._look, self.resolution)
        model = mujoco.MjModel.from_xml_string(xml)
        if _ANCHORED_AT_CORNER:
            _roll_wall_textures(model, self._look.wall_height)
        context, mjr = gl.create_context(self.resolution, lambda: _make_mjr(model))
        # Also when the renderer is dropped without being closed, and before the interpreter ends.
        self._release = weakref.finalize(self, _release, context, mjr, self._pid)
        self._texture_number = {name: index for index, name in enumerate(textures)}
        self._plane_number = {half: index for index, half in enumerate(planes)}
        self._context, self._mjr = context, mjr


def _make_mjr(model: mujoco.MjModel) -> mujoco.MjrContext:
    try:
        mjr = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_50)
    except mujoco.FatalError as error:
        raise gl.GLError(str(error)) from error
    mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, mjr)
    return mjr


def _release(context: gl.Context, mjr: mujoco.MjrContext, pid: int) -> None:
    """Frees what a renderer holds; a forked child must leave its parent's context alone."""
    if pid != os.getpid():
        return
    try:
        context.make_current()
    except gl.GLError:
        return  # someone closed the display; its contexts are gone with it
    mjr.free()
    context.free()


def _roll_wall_textures(model: mujoco.MjModel, wall_height: float) -> None:
    """Gives side walls the look of MuJoCo up to 3.11, whose textures sit in the middle of a plane."""
    for index in range(model.ntex):
        if not model.texture(index).name.startswith("wall_"):
            continue
        height, width = model.tex_height[index], model.tex_width[index]
        start = model.tex_adr[index]
        end = start + height * width * model.tex_nchannel[index]
        texture = model.tex_data[start:end].reshape(height, -1)
        rows = round((0.5 - wall_height / 4) * height)
        texture[:] = np.roll(texture, -rows, axis=0)
