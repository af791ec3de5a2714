"""What a generator is told."""

import dataclasses

_LETTERS = 26


@dataclasses.dataclass(frozen=True)
class Settings:
    """What layouts look like. Sizes are in cells."""

    height: int
    """With the outer wall; odd."""
    width: int
    """With the outer wall; odd."""
    max_rooms: int = 0
    """How many rooms at the most; 0 for as many as fit."""
    room_min_size: int = 3
    room_max_size: int = 3
    retry_count: int = 1000
    """How many rooms may turn out to overlap others before no more are tried."""
    extra_connection_probability: float = 0.0
    """Of gates beside the one that connects each pair of neighbours."""
    spawns_per_room: int = 1
    """Places for starts in each room; all cells if negative."""
    objects_per_room: int = 1
    """Places for objects in each room; all cells that are left if negative."""
    max_variations: int = _LETTERS
    """How many letters the rooms are named with."""
    simplify: bool = True
    """Whether dead ends are filled and bends pulled straight."""

    def __post_init__(self) -> None:
        if min(self.height, self.width) < 3 or self.height % 2 == 0 or self.width % 2 == 0:
            raise ValueError(f"height and width must be odd, at least 3: got {self.height} and {self.width}")
        inside = min(self.height, self.width) - 2
        if not 1 <= self.room_min_size <= self.room_max_size <= inside:
            raise ValueError(
                f"room sizes must satisfy 1 <= room_min_size <= room_max_size <= {inside}: "
                f"got {self.room_min_size} and {self.room_max_size}"
            )
        if not 1 <= self.max_variations <= _LETTERS:
            raise ValueError(f"max_variations must be from 1 to {_LETTERS}: got {self.max_variations}")
