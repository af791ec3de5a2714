"""NPZ files, read with distrust: nothing in them is executed, nothing is larger than it says.

Whatever is wrong with a file is a `DataError` with the file's name.
"""

import contextlib
import io
import math
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Generator
from typing import IO

import numpy as np

from memory_maze.data.schema import DataError

LIMIT = 4 << 30  # bytes that a file may hold, unpacked
_HEADER_LIMIT = 4096
_BLOCK = 1 << 20
_END = struct.Struct("<4s4H2LH")  # of a zip file
# As NumPy writes it, of numbers alone: objects would be executed. Python's own parser is no match for
# hostile text.
_HEADER = re.compile(
    r"\{\s*'descr':\s*'([<>|][biuf][0-9]{1,2})',\s*'fortran_order':\s*(True|False),\s*"
    r"'shape':\s*\(((?:[0-9]+,\s*)*|(?:[0-9]+,\s*)+[0-9]+)\),?\s*\}\s*"
)
COMPRESSION = 4  # of 9: half the time of the usual 6, files are 5 % larger
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    NotImplementedError,
    RuntimeError,
    MemoryError,
    OverflowError,
    struct.error,
    UnicodeError,
)

Source = str | os.PathLike[str] | IO[bytes]


@contextlib.contextmanager
def naming(name: str) -> Generator[None]:
    """Turns whatever a damaged file raises into a `DataError` that names it."""
    try:
        yield
    except DataError:
        raise
    except FileNotFoundError:
        raise
    except _DAMAGE as error:
        raise DataError(f"{name}: damaged or not an NPZ file: {error}") from error


class Archive:
    """An open NPZ file."""

    def __init__(self, source: Source, name: str, limit: int = LIMIT) -> None:
        self.name = name
        with naming(name):
            self._zip = open_zip(source)
            try:
                self._members = self._check_members(limit)
            except BaseException:
                self._zip.close()
                raise

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._zip.close()

    def _check_members(self, limit: int) -> dict[str, zipfile.ZipInfo]:
        members: dict[str, zipfile.ZipInfo] = {}
        for info in self._zip.infolist():
            key = check_member(info, self.name).removesuffix(".npy")
            if "/" in key or not info.filename.endswith(".npy"):
                raise DataError(f"{self.name}: {info.filename!r} is not an array")
            if key in members:
                raise DataError(f"{self.name}: duplicate key {key}")
            members[key] = info
        total = sum(info.file_size for info in members.values())
        if total > limit:
            raise DataError(f"{self.name}: {total:,} bytes uncompressed: the limit is {limit:,}")
        return members

    @property
    def unpacked(self) -> int:
        """Bytes of all arrays, which none exceeds."""
        return sum(info.file_size for info in self._members.values())

    def headers(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        """Shapes and types of all arrays, without reading them."""
        result = {}
        for key in self._members:
            with self._open(key) as (_, shape, dtype):
                result[key] = shape, dtype
        return result

    def read(self, key: str, start: int = 0, stop: int | None = None) -> np.ndarray:
        """An array, or a part of it along its first axis."""
        with self._open(key) as (handle, shape, dtype):
            if not shape:
                return np.frombuffer(_read_all(handle, dtype.itemsize), dtype).reshape(shape)
            stop = shape[0] if stop is None else stop
            row = math.prod(shape[1:]) * dtype.itemsize
            _skip(handle, start * row)
            data = _read_all(handle, (stop - start) * row)
            if stop == shape[0] and handle.read(1):  # also makes the checksum be compared
                raise ValueError("it has more data than its header declares")
            return np.frombuffer(data, dtype).reshape(stop - start, *shape[1:])

    def read_all(self) -> dict[str, np.ndarray]:
        """All arrays."""
        return {key: self.read(key) for key in self._members}

    @contextlib.contextmanager
    def _open(self, key: str) -> Generator[tuple[IO[bytes], tuple[int, ...], np.dtype]]:
        if key not in self._members:
            raise DataError(f"{self.name}: the key {key} is missing")
        info = self._members[key]
        with naming(f"{self.name}: {key}"), self._zip.open(info) as handle:
            shape, dtype, length = _read_header(handle)
            expected = length + math.prod(shape) * dtype.itemsize
            if expected != info.file_size:
                raise ValueError(f"{info.file_size:,} bytes, but its header declares {expected:,}")
            yield handle, shape, dtype


def open_zip(source: Source) -> zipfile.ZipFile:
    """A zip file; whoever opened a pipe would wait for ever."""
    if isinstance(source, (str, os.PathLike)) and not stat.S_ISREG(os.stat(source).st_mode):
        raise OSError("not a file")
    file = zipfile.ZipFile(source)
    try:
        _check_ends(file)
    except BaseException:
        file.close()
        raise
    return file


def _check_ends(file: zipfile.ZipFile) -> None:
    """The directory belongs to the whole file: of a truncated one, it could be that of a file inside."""
    handle, infos = file.fp, file.infolist()
    assert handle is not None
    handle.seek(-_END.size - len(file.comment), os.SEEK_END)
    magic, _, _, _, count, _, _, comment = _END.unpack(handle.read(_END.size))
    if (magic, comment) != (b"PK\5\6", len(file.comment)) or count not in (len(infos), 0xFFFF):
        raise zipfile.BadZipFile("its central directory is not at its end")
    if min((info.header_offset for info in infos), default=0) != 0 or any(
        info.header_offset + info.compress_size > file.start_dir for info in infos
    ):
        raise zipfile.BadZipFile("its central directory does not match its length")


def check_member(info: zipfile.ZipInfo, name: str) -> str:
    """The name of a member that stays where it is put, and is neither hidden nor encrypted."""
    path = info.orig_filename  # `filename` ends before a NUL
    if not path:
        raise DataError(f"{name}: it contains an entry without a name")
    if (
        path.startswith(("/", "\\"))
        or ".." in path.replace("\\", "/").split("/")
        or ":" in path
        or "\0" in path
    ):
        raise DataError(f"{name}: the path {path!r} is outside of the archive")
    if info.flag_bits & 1:
        raise DataError(f"{name}: {path!r} is encrypted")
    if (info.external_attr >> 16) & 0o170000 == 0o120000:
        raise DataError(f"{name}: {path!r} is a link")
    # The others are unpacked without a limit.
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DataError(f"{name}: {path!r} has compression {info.compress_type}: only deflate is supported")
    return path


def pack(arrays: dict[str, np.ndarray], compress: bool) -> bytes:
    """The bytes of an NPZ file: the same for the same arrays."""
    buffer = io.BytesIO()
    kind = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(buffer, "w", kind, compresslevel=COMPRESSION) as file:
        for key, array in arrays.items():
            # A member that is opened by its name has no date.
            with file.open(f"{key}.npy", "w", force_zip64=True) as handle:
                np.lib.format.write_array(handle, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()


def _read_header(handle: IO[bytes]) -> tuple[tuple[int, ...], np.dtype, int]:
    """Shape, type and length of the header, whatever stands in it."""
    version = np.lib.format.read_magic(handle)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"NPY version {version}: only 1.0 and 2.0 are supported")
    prefix = 2 if version == (1, 0) else 4
    size = int.from_bytes(_read_all(handle, prefix), "little")
    if size > _HEADER_LIMIT:
        raise ValueError(f"a header of {size:,} bytes is too large")
    header = _HEADER.fullmatch(_read_all(handle, size).decode("latin1"))
    if header is None:
        raise ValueError("its header does not describe an array of numbers")
    descr, fortran, sides = header.groups()
    shape = tuple(int(side) for side in sides.split(",") if side.strip())
    if fortran == "True" and len(shape) > 1:
        raise ValueError("arrays in Fortran order are not supported")
    return shape, np.dtype(descr), 8 + prefix + size


def _read_all(handle: IO[bytes], count: int) -> bytes:
    data = handle.read(count)
    if len(data) != count:
        raise EOFError("it is truncated")
    return data


def _skip(handle: IO[bytes], count: int) -> None:
    while count > 0:
        count -= len(_read_all(handle, min(count, _BLOCK)))
