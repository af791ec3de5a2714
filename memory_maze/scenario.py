"""Scenarios: episodes as plain data, with maze, textures, objects, start and order of targets.

The sampler samples them as the published package does, people write them as text maps, and every engine
plays them.
"""

import dataclasses
import itertools
import json
import math
import operator
import os
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from memory_maze.system.files import replacing
from memory_maze.tasks import MAX_OBJECTS, MAX_SIZE, MIN_SIZE
from memory_maze.world import COLOR_NAMES, COLORS

Cell = tuple[int, int]  # (row, column) in the grid with its outer wall; row 0 is the top, as printed

WALL, FLOOR, CORRIDOR = "*", " ", "."
WALL_TEXTURES = ("blue", "cerise", "green_bright", "green", "purple", "red_bright", "red", "yellow")
FLOOR_TEXTURES = ("blue", "blue_bright")  # corridors, rooms
TEXTURE_BLOCKS = 3  # walls take their texture by 3x3 blocks of the grid

_HEADINGS = {">": 0.0, "^": math.pi / 2, "<": math.pi, "v": -math.pi / 2}
_OBJECT_LETTERS = {name[0]: index for index, name in enumerate(COLOR_NAMES)}
_MAP_HELP = (
    "a map holds # or * (wall), space or . (floor), P (possible start), "
    "one of > ^ < v (start with that heading) and r g b p y s (objects by colour)"
)


class ScenarioError(ValueError):
    """An unplayable scenario; the message names the cell and the violated rule."""


@dataclasses.dataclass(frozen=True)
class Scenario:
    """An episode. Unspecified fields (None, or several `spawns`) are sampled at each reset."""

    walls: tuple[str, ...]
    """Rows from the top, outer wall included: `*` is wall, space is floor."""
    objects: tuple[Cell, ...]
    """The cell of each object."""
    colors: tuple[int, ...]
    """The colour of each object, as an index into `COLORS`."""
    spawns: tuple[Cell, ...]
    """Possible start cells; one of them is sampled."""
    rooms: tuple[str, ...] = ()
    """Rows like `walls`: `A`, `B`, ... are room floors, `.` is everything else. Inferred by default."""
    heading: float | None = None
    """Direction the agent faces at the start, in radians: 0 is +x, to the right on the map."""
    textures: tuple[str, ...] | None = None
    """Wall texture of each 3x3 block of the grid, row by row from the top left."""
    draws: tuple[int, ...] | None = None
    """Raw target draws: the first is the first target, the rest are used as targets are reached."""
    hidden: tuple[int, ...] = ()
    """Objects that count as touched at reset and are invisible in the first image (errata 1)."""

    def __post_init__(self) -> None:
        if not self.rooms:
            object.__setattr__(self, "rooms", find_rooms(self.walls))
        try:
            check(self)
        except (TypeError, AttributeError) as error:
            raise ScenarioError(f"a field has the wrong type: {error}") from error

    @property
    def grid(self) -> int:
        """Cells per side, including the outer wall."""
        return len(self.walls)

    @property
    def size(self) -> int:
        """Cells per side, without the outer wall."""
        return len(self.walls) - 2

    @property
    def complete(self) -> bool:
        """Whether all fields are specified."""
        return (
            len(self.spawns) == 1
            and self.heading is not None
            and self.textures is not None
            and self.draws is not None
        )

    def fill(self, rng: np.random.RandomState, num_draws: int) -> "Scenario":
        """Returns a complete scenario with unspecified fields sampled from `rng`."""
        textures = self.textures or tuple(rng.choice(WALL_TEXTURES, TEXTURE_BLOCKS**2).tolist())
        spawn = self.spawns[rng.randint(len(self.spawns))]
        heading = rng.uniform(-math.pi, math.pi) if self.heading is None else self.heading
        draws = self.draws
        if draws is None:
            draws = tuple(rng.randint(len(self.objects), size=num_draws).tolist())
        return dataclasses.replace(self, textures=textures, spawns=(spawn,), heading=heading, draws=draws)

    def draw(self, index: int) -> int:
        """Returns the raw target draw at `index`; past the recorded ones, objects alternate."""
        assert self.draws is not None
        return self.draws[index] if index < len(self.draws) else index % len(self.objects)

    @classmethod
    def from_text(
        cls,
        text: str,
        *,
        start_anywhere: bool = False,
        heading: float | None = None,
        textures: tuple[str, ...] | None = None,
        draws: tuple[int, ...] | None = None,
    ) -> "Scenario":
        """Reads a map: `#` wall, space floor, `P` possible start, `> ^ < v` start, `r g b p y s` objects.

        Objects are numbered in the order of their colours. `start_anywhere` makes every free cell
        without an object a possible start.
        """
        rows = [row.rstrip() for row in text.rstrip().splitlines()]
        rows = list(itertools.dropwhile(lambda row: not row, rows))
        indent = min((len(row) - len(row.lstrip()) for row in rows if row.strip()), default=0)
        rows = [row[indent:] for row in rows]
        walls: list[str] = []
        spawns: list[Cell] = []
        arrows: list[Cell] = []
        objects: dict[int, Cell] = {}
        for r, row in enumerate(rows):
            line = ""
            for c, char in enumerate(row):
                if char in "P><^v":
                    spawns.append((r, c))
                if char in _HEADINGS:
                    arrows.append((r, c))
                if char in _OBJECT_LETTERS:
                    color = _OBJECT_LETTERS[char]
                    if color in objects:
                        raise ScenarioError(
                            f"cell {(r, c)}: there is a {COLOR_NAMES[color]} object "
                            f"in cell {objects[color]} already"
                        )
                    objects[color] = (r, c)
                if char not in "#*" + " .P" + "".join(_HEADINGS) + "".join(_OBJECT_LETTERS):
                    raise ScenarioError(f"cell {(r, c)}: unknown character {char!r}; {_MAP_HELP}")
                line += WALL if char in "#*" else FLOOR
            walls.append(line)
        if len(arrows) > 1:
            raise ScenarioError(f"cell {arrows[1]}: only one of > ^ < v may stand in a map")
        if arrows and len(spawns) > 1:
            raise ScenarioError("a map holds either one start with a heading (> ^ < v) or starts P")
        if arrows and (heading is not None or start_anywhere):
            raise ScenarioError(f"cell {arrows[0]} sets the start: pass neither heading nor start_anywhere")
        if arrows:
            r, c = arrows[0]
            heading = _HEADINGS[rows[r][c]]
        colors = tuple(sorted(objects))
        cells = tuple(objects[color] for color in colors)
        if start_anywhere:
            spawns = [cell for cell in free_cells(walls) if cell not in cells]
        return cls(
            walls=tuple(walls),
            objects=cells,
            colors=colors,
            spawns=tuple(spawns),
            heading=heading,
            textures=textures,
            draws=draws,
        )

    def to_text(self) -> str:
        """The map of this scenario, for `from_text`, which numbers objects by colour; no heading is kept."""
        grid = [list(row.replace(WALL, "#")) for row in self.walls]
        for r, c in self.spawns:
            grid[r][c] = "P"
        for (r, c), color in zip(self.objects, self.colors, strict=True):
            grid[r][c] = COLOR_NAMES[color][0]
        return "\n".join("".join(row) for row in grid)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; `from_dict` reads it back without loss."""
        data = {"format": "memory-maze-scenario-1", **vars(self)}
        if self.draws is not None:
            data["draws"] = "".join(map(str, self.draws))
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Scenario":
        if data.get("format") != "memory-maze-scenario-1":
            raise ScenarioError("not a scenario: the key 'format' is not 'memory-maze-scenario-1'")
        fields = {key: value for key, value in data.items() if key != "format"}
        names = {field.name for field in dataclasses.fields(cls)}
        if unknown := fields.keys() - names:
            raise ScenarioError(f"unknown keys {sorted(unknown)}: a scenario has {sorted(names)}")
        if missing := {"walls", "objects", "colors", "spawns"} - fields.keys():
            raise ScenarioError(f"missing keys {sorted(missing)}")
        try:
            for key in ("objects", "spawns"):
                fields[key] = tuple((operator.index(row), operator.index(col)) for row, col in fields[key])
            for key in ("colors", "draws", "hidden"):
                if fields.get(key) is not None:
                    fields[key] = tuple(int(value) for value in fields[key])
            for key in ("walls", "rooms", "textures"):
                if fields.get(key) is not None:
                    fields[key] = tuple(fields[key])
        except (TypeError, ValueError) as error:
            raise ScenarioError(f"{key}: {error}") from error
        return cls(**fields)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the scenario as JSON, whole or not at all."""
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(self.to_dict(), indent=1) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Scenario":
        """Reads what `save` wrote, or a text map."""
        try:
            text = Path(path).read_text()
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"{path} not found: write a map, or sample one with memory-maze scenario --out {path}"
            ) from error
        except UnicodeDecodeError as error:
            raise ScenarioError(f"{path} is neither a text map nor JSON: {error}") from error
        if not text.lstrip().startswith("{"):
            return cls.from_text(text)
        try:
            return cls.from_dict(json.loads(text))
        except json.JSONDecodeError as error:
            raise ScenarioError(f"{path} is neither a text map nor JSON: {error}") from error


def layout_of(scenario: Scenario) -> np.ndarray:
    """(size, size) uint8: 1 is free; row 0 is the bottom row, the outer wall is left out."""
    walls = np.array([[char == WALL for char in row] for row in scenario.walls])
    return (~walls[1:-1, 1:-1][::-1]).astype(np.uint8)


def free_cells(walls: tuple[str, ...] | list[str]) -> list[Cell]:
    return [(r, c) for r, row in enumerate(walls) for c, char in enumerate(row) if char != WALL]


def reachable_cells(walls: tuple[str, ...], start: Cell) -> set[Cell]:
    """Cells that can be walked to from `start`."""
    seen, queue = {start}, deque([start])
    while queue:
        r, c = queue.popleft()
        for cell in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1)):
            if cell not in seen and walls[cell[0]][cell[1]] != WALL:
                seen.add(cell)
                queue.append(cell)
    return seen


def find_rooms(walls: tuple[str, ...]) -> tuple[str, ...]:
    """Room letters for a hand-written maze: every area covered by free 3x3 squares is a room."""
    free = set(free_cells(walls))
    squares = [
        {(r + i, c + j) for i in range(3) for j in range(3)}
        for r, c in free
        if all((r + i, c + j) in free for i in range(3) for j in range(3))
    ]
    rooms: list[set[Cell]] = []
    for square in squares:
        for room in [room for room in rooms if room & square]:
            rooms.remove(room)
            square |= room
        rooms.append(square)
    letters = {cell: chr(ord("A") + i % 26) for i, room in enumerate(sorted(rooms, key=min)) for cell in room}
    return tuple(
        "".join(letters.get((r, c), CORRIDOR) for c in range(len(row))) for r, row in enumerate(walls)
    )


def check(scenario: Scenario) -> None:
    """Raises `ScenarioError` if the scenario cannot be played."""
    _check_shape(scenario)
    _check_objects(scenario)
    _check_spawns(scenario)
    _check_look_and_draws(scenario)


def _check_shape(scenario: Scenario) -> None:
    walls, grid = scenario.walls, scenario.grid
    if grid % 2 == 0 or not MIN_SIZE <= grid - 2 <= MAX_SIZE:
        raise ScenarioError(
            f"wrong shape: {grid} rows; a maze has an odd number of rows from {MIN_SIZE + 2} "
            f"to {MAX_SIZE + 2}, outer wall included"
        )
    for r, row in enumerate(walls):
        if len(row) != grid:
            raise ScenarioError(
                f"wrong shape: row {r} has {len(row)} cells and the maze has {grid} rows; a maze is square"
            )
    for r, row in enumerate(walls):
        for c, char in enumerate(row):
            if char not in (WALL, FLOOR):
                raise ScenarioError(f"cell {(r, c)}: walls hold {WALL!r} and {FLOOR!r}, not {char!r}")
            if char != WALL and (r in (0, grid - 1) or c in (0, grid - 1)):
                raise ScenarioError(f"cell {(r, c)} is open: the outermost cells must be wall")
    if [len(row) for row in scenario.rooms] != [grid] * grid:
        raise ScenarioError(f"wrong shape: rooms must have {grid} rows of {grid} cells, as walls has")


def _check_cell(scenario: Scenario, cell: Cell, what: str) -> None:
    r, c = cell
    if not (0 <= r < scenario.grid and 0 <= c < scenario.grid):
        raise ScenarioError(f"{what} is in cell {cell}, outside the maze of {scenario.grid} rows")
    if scenario.walls[r][c] == WALL:
        raise ScenarioError(f"{what} is in cell {cell}, which is wall: it must stand on a free cell")


def _check_objects(scenario: Scenario) -> None:
    objects, colors = scenario.objects, scenario.colors
    free = len(free_cells(scenario.walls))
    if free < len(objects):
        raise ScenarioError(f"{len(objects)} objects do not fit: the maze has {free} free cells")
    if not 1 <= len(objects) <= MAX_OBJECTS:
        raise ScenarioError(f"a maze has from 1 to {MAX_OBJECTS} objects: got {len(objects)}")
    if len(colors) != len(objects):
        raise ScenarioError(f"{len(objects)} objects and {len(colors)} colours: give one colour per object")
    for i, (cell, color) in enumerate(zip(objects, colors, strict=True)):
        if not 0 <= color < len(COLORS):
            raise ScenarioError(f"object {i} has colour {color}: colours are 0 to {len(COLORS) - 1}")
        if color in colors[:i]:
            raise ScenarioError(f"object {i} is {COLOR_NAMES[color]}, and so is an earlier one")
        _check_cell(scenario, cell, f"object {i} ({COLOR_NAMES[color]})")
        if cell in objects[:i]:
            raise ScenarioError(f"object {i} is in cell {cell}, which holds another object")


def _check_spawns(scenario: Scenario) -> None:
    if not scenario.spawns:
        raise ScenarioError("no spawn: mark at least one free cell with P, or with > ^ < v")
    for spawn in scenario.spawns:
        _check_cell(scenario, spawn, "a spawn")
    reachable = reachable_cells(scenario.walls, scenario.spawns[0])
    for i, cell in enumerate(scenario.objects):
        if cell not in reachable:
            raise ScenarioError(
                f"object {i} ({COLOR_NAMES[scenario.colors[i]]}) in cell {cell} cannot be reached "
                f"from the spawn in cell {scenario.spawns[0]}"
            )
    for spawn in scenario.spawns:
        if spawn not in reachable:
            raise ScenarioError(f"the spawns in cells {scenario.spawns[0]} and {spawn} are not connected")
    if scenario.heading is not None and not math.isfinite(scenario.heading):
        raise ScenarioError(f"heading must be a finite angle in radians: got {scenario.heading}")


def _check_look_and_draws(scenario: Scenario) -> None:
    blocks = TEXTURE_BLOCKS**2
    if scenario.textures is not None:
        if len(scenario.textures) != blocks:
            raise ScenarioError(f"textures must name {blocks}: got {len(scenario.textures)}")
        for name in scenario.textures:
            if name not in WALL_TEXTURES:
                raise ScenarioError(f"unknown wall texture {name!r}: choose from {', '.join(WALL_TEXTURES)}")
    if scenario.draws is not None:
        if not scenario.draws:
            raise ScenarioError("draws must hold at least the first target")
        if bad := set(scenario.draws) - set(range(len(scenario.objects))):
            raise ScenarioError(f"draws name objects {sorted(bad)}: there are {len(scenario.objects)}")
    if bad := set(scenario.hidden) - set(range(len(scenario.objects))):
        raise ScenarioError(f"hidden names objects {sorted(bad)}: there are {len(scenario.objects)}")
