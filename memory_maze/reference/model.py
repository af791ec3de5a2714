"""The MuJoCo models: one per maze for physics and geometry, one per environment for the graphics card.

A maze model names its textures only by number. The graphics model holds the pictures, which are
loaded once, and one plane of every size, so that a new maze uploads nothing.
"""

import dataclasses
import functools
import itertools
import math

import numpy as np

from memory_maze.assets import FLOORS, WALLS
from memory_maze.scenario import CORRIDOR, FLOOR_TEXTURES, TEXTURE_BLOCKS, WALL, Scenario
from memory_maze.world import (
    CELL_METRES,
    COLORS,
    OBJECT_RADIUS,
    TOP_HEIGHT,
    TOP_PADDING,
    WALL_HEIGHT,
    cell_to_world,
)

HALF_CELL = CELL_METRES / 2

# A ball that rolls and steers under a heavy head. Damping and masses are those of the published
# walker; the camera is a body of its own, 15 cm ahead and pitched 5.7 degrees down. The ears show
# the heading from above; the agent cannot see them.
_WALKER = """
<body name="walker">
  <joint name="root_x" type="slide" axis="1 0 0"/>
  <joint name="root_y" type="slide" axis="0 1 0"/>
  <joint name="root_z" type="slide" axis="0 0 1"/>
  <body name="head_body" pos="0 0 0.6" quat="1 0 0 -1">
    <body name="egocentric_camera" pos="0 0.15 0.3" zaxis="0 -0.99503719021 0.09950371902">
      <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
      <camera name="egocentric" fovy="80"/>
    </body>
    <joint name="steer" type="hinge" axis="0 0 -1" damping="20"/>
    <inertial pos="0 0 -0.08" mass="20" diaginertia="0.14683229 0.10987294 0.10986016"
      quat="0.05876879 0.70466036 -0.05876879 0.70466036"/>
    <geom name="head" class="walker" type="cylinder" size="0.1 0.06" pos="0 0 -0.07"
      rgba="0.757 0.757 0.757 1"/>
    <geom name="face" class="walker" type="cylinder" size="0.05 0.035" pos="0 0.1 -0.07" zaxis="0 1 0"
      rgba="0 0.85 0.5 1"/>
    <geom name="neck" class="walker" type="cylinder" size="0.07 0.02" pos="0 0 -0.13"
      rgba="0 0.85 0.5 1"/>
    <site type="sphere" size=".26" pos=".22 0 0" rgba=".7 0 0 1"/>
    <site type="sphere" size=".26" pos="-.22 0 0" rgba="0 0 .7 1"/>
    <body name="torso" pos="0 0 -.4">
      <joint name="roll" type="hinge" axis="-1 0 0" damping="5"/>
      <geom name="shell" class="walker" type="sphere" size=".2" mass="1" rgba="0.8 0.8 0.8 1"/>
    </body>
  </body>
</body>"""
_HEADER = """
<compiler angle="radian" boundmass="1e-5" boundinertia="1e-11"/>
<option timestep="0.005" cone="elliptic" noslip_iterations="5" noslip_tolerance="0"/>
<visual>
  <headlight ambient="0.3 0.3 0.3" diffuse="0.6 0.6 0.6" specular="0 0 0"/>
  <map znear="0.0005"/>
</visual>
<default>
  <default class="walker"><geom condim="4" friction=".5 .02 .02"/></default>
</default>"""

_ACTUATORS = """
<actuator>
  <general name="roll" joint="roll" ctrlrange="-1 1" ctrllimited="true" gear="-50"
    biasprm="0" biastype="affine"/>
  <motor name="steer" joint="steer" ctrlrange="-1 1" ctrllimited="true" gear="30"/>
</actuator>"""

# The four sides of a box: outward normal, and the plane's axes (u to the right as seen from outside).
_SIDES = (
    ((-1, 0), "0 -1 0 0 0 1"),
    ((1, 0), "0 1 0 0 0 1"),
    ((0, -1), "1 0 0 0 0 1"),
    ((0, 1), "-1 0 0 0 0 1"),
)


@dataclasses.dataclass(frozen=True)
class Look:
    """What the picture depends on besides the scenario."""

    wall_height: float = WALL_HEIGHT
    object_height: float = 0.0
    """Height of an object's centre above the floor."""
    tops: bool = False
    """Whether the tops of walls can be seen."""


@dataclasses.dataclass(frozen=True)
class Material:
    """A texture and how often it repeats along the two sides of its plane."""

    texture: str
    repeat: tuple[float, float]


@dataclasses.dataclass
class MazeXml:
    """The MJCF of one maze, with what the renderer must know about it."""

    xml: str
    materials: list[Material]
    planes: list[tuple[float, float]]
    """Half sizes of the plane geoms in model order, the ground first."""


def merge_cells(layer: tuple[str, ...], char: str) -> list[tuple[int, int, int, int]]:
    """Covers the cells of one character by rectangles (top, left, bottom, right) of odd sides.

    Greedy from the top left, as in the published arena. Odd sides keep the textures, which are
    anchored in the middle of a plane, aligned to cells.
    """
    uncovered = np.array([[cell == char for cell in row] for row in layer])
    rectangles = []
    for top, left in itertools.product(*map(range, uncovered.shape)):
        if not uncovered[top, left]:
            continue
        width, best, best_area = uncovered.shape[1], (1, 1), 0
        for bottom in range(top, uncovered.shape[0]):
            run = uncovered[bottom, left : left + width]
            width = len(run) if run.all() else int(np.argmin(run))
            width -= width % 2 == 0
            if width <= 0:
                break
            rows = bottom - top + 1
            if rows % 2 == 1 and rows * width > best_area:
                best, best_area = (rows, width), rows * width
        rows, columns = best
        uncovered[top : top + rows, left : left + columns] = False
        rectangles.append((top, left, top + rows, left + columns))
    return rectangles


def block_layer(walls: tuple[str, ...]) -> tuple[str, ...]:
    """Wall cells labelled by their 3x3 block of the grid, '0' to '8'."""
    grid = len(walls)
    return tuple(
        "".join(
            str(TEXTURE_BLOCKS * _block(r, grid) + _block(c, grid)) if char == WALL else char
            for c, char in enumerate(row)
        )
        for r, row in enumerate(walls)
    )


@functools.cache
def _block(index: int, grid: int) -> int:
    return next(b for b in range(TEXTURE_BLOCKS) if index < (b + 1) * grid // TEXTURE_BLOCKS)


class _Builder:
    """Collects the geoms of a maze, and the materials and planes they use."""

    def __init__(self, grid: int) -> None:
        self.grid = grid
        self.materials: dict[Material, int] = {}
        self.planes: list[tuple[float, float]] = []
        self.geoms: list[str] = []

    def rectangle(self, bounds: tuple[int, int, int, int]) -> tuple[float, float, float, float]:
        """Centre and half sizes in metres."""
        top, left, bottom, right = bounds
        x, y = cell_to_world(((top + bottom - 1) / 2, (left + right - 1) / 2), self.grid)
        return x, y, (right - left) * HALF_CELL, (bottom - top) * HALF_CELL

    def plane(self, texture: str, pos: tuple[float, ...], half: tuple[float, float], axes: str) -> None:
        repeat = (2 * half[0] / CELL_METRES, 2 * half[1] / CELL_METRES)
        index = self.materials.setdefault(Material(texture, repeat), len(self.materials))
        self.planes.append(half)
        self.geoms.append(
            f'<geom type="plane" pos="{_text(pos)}" size="{_text((*half, CELL_METRES))}" '
            f'xyaxes="{axes}" material="m{index}" contype="0" conaffinity="0"/>'
        )


def build_maze(scenario: Scenario, look: Look) -> MazeXml:
    """The model of one episode."""
    assert scenario.textures is not None
    builder = _Builder(scenario.grid)
    half = scenario.grid * HALF_CELL
    builder.planes.append((half, half))
    boxes = []
    layer = block_layer(scenario.walls)
    for block, texture in enumerate(scenario.textures):
        for bounds in merge_cells(layer, str(block)):
            x, y, half_x, half_y = builder.rectangle(bounds)
            half_z = look.wall_height / 2
            boxes.append(
                f'<geom type="box" pos="{_text((x, y, half_z))}" '
                f'size="{_text((half_x, half_y, half_z))}" group="3"/>'
            )
            for (nx, ny), axes in _SIDES:
                width = half_y if nx else half_x
                centre = (x + nx * half_x, y + ny * half_y, half_z)
                builder.plane(f"wall_{texture}", centre, (width, half_z), axes)
            if look.tops:
                centre = (x, y, look.wall_height)
                builder.plane(f"top_{texture}", centre, (half_x, half_y), "1 0 0 0 1 0")
    for char in sorted(set("".join(scenario.rooms)) - {WALL}, key=lambda c: (c != CORRIDOR, c)):
        texture = FLOOR_TEXTURES[char != CORRIDOR]
        for bounds in merge_cells(scenario.rooms, char):
            x, y, half_x, half_y = builder.rectangle(bounds)
            builder.plane(f"floor_{texture}", (x, y, 0), (half_x, half_y), "1 0 0 0 1 0")
    targets = [_sphere(builder, scenario, index, look) for index in range(len(scenario.objects))]
    fovy = 2 * math.degrees(math.atan2(TOP_PADDING * half, TOP_HEIGHT))
    assets = "".join(f'<material name="m{index}"/>' for index in range(len(builder.materials)))
    xml = f"""<mujoco model="memory_maze">{_HEADER}<asset>{assets}</asset>
<worldbody>
<camera name="top" pos="0 0 {TOP_HEIGHT}" zaxis="0 0 1" fovy="{fovy!r}"/>
<geom name="ground" type="plane" size="{_text((half, half, 1))}" rgba="0 0 0 0"/>
{"".join(builder.geoms)}
<body name="maze">{"".join(boxes)}</body>
{_WALKER}
{"".join(targets)}
</worldbody>{_ACTUATORS}</mujoco>"""
    return MazeXml(xml, list(builder.materials), builder.planes)


def _sphere(builder: _Builder, scenario: Scenario, index: int, look: Look) -> str:
    """An object: touched where a contact is detected, but too soft a margin to ever push back."""
    material = Material(f"sphere_{scenario.colors[index]}", (1.0, 1.0))
    number = builder.materials.setdefault(material, len(builder.materials))
    x, y = cell_to_world(scenario.objects[index], scenario.grid)
    return (
        f'<body name="target{index}" pos="{_text((x, y, 0))}"><geom name="target{index}" type="sphere" '
        f'size="{OBJECT_RADIUS}" pos="0 0 {look.object_height}" material="m{number}" '
        f'margin="{-2 * OBJECT_RADIUS}" gap="{2 * OBJECT_RADIUS}"/></body>'
    )


def build_graphics(
    grid: int, look: Look, resolution: int
) -> tuple[str, list[str], list[tuple[float, float]]]:
    """The model for the graphics card: its MJCF, the names of its textures, its planes' half sizes."""
    files = {f"wall_{name}": path for name, path in WALLS.items()}
    if look.tops:
        files |= {f"top_{name}": path for name, path in WALLS.items()}
    files |= {f"floor_{name}": path for name, path in FLOORS.items()}
    textures = [
        '<texture name="sky" type="skybox" builtin="gradient" rgb1=".4 .6 .8" rgb2="0 0 0" '
        'width="100" height="100"/>'
    ]
    textures += [f'<texture name="{n}" type="2d" file="{path}"/>' for n, path in files.items()]
    textures += [
        f'<texture name="sphere_{i}" type="cube" builtin="flat" rgb1="{_text(rgb)}" rgb2="{_text(rgb)}" '
        'width="8" height="8"/>'
        for i, rgb in enumerate(COLORS.tolist())
    ]
    lengths = [HALF_CELL * n for n in range(1, grid + 1, 2)]
    planes = [(length, look.wall_height / 2) for length in lengths]
    planes += list(itertools.product(lengths, lengths))
    geoms = "".join(
        f'<geom type="plane" size="{_text((*half, CELL_METRES))}" contype="0" conaffinity="0"/>'
        for half in planes
    )
    xml = f"""<mujoco model="memory_maze_graphics">
<statistic extent="{1.2 * grid * CELL_METRES}" center="0 0 0"/>
<visual>
  <global offwidth="{resolution}" offheight="{resolution}"/>
  <quality shadowsize="1" offsamples="4"/>
</visual>
<asset>{"".join(textures)}</asset>
<worldbody>{geoms}</worldbody></mujoco>"""
    names = ["sky", *files, *(f"sphere_{i}" for i in range(len(COLORS)))]
    return xml, names, planes


def _text(values) -> str:
    """Numbers for MJCF without loss."""
    return " ".join(repr(float(value)) for value in values)
