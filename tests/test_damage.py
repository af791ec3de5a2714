"""Damaged and hostile files: each is refused by its name, the others are still read, nothing is written."""

import contextlib
import dataclasses
import io
import json
import os
import struct
import time
import tracemalloc
import zipfile

import numpy as np
import pytest
from tiny_data import SIZE, describe_set, make_arrays, make_scenes, make_shards, write_set

from memory_maze.data import archive, npz
from memory_maze.data import dataset as dataset_module
from memory_maze.data.archive import LIMIT, Archive
from memory_maze.data.collection import begin
from memory_maze.data.dataset import load
from memory_maze.data.inspect import inspect
from memory_maze.data.manifest import NAME, read_manifest
from memory_maze.data.npz import pack_trajectory
from memory_maze.data.scenes import to_bytes
from memory_maze.data.schema import KEYS, DataError
from memory_maze.world import CELL_METRES

SCENES = make_scenes([1, 2])
ARRAYS = make_arrays(SCENES)
SOUND = pack_trajectory(ARRAYS)
FLOATS = [key for key, rule in KEYS.items() if rule.dtype == np.float32]
BAD = "damaged.npz"


def read_file(path, limit=LIMIT):
    with Archive(path, str(path), limit) as archive:
        return archive.read_all()


@pytest.fixture
def folder(tmp_path):
    """A sound trajectory; the test puts a damaged one beside it."""
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "sound.npz").write_bytes(SOUND)
    return folder


def refuse(folder, name=BAD, sound=1):
    """Inspecting names the file and counts the others; loading raises `DataError` alone, if anything."""
    before = snapshot(folder.parent)
    found = inspect(folder)
    assert len(found.places) == sound
    assert found.problems
    assert all(name in problem for problem in found.problems), found.problems
    with contextlib.suppress(DataError):
        dataset = load(folder)
        for index in range(len(dataset)):
            dataset.read(index, keys=tuple(key for key in KEYS if dataset.scenes is None or key != "image"))
    assert snapshot(folder.parent) == before
    return found.problems[0]


def refuse_load(folder, name=BAD):
    with pytest.raises(DataError, match=name.replace(".", r"\.")):
        load(folder)


def snapshot(folder):
    return sorted((str(path), path.lstat().st_size) for path in folder.rglob("*"))


# The file as bytes.


@pytest.mark.parametrize("share", np.linspace(0, 1, 40, endpoint=False).round(3).tolist())
def test_truncated(folder, share):
    (folder / BAD).write_bytes(SOUND[: int(share * len(SOUND))])
    refuse(folder)
    refuse_load(folder)


@pytest.mark.parametrize("missing", [1, 2, 5, 21, 22, 23, 60])
def test_the_last_bytes_are_missing(folder, missing):
    (folder / BAD).write_bytes(SOUND[:-missing])
    refuse(folder)
    refuse_load(folder)


def data_of_members():
    """Where the packed data of each array begins and ends."""
    with zipfile.ZipFile(io.BytesIO(SOUND)) as file:
        for info in file.infolist():
            name, extra = struct.unpack_from("<HH", SOUND, info.header_offset + 26)
            start = info.header_offset + 30 + name + extra
            yield info.filename.removesuffix(".npy"), start, start + info.compress_size


DATA = {key: (start, stop) for key, start, stop in data_of_members()}


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("key", KEYS)
def test_flipped_bit_in_the_data(folder, key, share):
    start, stop = DATA[key]
    place = start + int(share * (stop - start))
    (folder / BAD).write_bytes(flip(SOUND, place, 1 << place % 8))
    assert key in refuse(folder)


def flip(data, place, bits):
    return data[:place] + bytes([data[place] ^ bits]) + data[place + 1 :]


DIRECTORY = SOUND.index(b"PK\1\2")


@pytest.mark.parametrize("bits", [0x01, 0x80, 0xFF])
def test_flipped_bytes_in_all_headers_are_refused_or_harmless(tmp_path, bits):
    """Dates may change; whatever is read must be what was written."""
    headers = [place for start, _ in DATA.values() for place in range(start - 60, start) if place >= 0]
    noticed = 0
    for place in [*headers, *range(DIRECTORY, len(SOUND))]:
        damaged = io.BytesIO(flip(SOUND, place, bits))
        try:
            with archive.Archive(damaged, BAD) as file:
                arrays = file.read_all()
        except DataError:
            noticed += 1
            continue
        same = {key: array for key, array in arrays.items() if key in KEYS}
        for key, array in same.items():
            assert array.dtype == ARRAYS[key].dtype
            assert np.array_equal(array, ARRAYS[key]), (place, key)
    assert noticed > 500


def test_random_bytes(folder):
    rng = np.random.RandomState(0)
    for length in (1, 22, 100, 5000):
        (folder / BAD).write_bytes(rng.bytes(length))
        refuse(folder)
        (folder / BAD).write_bytes(b"PK\3\4" + rng.bytes(length) + SOUND[DIRECTORY:])
        refuse(folder)


def test_a_folder_of_that_name(folder):
    (folder / BAD).mkdir()
    refuse(folder)
    refuse_load(folder)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", [BAD, "damaged.zip"])
def test_a_pipe_of_that_name(folder, name):
    """Opening one waits for ever."""
    os.mkfifo(folder / name)
    refuse(folder, name)
    refuse_load(folder, name)


def test_a_link_to_nowhere(folder):
    (folder / BAD).symlink_to(folder / "nothing.npz")
    assert len(inspect(folder).problems) == 1


# What the arrays say.


def change(key, place, value):
    def apply(arrays):
        arrays[key] = arrays[key].copy()
        arrays[key][place] = value

    return apply


def retype(key, dtype):
    def apply(arrays):
        arrays[key] = np.zeros(arrays[key].shape, dtype)

    return apply


def swap(one, other):
    def apply(arrays):
        arrays[one], arrays[other] = arrays[other], arrays[one]

    return apply


def replace(key, function):
    def apply(arrays):
        arrays[key] = function(arrays[key])

    return apply


def drop(key):
    return lambda arrays: arrays.pop(key)


def other_target(arrays):
    """The place of one object and the direction to another."""
    arrays["target_vec"] = arrays["targets_vec"][:, 2]


def in_wall(arrays):
    """Everything fits, but that the agent stands in a wall."""
    arrays["maze_layout"] = arrays["maze_layout"].copy()
    arrays["maze_layout"][:, 0, 3] = 0


def jump(arrays):
    """Everything fits, but that the agent was elsewhere before."""
    scenes = make_scenes([1, 2])
    scenes.poses[0, 10:, 1] += 4 * CELL_METRES
    arrays.update(make_arrays(scenes))


CONTRADICTIONS = {
    "agent in a wall": in_wall,
    "jump": jump,
    "left the maze": change("agent_pos", (slice(None), 1), SIZE + 1),
    "below the maze": change("agent_pos", (slice(None), 1), -1),
    "enormous position": change("agent_pos", 5, 3e38),
    "not a unit vector": change("agent_dir", 7, 0.5),
    "zero vector": change("agent_dir", 7, 0),
    "direction turned": change("agent_dir", (slice(None), 0), -1),
    "target does not match any object": change("target_pos", 3, 1.5),
    "vector to no object": change("target_vec", 3, 1.5),
    "vector of another object": other_target,
    "vectors mirrored": replace("targets_vec", np.negative),
    "vectors swapped": replace("targets_vec", lambda array: array[..., ::-1]),
    "enormous vector": change("targets_vec", 3, 3e38),
    "object moves": change("targets_pos", (5, 1), 4.5),
    "object outside": change("targets_pos", (slice(None), 1), SIZE + 5),
    "colour": change("target_color", 3, 1.5),
    "negative colour": change("target_color", 3, -1),
    "layout changes": change("maze_layout", (9, 6, 6), 0),
    "layout of twos": change("maze_layout", (slice(None), 6, 6), 2),
    "all walls": change("maze_layout", slice(None), 0),
    "no action": change("action", 4, 0),
    "two actions": change("action", 4, 1),
    "action of two": change("action", (4, 1), 2),
    "first action": change("action", (0, 2), 1),
    "first reward": change("reward", 0, 1),
    "reward of two": change("reward", 4, 2),
    "negative reward": change("reward", 4, -1),
    "half actions": replace("action", lambda array: array.astype(np.float32) / 2),
    "negative action": replace("action", lambda array: -array.astype(np.int8)),
}
SWAPS = [
    ("action", "reward"),
    ("agent_pos", "agent_dir"),
    ("agent_pos", "target_pos"),
    ("agent_dir", "target_vec"),
    ("targets_pos", "targets_vec"),
    ("target_pos", "target_vec"),
    ("image", "maze_layout"),
    ("target_color", "agent_pos"),
]
ODD_TYPES = ["U3", "S3", "complex64", "M8[s]", "V4"]
WRONG = (
    {f"{key} {value}": change(key, -1, value) for key in FLOATS for value in (np.nan, np.inf, -np.inf)}
    | {f"{key} of {dtype}": retype(key, dtype) for key in KEYS for dtype in ODD_TYPES}
    | {f"image of {dtype}": retype("image", dtype) for dtype in ("float32", "uint16", "int8", "bool")}
    | {f"{key} of int32": retype(key, "int32") for key in FLOATS if key != "reward"}
    | {f"{key} too short": replace(key, lambda array: array[:-1]) for key in KEYS}
    | {f"{key} too long": replace(key, lambda array: array.repeat(2, axis=0)) for key in KEYS}
    | {f"{key} empty": replace(key, lambda array: array[:0]) for key in KEYS}
    | {f"{key} with an axis more": replace(key, lambda array: array[..., None]) for key in KEYS}
    | {f"{key} without axes": replace(key, lambda array: array.reshape(-1)[0]) for key in KEYS}
    | {
        f"{key} wider": replace(key, lambda a: np.concatenate([a, a], axis=-1))
        for key in KEYS
        if key != "reward"
    }
    | {f"{key} missing": drop(key) for key in KEYS}
    | {f"{one} under the name of {other}": swap(one, other) for one, other in SWAPS}
    | CONTRADICTIONS
)


@pytest.mark.parametrize("what", WRONG)
def test_wrong_arrays(folder, what):
    arrays = dict(ARRAYS)
    WRONG[what](arrays)
    (folder / BAD).write_bytes(archive.pack(arrays, compress=True))
    refuse(folder)


@pytest.mark.parametrize("length", [0, 1])
def test_nothing_happens_in_it(folder, length):
    arrays = {key: array[:length] for key, array in ARRAYS.items()}
    (folder / BAD).write_bytes(archive.pack(arrays, compress=True))
    refuse(folder)
    refuse_load(folder)


@pytest.mark.parametrize("size", [9, 15])
def test_mazes_of_another_size_beside(folder, size):
    (folder / f"{BAD[:-4]}.npz").write_bytes(pack_trajectory(make_arrays(make_scenes([1], size=size))))
    (folder / "sound.npz").rename(folder / "a.npz")
    refuse(folder)
    refuse_load(folder)


# Headers of arrays.


def npy(descr="'<f4'", shape="(21,)", data=b"\0" * 84, order="False", version=b"\1\0", header=None):
    text = header or f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"
    raw = text.encode("latin1")
    size = struct.pack("<H" if version == b"\1\0" else "<I", len(raw))
    return b"\x93NUMPY" + version + size + raw + data


# Would run a program if anyone unpacked it.
PICKLED = b"cos\nsystem\n(S'touch ../executed executed'\ntR."
HEADERS = {
    "pickled": npy("'|O'", "(1,)", PICKLED),
    "pickled, sized as floats": npy("'|O'", "(21,)", PICKLED.ljust(168, b".")),
    "structured": npy("[('a', '<f4')]"),
    "structured with an object": npy("[('a', '|O')]"),
    "of arrays": npy("('<f4', (3,))", "(7,)"),
    "type of nothing": npy("'|V0'", "(1000000000000,)", b""),
    "string of nothing": npy("'|S0'", "(21,)", b""),
    "enormous string": npy("'<U1000000000'"),
    "no such type": npy("'<f5'"),
    "old name of a type": npy("'a4'"),
    "comma types": npy("'f4,f4'"),
    "descr is a number": npy("7"),
    "descr is None": npy("None"),
    "descr nests": npy("[" * 60 + "]" * 60),
    "longer than it is": npy(shape="(22,)"),
    "shorter than it is": npy(shape="(20,)"),
    "enormous": npy(shape="(1000000000000,)"),
    "enormous product": npy(shape="(4294967296, 4294967296)"),
    "enormous side": npy(shape=f"({10**400},)"),
    "zero times enormous": npy(shape=f"(0, {10**30})", data=b""),
    "many axes": npy(shape=f"({'1, ' * 70}21)"),
    "negative": npy(shape="(-21,)"),
    "two negatives": npy(shape="(-3, -7)"),
    "fractional": npy(shape="(21.0,)"),
    "truth value": npy(shape="(True, 21)"),
    "shape is a list": npy(shape="[21]"),
    "shape is a number": npy(shape="21"),
    "shape is text": npy(shape="'21'"),
    "Fortran": npy(shape="(7, 3)", order="True"),
    "order is a number": npy(shape="(7, 3)", order="1"),
    "version 3": npy(version=b"\3\0"),
    "version 9": npy(version=b"\x09\0"),
    "not NPY": b"\x93NUMPX" + npy()[6:],
    "text": b"hello",
    "nothing": b"",
    "magic only": b"\x93NUMPY",
    "a call": npy(header="__import__('os').system('touch ../executed executed')"),
    "a key missing": npy(header="{'descr': '<f4', 'shape': (21,)}"),
    "a key too many": npy(header="{'descr': '<f4', 'fortran_order': False, 'shape': (21,), 'x': 1}"),
    "no dictionary": npy(header="[1, 2]"),
    "open bracket": npy(header="{'descr': ("),
    "NUL": npy(header="{'descr': '<f4'\0}"),
    "deep brackets": npy(header="(" * 2000),
    "deep minus": npy(header="-" * 4000 + "1"),
    "long sum": npy(header="1" + "+1j" * 1300),
    "long header": npy(version=b"\2\0", header="{" + " " * 100_000 + "}"),
    "header of 4 GB": b"\x93NUMPY\2\0\xff\xff\xff\xff{",
}


@pytest.mark.parametrize("what", HEADERS)
def test_wrong_headers(folder, what):
    with zipfile.ZipFile(folder / BAD, "w") as file:
        for key, array in ARRAYS.items():
            with file.open(f"{key}.npy", "w") as handle:
                if key == "reward":
                    handle.write(HEADERS[what])
                else:
                    np.lib.format.write_array(handle, array, allow_pickle=False)
    assert "reward" in refuse(folder)
    refuse_load(folder)
    with pytest.raises(DataError, match="reward"):
        read_file(folder / BAD)


# The zip file around them.


def rewrite(path, members, method=zipfile.ZIP_DEFLATED):
    """A zip file of (information, content)."""
    with zipfile.ZipFile(path, "w", method) as file:
        for info, content in members:
            with (
                pytest.warns(UserWarning, match="Duplicate name")
                if info_is_there(file, info)
                else contextlib.nullcontext()
            ):
                file.writestr(info, content)


def info_is_there(file, info):
    return (info.filename if isinstance(info, zipfile.ZipInfo) else info) in file.namelist()


def members_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return [(name, file.read(name)) for name in file.namelist()]


def named(name):
    info = zipfile.ZipInfo("placeholder")
    info.filename = info.orig_filename = name  # which ZipInfo would change
    return info


def linked(name="link.npy"):
    info = zipfile.ZipInfo(name)
    info.external_attr = 0o120777 << 16
    return info


REWARD = dict(members_of(SOUND))["reward.npy"]
EXTRA_MEMBERS = {
    "one folder up": (named("../escaped.npy"), REWARD),
    "far up": (named("../../../../tmp/escaped.npy"), REWARD),
    "up in between": (named("a/../../escaped.npy"), REWARD),
    "absolute": (named("/tmp/escaped.npy"), REWARD),
    "backslashes": (named("..\\escaped.npy"), REWARD),
    "absolute backslash": (named("\\escaped.npy"), REWARD),
    "drive letter": (named("C:escaped.npy"), REWARD),
    "drive path": (named("C:\\escaped.npy"), REWARD),
    "NUL": (named("escaped.npy\0.txt"), REWARD),
    "in a folder": (named("a/escaped.npy"), REWARD),
    "a folder": (named("a/"), b""),
    "a link": (linked(), REWARD),
    "twice": (named("reward.npy"), REWARD),
    "not an array": (named("program.py"), b"print(1)"),
    "a zip file": (named("inner.zip"), SOUND),
    "nameless": (named(""), REWARD),
}


@pytest.mark.parametrize("what", EXTRA_MEMBERS)
def test_members_that_do_not_belong(folder, what):
    rewrite(folder / BAD, [*members_of(SOUND), EXTRA_MEMBERS[what]])
    assert reason(what) in refuse(folder)
    refuse_load(folder)


def reason(what):
    kinds = {"is a link": ["a link"], "duplicate": ["twice"], "is not an array": ["in a folder", "a folder"]}
    kinds |= {"without a name": ["nameless"]}
    kinds["is not an array"] += ["not an array", "a zip file"]
    return next((text for text, names in kinds.items() if what in names), "outside of the archive")


TRICKS = [
    what for what in EXTRA_MEMBERS if what not in ("in a folder", "a folder", "not an array", "a zip file")
]


@pytest.mark.parametrize("what", TRICKS)
def test_members_that_lead_out_of_zip_files(folder, what):
    info, _ = EXTRA_MEMBERS[what]
    info = linked("link.npz") if what == "a link" else named(info.filename.replace(".npy", ".npz"))
    inside = [("a.npz", SOUND), ("b.npz", SOUND), (info, SOUND)]
    rewrite(folder / "damaged.zip", [("reward.npz", SOUND), *inside] if what == "twice" else inside)
    assert what == "nameless" or reason(what) in refuse(folder, "damaged.zip")
    refuse_load(folder, "damaged.zip")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressions_that_unpack_without_limit(folder, method):
    rewrite(folder / BAD, members_of(SOUND), method)
    refuse(folder)
    refuse_load(folder)
    (folder / BAD).unlink()
    rewrite(folder / "damaged.zip", [("a.npz", SOUND)], method)
    refuse(folder, "damaged.zip")


def patch_directory(data, key, offset, content):
    """Overwrites a field of a member's entry in the directory at the end."""
    entry = data.index(f"{key}.npy".encode(), data.index(b"PK\1\2")) - 46
    return data[: entry + offset] + content + data[entry + offset + len(content) :]


FIELDS = {
    "encrypted": (8, b"\x01\x00"),
    "strongly encrypted": (8, b"\x41\x00"),
    "patched": (8, b"\x20\x00"),
    "unknown version": (6, b"\xff\x00"),
    "method 1": (10, b"\x01\x00"),
    "method 99": (10, b"\x63\x00"),
    "stored": (10, b"\x00\x00"),
    "bzip2": (10, b"\x0c\x00"),
    "LZMA": (10, b"\x0e\x00"),
    "zstd": (10, b"\x5d\x00"),
    "checksum": (16, b"\0\0\0\0"),
    "packed size 0": (20, b"\0\0\0\0"),
    "packed size less": (20, b"\x20\0\0\0"),
    "packed size 4 GB": (20, b"\xfe\xff\xff\xff"),
    "size 0": (24, b"\0\0\0\0"),
    "size less": (24, b"\x90\0\0\0"),
    "size more": (24, b"\xff\xff\0\0"),
    "size 4 GB": (24, b"\xfe\xff\xff\xff"),
    "size in a field that is missing": (24, b"\xff\xff\xff\xff"),
    "long name": (28, b"\xff\xff"),
    "no name": (28, b"\0\0"),
    "long extra": (30, b"\xff\xff"),
    "long comment": (32, b"\xff\xff"),
    "place 0": (42, b"\0\0\0\0"),
    "place beyond": (42, b"\xfe\xff\xff\xff"),
    "another name": (46, b"r\xff\xfeard"),
}


@pytest.mark.parametrize("key", ["reward", "target_color"])
@pytest.mark.parametrize("what", FIELDS)
def test_wrong_fields_of_the_directory(folder, what, key):
    (folder / BAD).write_bytes(patch_directory(SOUND, key, *FIELDS[what]))
    if key == "target_color" and what in ("long name", "long extra", "long comment"):
        arrays = read_file(folder / BAD)  # the last entry: there is nothing behind it
        assert all(np.array_equal(arrays[name], ARRAYS[name]) for name in KEYS)
        return
    problem = refuse(folder)
    assert "encrypted" not in what or "is encrypted" in problem
    with pytest.raises(DataError, match=BAD):
        read_file(folder / BAD)


END = {
    "no entries": (8, b"\0\0\0\0"),
    "directory of 0 bytes": (12, b"\0\0\0\0"),
    "directory of 4 GB": (12, b"\xff\xff\xff\x7f"),
    "directory elsewhere": (16, b"\x10\0\0\0"),
    "directory beyond": (16, b"\xff\xff\xff\x7f"),
    "comment": (20, b"\x01\x00"),
}


@pytest.mark.parametrize("what", END)
def test_wrong_end_of_the_directory(folder, what):
    offset, content = END[what]
    place = len(SOUND) - 22 + offset
    (folder / BAD).write_bytes(SOUND[:place] + content + SOUND[place + len(content) :])
    refuse(folder)
    refuse_load(folder)


@pytest.mark.parametrize("what", ["in front", "behind", "another file in front", "another file behind"])
def test_something_else_around_it(folder, what):
    other = SOUND if "another" in what else b"hello" * 20
    (folder / BAD).write_bytes(SOUND + other if "behind" in what else other + SOUND)
    refuse(folder)
    refuse_load(folder)


# Zip files of trajectories.


@pytest.mark.parametrize("share", np.linspace(0, 1, 12, endpoint=False).round(3).tolist())
def test_truncated_zip_files(folder, share):
    rewrite(folder / "whole.zip", [("a.npz", SOUND), ("b.npz", SOUND)], zipfile.ZIP_STORED)
    data = (folder / "whole.zip").read_bytes()
    (folder / "whole.zip").unlink()
    (folder / "damaged.zip").write_bytes(data[: int(share * len(data))])
    refuse(folder, "damaged.zip")
    refuse_load(folder, "damaged.zip")


def test_one_damaged_file_in_a_zip_file(folder):
    inside = [("a.npz", SOUND), ("b.npz", SOUND[:-1]), ("c.npz", SOUND)]
    rewrite(folder / "some.zip", inside)
    assert "some.zip: b.npz" in refuse(folder, "some.zip", sound=3)
    found = inspect(folder / "some.zip")
    assert len(found.places) == 2
    assert len(found.problems) == 1
    refuse_load(folder, "some.zip: b.npz")


def test_wrong_checksum_in_a_zip_file(folder):
    rewrite(folder / "damaged.zip", [("a.npz", SOUND)], zipfile.ZIP_STORED)
    data = (folder / "damaged.zip").read_bytes()
    (folder / "damaged.zip").write_bytes(flip(data, 500, 1))
    refuse(folder, "damaged.zip: a.npz")
    refuse_load(folder, "damaged.zip: a.npz")


@pytest.mark.parametrize("inside", [[], [("readme.txt", b"hello")], [("a.npz", b"")], [("a.zip", SOUND)]])
def test_zip_files_without_trajectories(folder, inside):
    rewrite(folder / "damaged.zip", inside)
    refuse(folder, "damaged.zip")


# Bombs.


@pytest.fixture(scope="module")
def at_most():
    """Fails if more than so many bytes are allocated at once."""

    @contextlib.contextmanager
    def check(limit):
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        yield
        assert tracemalloc.get_traced_memory()[1] - before < limit

    tracemalloc.start()
    yield check
    # Python may crash if a thread allocates meanwhile; a failed `load` leaves some to finish.
    time.sleep(0.5)
    tracemalloc.stop()


ZEROS = 64 << 20


def bomb(declared=None):
    """Zeros, packed a thousandfold, under the name of reward; the directory may tell of fewer."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name, content in members_of(SOUND):
            if name == "reward.npy":
                content = npy("'|u1'", f"({ZEROS if declared is None else declared - 79},)", bytes(ZEROS))
            file.writestr(name, content)
    if declared is None:
        return buffer.getvalue()
    return patch_directory(buffer.getvalue(), "reward", 24, struct.pack("<I", declared))


BOMB = bomb()


def test_more_than_the_limit_is_not_unpacked(folder, at_most):
    (folder / BAD).write_bytes(BOMB)
    assert len(BOMB) < 1 << 20
    with at_most(8 << 20), pytest.raises(DataError, match=f"{BAD}.*the limit is"):
        read_file(folder / BAD, limit=8 << 20)


def test_arrays_of_a_wrong_shape_are_not_unpacked(folder, at_most):
    (folder / BAD).write_bytes(BOMB)
    with at_most(8 << 20):
        refuse(folder)


@pytest.mark.parametrize("declared", [100, 1079, 84 + 79])
def test_more_than_the_directory_tells_is_not_unpacked(folder, declared, at_most):
    (folder / BAD).write_bytes(bomb(declared))
    with at_most(8 << 20):
        with pytest.raises(DataError, match=BAD):
            read_file(folder / BAD)
        refuse(folder)


@pytest.mark.parametrize("count", [2, 40])
def test_many_arrays_share_the_limit(folder, count, at_most):
    arrays = {f"a{index}": np.zeros((8 << 20) // count, np.uint8) for index in range(count)}
    (folder / BAD).write_bytes(archive.pack(arrays, compress=True))
    with at_most(4 << 20), pytest.raises(DataError, match="the limit is"):
        read_file(folder / BAD, limit=4 << 20)


@pytest.mark.parametrize("keys", [("image",), ("image", "agent_pos", "agent_dir")])
def test_some_gigabytes_are_over_the_limit(folder, keys, at_most):
    """Members that each tell of 4 GB."""
    data = SOUND
    for key in keys:
        data = patch_directory(data, key, 24, b"\xfe\xff\xff\xff")
    (folder / BAD).write_bytes(data)
    with at_most(8 << 20):
        refuse_load(folder)
        assert "the limit is" in refuse(folder) or len(keys) == 1


def test_a_header_that_is_a_bomb(folder, at_most):
    header = "{" + " " * ZEROS + "}"
    rewrite(folder / BAD, [("reward.npy", npy(version=b"\2\0", header=header, data=b""))])
    with at_most(8 << 20), pytest.raises(DataError, match="a header of"):
        read_file(folder / BAD)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_bombs_of_other_compressions(folder, method, at_most):
    rewrite(folder / BAD, [("reward.npy", bytes(ZEROS // 2))], method)
    data = patch_directory((folder / BAD).read_bytes(), "reward", 24, b"\xff\0\0\0")
    (folder / BAD).write_bytes(data)
    with at_most(8 << 20), pytest.raises(DataError, match=BAD):
        read_file(folder / BAD)


def test_bombs_in_zip_files(folder, monkeypatch, at_most):
    """The inner file is a bomb, or tells of more bytes than may be."""
    rewrite(folder / "damaged.zip", [("a.npz", BOMB)])
    with at_most(8 << 20):
        refuse(folder, "damaged.zip")
        monkeypatch.setattr(npz, "LIMIT", len(BOMB) - 1)
        assert "the limit is" in refuse(folder, "damaged.zip")


# Scenes.


def scene_change(key, place, value):
    def apply(arrays):
        arrays[key] = arrays[key].copy()
        arrays[key][place] = value

    return apply


WRONG_SCENES = (
    {f"{key} missing": drop(key) for key in vars(SCENES)}
    | {f"{key} of int64": replace(key, lambda array: array.astype(np.int64)) for key in vars(SCENES)}
    | {f"{key} of text": retype(key, "U1") for key in vars(SCENES)}
    | {f"{key} too short": replace(key, lambda array: array[:-1]) for key in vars(SCENES)}
    | {f"{key} without axes": replace(key, lambda array: array.reshape(-1)[0]) for key in vars(SCENES)}
    | {f"{key} flat": replace(key, np.ravel) for key in vars(SCENES) if key != "seeds"}
    | {f"{key} with an axis more": replace(key, lambda array: array[..., None]) for key in vars(SCENES)}
    | {
        "walls beyond": scene_change("walls", (1, 3), 1 << SIZE),
        "walls over objects": scene_change("walls", (1, 3), 1 << 3),
        "walls over the way": scene_change("walls", (1, 0), 1 << 2),
        "rooms beyond": scene_change("rooms", (1, 3), 1 << 31),
        "no such texture": scene_change("textures", (1, 3), 8),
        "objects outside": scene_change("objects", (1, 2), SIZE * SIZE),
        "objects far outside": scene_change("objects", (1, 2), 65535),
        "two objects in one cell": scene_change("objects", (1, 2), 24),
        "no such colour": scene_change("colors", (1, 2), 6),
        "two objects of one colour": scene_change("colors", (1, 2), 0),
        "no such action": scene_change("actions", (1, 2), 6),
        "reward of two": scene_change("rewards", (1, 2), 2),
        "no such target": scene_change("targets", (1, 2), 3),
        "NaN": scene_change("poses", (1, 2, 0), np.nan),
        "infinite height": scene_change("poses", (1, 2, 2), np.inf),
        "infinite angle": scene_change("poses", (1, 2, 3), -np.inf),
        "enormous angle": scene_change("poses", (1, 2, 3), 1e30),
        "enormous place": scene_change("poses", (1, 2, 0), 3e38),
        "outside": scene_change("poses", (1, slice(None), 0), 2.0 * SIZE),
        "jump": scene_change("poses", (1, 5, 0), 4.0),
        "flying": scene_change("poses", (1, 5, 2), 3.0),
        "even size": lambda arrays: arrays.update({key: arrays[key][:, :6] for key in ("walls", "rooms")}),
        "no trajectory": lambda arrays: arrays.update({key: array[:0] for key, array in arrays.items()}),
        "no step": lambda arrays: arrays.update(
            {key: arrays[key][:, : int(key not in ("actions", "rewards"))] for key in TIMED}
        ),
        "no object": lambda arrays: arrays.update(
            {key: arrays[key][:, :0] for key in ("objects", "colors", "hidden")}
        ),
    }
)
TIMED = ("actions", "rewards", "targets", "poses")


@pytest.mark.parametrize("what", WRONG_SCENES)
def test_wrong_scenes(tmp_path, what):
    folder = tmp_path / "set"
    manifest = write_set(folder)
    arrays = dict(vars(make_scenes(list(range(4)))))
    WRONG_SCENES[what](arrays)
    (folder / "train-00000.npz").write_bytes(archive.pack(arrays, compress=False))
    refuse(folder, "train-00000.npz", sound=manifest.episodes - 4)
    refuse_load(folder, "train-00000.npz")


@pytest.mark.parametrize("share", np.linspace(0, 1, 12, endpoint=False).round(3).tolist())
def test_truncated_scenes(tmp_path, share):
    folder = tmp_path / "set"
    write_set(folder)
    data = (folder / "train-00001.npz").read_bytes()
    (folder / "train-00001.npz").write_bytes(data[: int(share * len(data))])
    refuse(folder, "train-00001.npz", sound=6)
    refuse_load(folder, "train-00001.npz")


def test_scenes_that_are_larger_than_the_memory_are_not_unpacked(tmp_path, monkeypatch):
    folder = tmp_path / "set"
    manifest = write_set(folder)
    total = 0
    for shard in manifest.shards():
        with Archive(folder / shard.file, shard.file) as file:
            total += file.unpacked
    monkeypatch.setattr(dataset_module, "memory_bytes", lambda: 2 * total)
    assert len(load(folder)) == manifest.episodes
    monkeypatch.setattr(dataset_module, "memory_bytes", lambda: 2 * total - 1)
    monkeypatch.setattr(Archive, "read_all", lambda _: pytest.fail("unpacked"))
    with pytest.raises(
        DataError, match=rf"{total:,} bytes uncompressed up to eval-00000.npz.*load a single split"
    ):
        load(folder)


@pytest.mark.timeout(20)
def test_a_pipe_for_the_list_of_a_part(tmp_path):
    manifest = dataclasses.replace(write_set(tmp_path / "set"), format="npz")
    manifest.save(tmp_path / "set")
    for shard in manifest.shards():
        os.mkfifo(tmp_path / "set" / shard.file)
    with pytest.raises(DataError, match=r"train-00000\.json: not the list of a part's seeds: not a file"):
        load(tmp_path / "set")


def test_shards_of_another_data_set(tmp_path):
    folder = tmp_path / "set"
    write_set(folder)
    sound = {path.name: path.read_bytes() for path in folder.glob("*.npz")}
    others = {
        "another size": make_scenes(list(range(4)), size=9),
        "more steps": make_scenes(list(range(4)), steps=30),
        "fewer trajectories": make_scenes(list(range(3))),
        "seeds of the other shard": make_scenes(list(range(4, 8))),
        "seeds twice": make_scenes([0, 1, 2, 2]),
    }
    for what, scenes in others.items():
        (folder / "train-00000.npz").write_bytes(to_bytes(scenes))
        problems = inspect(folder).problems
        assert problems, what
        assert all("train-0000" in problem for problem in problems), what
    (folder / "train-00000.npz").write_bytes(sound["train-00000.npz"])
    (folder / "eval-00000.npz").write_bytes(to_bytes(make_scenes([8, 9])))
    problems = inspect(folder).problems
    assert len(problems) == 2
    assert all("eval-00000.npz: the layout" in problem for problem in problems)
    (folder / "eval-00000.npz").write_bytes(SOUND)
    refuse(folder, "eval-00000.npz", sound=8)
    refuse_load(folder, "eval-00000.npz")


# Manifests.

MANIFESTS = {
    "empty": "",
    "no JSON": "{",
    "a list": "[]",
    "a number": "7",
    "null": "null",
    "text": '"dataset"',
    "deep": "[" * 100_000,
    "not text": b"\xff\xfe\x00\x01",
    "a byte order mark": b"\xef\xbb\xbf{}",
}
CHANGES = {
    "another format": {"dataset": "memory-maze-data-9"},
    "format missing": {"dataset": None},
    "no such kind": {"format": "pickle"},
    "kind of a number": {"format": 3},
    "kind of a list": {"format": ["scenes"]},
    "unknown key": {"extra": 1},
    "no episodes": {"episodes": 0},
    "negative episodes": {"episodes": -5},
    "fractional episodes": {"episodes": 10.0},
    "text episodes": {"episodes": "10"},
    "null episodes": {"episodes": None},
    "true episodes": {"episodes": True},
    "enormous episodes": {"episodes": 10**15},
    "endless episodes": {"episodes": 10**400},
    "enormous episodes in one shard": {"episodes": 10**15, "shard": 10**15},
    "enormous evaluation": {"episodes": 10**15, "evaluation": 10**15},
    "evaluation too large": {"evaluation": 11},
    "negative evaluation": {"evaluation": -1},
    "no steps": {"steps": 0},
    "enormous steps": {"steps": 10**15},
    "no shard": {"shard": 0},
    "negative shard": {"shard": -4},
    "negative seed": {"seed": -1},
    "enormous seed": {"seed": 2**32},
    "policy of a number": {"policy": 3},
    "no such engine": {"engine": "quake"},
    "engine of a list": {"engine": []},
    "made with a list": {"made_with": []},
    "made with numbers": {"made_with": {"jax": 1}},
    "task of text": {"task": "7x7"},
    "task of nothing": {"task": {}},
    "task of null": {"task": None},
}
TASK_CHANGES = {
    "even": {"size": 8},
    "enormous": {"size": 10**9 + 1},
    "text": {"size": "7"},
    "fractional": {"size": 7.0},
    "true objects": {"objects": True},
    "no objects": {"objects": 0},
    "fractional objects": {"objects": 2.5},
    "not a number": {"seconds": float("nan")},
    "endless": {"seconds": float("inf")},
    "text seconds": {"seconds": "5"},
    "text rooms": {"max_rooms": "6"},
    "unknown": {"walls": 1},
}


def damaged_manifests():
    sound = json.loads(json.dumps({"dataset": "memory-maze-data-1"} | describe_dict()))
    yield from MANIFESTS.items()
    yield "enormous", json.dumps(sound) + " " * (2 << 20)
    for what, change in CHANGES.items():
        yield what, json.dumps(sound | change)
    for what, change in TASK_CHANGES.items():
        yield f"task: {what}", json.dumps(sound | {"task": sound["task"] | change})
    for key in (key for key in sound if key != "options"):  # which those of the default variant lack
        yield f"{key} missing", json.dumps({name: sound[name] for name in sound if name != key})


def describe_dict():
    return dataclasses.asdict(describe_set())


BAD_MANIFESTS = dict(damaged_manifests())


@pytest.mark.timeout(20)
@pytest.mark.parametrize("what", BAD_MANIFESTS)
def test_damaged_manifests(folder, what, at_most):
    text = BAD_MANIFESTS[what]
    (folder / NAME).write_bytes(text if isinstance(text, bytes) else text.encode())
    with at_most(8 << 20):
        with pytest.raises(DataError, match=NAME):
            read_manifest(folder)
        refuse(folder, NAME)
        refuse_load(folder, NAME)


def test_a_manifest_that_is_a_folder(folder):
    (folder / NAME).mkdir()
    refuse(folder, NAME)


RECORDS = {
    "empty": "",
    "a list": "[]",
    "deep": "[" * 100_000,
    "no seeds": "{}",
    "seeds in a list": '{"seeds": [1, 2]}',
    "other files": '{"seeds": {"../../escaped.npz": 1, "train/000001.npz": 2}}',
    "seeds of text": '{"seeds": {"eval/000000.npz": "1", "eval/000001.npz": 2}}',
    "negative": '{"seeds": {"eval/000000.npz": -1, "eval/000001.npz": 2}}',
    "true": '{"seeds": {"eval/000000.npz": true, "eval/000001.npz": 2}}',
    "not text": b"\xff\xfe",
}


def test_damaged_records_and_files_of_a_set_of_npz_files(tmp_path):
    folder = tmp_path / "set"
    write_set(folder, "npz")
    assert inspect(folder).problems == []
    record = (folder / "eval-00000.json").read_bytes()
    for what, text in RECORDS.items():
        (folder / "eval-00000.json").write_bytes(text if isinstance(text, bytes) else text.encode())
        problems = inspect(folder).problems
        assert len(problems) == 1, what
        assert "eval-00000.json" in problems[0], what
    (folder / "eval-00000.json").write_bytes(record.replace(b": 9", b": 3"))
    problems = inspect(folder).problems
    assert len(problems) == 1
    assert "seed 3" in problems[0]
    (folder / "eval-00000.json").write_bytes(record)
    (folder / "train" / "000002.npz").unlink()
    (folder / "train" / "000003.npz").write_bytes(SOUND[:500])
    arrays = make_arrays(make_scenes([1], size=9))
    (folder / "train" / "000005.npz").write_bytes(pack_trajectory(arrays))
    found = inspect(folder)
    assert len(found.places) == 7
    assert [problem.split(":")[0].rsplit("/", 1)[1] for problem in found.problems] == [
        "000002.npz",
        "000003.npz",
        "000005.npz",
    ]


def test_there_are_at_least_two_hundred():
    cases = [WRONG, WRONG_SCENES, HEADERS, EXTRA_MEMBERS, FIELDS, BAD_MANIFESTS, RECORDS]
    assert sum(map(len, cases)) > 200


def test_the_sound_ones_are_sound(tmp_path):
    """Otherwise nothing above would mean anything."""
    (tmp_path / "a.npz").write_bytes(SOUND)
    rewrite(tmp_path / "b.zip", [("c.npz", SOUND), ("d.npz", SOUND)])
    found = inspect(tmp_path)
    assert found.problems == []
    assert len(found.places) == 3
    assert set(make_shards(describe_set())) == {"train-00000.npz", "train-00001.npz", "eval-00000.npz"}


@pytest.mark.parametrize(
    ("format", "name", "part"),
    [
        ("scenes", "train-00001.npz", "train-00001.npz"),
        ("npz", "train/000005.npz", "train-00001.json"),
        ("npz", "eval-00000.json", "eval-00000.json"),
    ],
)
@pytest.mark.parametrize("gone", [False, True])
def test_parts_that_were_cut_off_are_made_again(tmp_path, format, name, part, gone):
    manifest = write_set(tmp_path, format)
    if gone:
        (tmp_path / name).unlink()
    else:
        os.truncate(tmp_path / name, 50)
    if name != part or not gone:  # otherwise the part is missing
        with pytest.raises(DataError, match=f"{name}.*: remove this file, and run memory-maze collect again"):
            load(tmp_path)
    with begin(tmp_path, manifest) as todo:
        assert [shard.file for shard in todo] == [part]
