"""Files that come with the package: trained agents, and the pictures of walls and floors.

The pictures are labmaze's (see `textures/README`); their licence lies beside them.
"""

from pathlib import Path

from memory_maze.scenario import FLOOR_TEXTURES, WALL_TEXTURES

_FOLDER = Path(__file__).parent
AGENTS = _FOLDER / "agents"
WALLS = {name: _FOLDER / "textures" / f"wall_{name}.png" for name in WALL_TEXTURES}
FLOORS = {name: _FOLDER / "textures" / f"floor_{name}.png" for name in FLOOR_TEXTURES}
