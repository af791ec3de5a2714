"""The pictures of walls and floors, ready to be sampled: one flat array of texels in many sizes.

MuJoCo samples its textures trilinearly: bilinear in the two nearest mip levels, blended by the level
of detail. Here the blends of neighbouring levels are made beforehand in steps of half a level, so that
one bilinear fetch of four texels does the same.
"""

import dataclasses
import functools
import hashlib
import struct
import zlib
from pathlib import Path

import jax
import numpy as np

from memory_maze.assets import FLOORS, WALLS
from memory_maze.scenario import WALL_TEXTURES
from memory_maze.system.files import cache_folder, read_cached, write_cached

FIRST_FLOOR = len(WALL_TEXTURES)  # texture numbers: walls in the order of WALL_TEXTURES, then floors
STEPS_PER_LEVEL = 2
SLOTS = 16  # entries of the table per step: a power of two, so that an index is step << 4 | texture
LOG_SIZE_BITS = 4

_FORMAT = "memory-maze-atlas-1"
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PNG_PALETTE = 3
_PNG_CHANNELS = {2: 3, _PNG_PALETTE: 1, 6: 4}  # by colour type: RGB, palette, RGBA


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Atlas:
    """All textures in all sizes."""

    texels: jax.Array  # (M,) uint32: red | green << 8 | blue << 16
    table: jax.Array  # (steps * SLOTS,) int32: first texel << 4 | log2 of the side, of each step and texture

    @property
    def steps(self) -> int:
        return self.table.shape[0] // SLOTS


@functools.cache
def load_atlas() -> Atlas:
    """The atlas of the benchmark's textures; built once and then read from the user's cache."""
    sources = [path.read_bytes() for path in texture_paths()]
    arrays = load_arrays(cache_path(sources), sources)
    # Arrays, not tracers, also if the first call is inside a program: the result is kept.
    with jax.ensure_compile_time_eval():
        return Atlas(*(jax.device_put(array) for array in arrays))


def texture_paths() -> list[Path]:
    """The PNG files in the order of their texture numbers."""
    return [*WALLS.values(), *FLOORS.values()]


def cache_path(sources: list[bytes]) -> Path:
    """Where the atlas of these files is kept: its name tells their contents and the format."""
    folder = cache_folder("textures")
    digest = hashlib.sha256(_FORMAT.encode())
    for source in sources:
        digest.update(hashlib.sha256(source).digest())
    return folder / f"atlas-{digest.hexdigest()[:16]}.npz"


def load_arrays(path: Path, sources: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Texels and table from the cache file, or made anew where that is missing or damaged."""
    arrays = _read_cache(path, len(sources))
    if arrays is not None:
        return arrays
    texels, table = build_atlas(np.stack([decode_png(source) for source in sources]))
    write_cached(path, {"texels": texels, "table": table})
    return texels, table


def _read_cache(path: Path, count: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Zip files carry checksums, so a damaged one is noticed on reading."""
    arrays = read_cached(path) or {}
    if arrays.keys() != {"texels", "table"}:
        return None
    texels, table = arrays["texels"], arrays["table"]
    if texels.dtype != np.uint32 or table.dtype != np.int32 or texels.ndim != 1 or table.size % SLOTS:
        return None
    entries = table.reshape(-1, SLOTS)[:, :count].astype(np.int64)
    ends = (entries >> LOG_SIZE_BITS) + 4 ** (entries & (1 << LOG_SIZE_BITS) - 1)
    return (texels, table) if ends.max(initial=0) == texels.size else None


def build_atlas(textures: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Texels and table from (count, side, side, 3) uint8 textures."""
    levels = mip_levels(textures.astype(np.float32))
    texels: list[np.ndarray] = []
    table: list[list[int]] = []
    size = 0
    for step in range((len(levels) - 1) * STEPS_PER_LEVEL + 1):
        level, part = divmod(step, STEPS_PER_LEVEL)
        if part and level == 0:
            table.append(table[-1])  # a blend at full size would not be worth its memory
            continue
        blend = levels[level]
        if part:
            weight = part / STEPS_PER_LEVEL
            blend = (1 - weight) * blend + weight * upsample(levels[level + 1])
        packed = pack(blend)
        log_side = int(np.log2(packed.shape[1]))
        starts = [size + index * packed[0].size for index in range(len(packed))]
        entries = [start << LOG_SIZE_BITS | log_side for start in starts]
        table.append(entries + [0] * (SLOTS - len(entries)))
        texels.append(packed.reshape(-1))
        size += packed.size
    assert size < 2 ** (31 - LOG_SIZE_BITS), size
    return np.concatenate(texels), np.array(table, np.int32).reshape(-1)


def mip_levels(textures: np.ndarray) -> list[np.ndarray]:
    """The textures at full size, half, quarter, ..., one texel, each the mean of 2x2 of the one before."""
    levels = [textures]
    while levels[-1].shape[1] > 1:
        count, side = levels[-1].shape[:2]
        levels.append(levels[-1].reshape(count, side // 2, 2, side // 2, 2, 3).mean((2, 4)))
    return levels


def upsample(textures: np.ndarray) -> np.ndarray:
    """Twice the size, bilinear; textures repeat, so the edges wrap."""
    for axis in (1, 2):
        near = 0.75 * textures
        pair = (near + 0.25 * np.roll(textures, 1, axis), near + 0.25 * np.roll(textures, -1, axis))
        shape = list(textures.shape)
        shape[axis] *= 2
        textures = np.stack(pair, axis + 1).reshape(shape)
    return textures


def pack(rgb: np.ndarray) -> np.ndarray:
    """(..., 3) floats from 0 to 255 as one uint32 each."""
    red, green, blue = np.moveaxis(np.floor(rgb + 0.5).astype(np.uint32), -1, 0)
    return red | green << 8 | blue << 16


def decode_png(data: bytes) -> np.ndarray:
    """(height, width, 3) uint8 of an 8-bit file without interlacing; alpha is dropped."""
    chunks = list(_png_chunks(data))
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    if depth != 8 or kind not in _PNG_CHANNELS or interlaced:
        raise ValueError(f"PNG of depth {depth}, colour type {kind}, interlacing {interlaced}: not supported")
    channels = _PNG_CHANNELS[kind]
    pixels = zlib.decompress(b"".join(body for name, body in chunks if name == b"IDAT"))
    rows = np.frombuffer(pixels, np.uint8).reshape(height, 1 + width * channels)
    image = _unfilter(rows[:, 0], rows[:, 1:].reshape(height, width, channels))
    if kind == _PNG_PALETTE:
        palette = next(body for name, body in chunks if name == b"PLTE")
        return np.frombuffer(palette, np.uint8).reshape(-1, 3)[image[..., 0]]
    return image[..., :3]


def _png_chunks(data: bytes):
    if not data.startswith(_PNG_SIGNATURE):
        raise ValueError("not a PNG file")
    start = len(_PNG_SIGNATURE)
    while start < len(data):
        length, name = struct.unpack_from(">I4s", data, start)
        yield name, data[start + 8 : start + 8 + length]
        start += length + 12


def _unfilter(filters: np.ndarray, deltas: np.ndarray) -> np.ndarray:
    """Undoes the prediction of each pixel from those to the left, above, and above left.

    A pixel needs only pixels of earlier anti-diagonals, so each anti-diagonal is done at once.
    """
    height, width, channels = deltas.shape
    out = np.zeros((height + 1, width + 1, channels), np.int16)  # a margin of zeros above and to the left
    for diagonal in range(height + width - 1):
        row = np.arange(max(0, diagonal - width + 1), min(height, diagonal + 1))
        column = diagonal - row
        left, above, corner = out[row + 1, column], out[row, column + 1], out[row, column]
        away_left, away_above = np.abs(above - corner), np.abs(left - corner)
        away_corner = np.abs(left + above - 2 * corner)
        nearest = np.where(away_above <= away_corner, above, corner)
        nearest = np.where((away_left <= away_above) & (away_left <= away_corner), left, nearest)
        predictions = (np.zeros_like(left), left, above, (left + above) >> 1, nearest)
        predicted = np.choose(filters[row, None], predictions)
        out[row + 1, column + 1] = (deltas[row, column] + predicted) & 255
    return out[1:, 1:].astype(np.uint8)
