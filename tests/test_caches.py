"""Caches with a damaged byte: what they hold is made again, and never wrong."""

import os
import random
import subprocess
import sys

import numpy as np
import pytest

from memory_maze import TASKS
from memory_maze.engine import bank, textures
from memory_maze.engine.programs import Programs


def damage(path, count):
    """The file with one random byte changed, so many times, each time another."""
    sound, draw = path.read_bytes(), random.Random(0)
    for _ in range(count):
        place = draw.randrange(len(sound))
        path.write_bytes(sound[:place] + bytes([sound[place] ^ draw.randrange(1, 256)]) + sound[place + 1 :])
        yield place
    path.write_bytes(sound)


COUNTS = pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.slow)])


@COUNTS
def test_banks(tmp_path, monkeypatch, count):
    first = bank.load_bank(TASKS["9x9"], 30, folder=tmp_path)
    made = []
    monkeypatch.setattr(bank, "_make", lambda *_: made.append(1) or first)
    (path,) = tmp_path.iterdir()
    for place in damage(path, count):
        for _ in range(2):
            loaded = bank.load_bank(TASKS["9x9"], 30, folder=tmp_path)
            for name, array in vars(first).items():
                np.testing.assert_array_equal(getattr(loaded, name), array, err_msg=f"{name}, byte {place}")
                assert getattr(loaded, name).dtype == array.dtype
    assert count / 2 < len(made) <= count  # made again once, if what was damaged is read


@COUNTS
def test_textures(tmp_path, monkeypatch, count):
    path = tmp_path / "atlas.npz"
    pixels = np.random.RandomState(0).randint(256, size=(2, 16, 16, 3), dtype=np.uint8)
    monkeypatch.setattr(textures, "decode_png", lambda source: pixels[source[0]])
    sources = [b"\0", b"\1"]
    first = textures.load_arrays(path, sources)
    for place in damage(path, count):
        for array, again in zip(first, textures.load_arrays(path, sources), strict=True):
            np.testing.assert_array_equal(array, again, err_msg=f"byte {place}")
            assert array.dtype == again.dtype


@COUNTS
def test_programs(tmp_path, count):
    programs, program = Programs(tmp_path), random.Random(1).randbytes(2000)
    programs.put("key", program)
    for _ in damage(tmp_path / "key", count):
        assert programs.get("key") is None
        programs.put("key", program)
        assert programs.get("key") == program


PROGRAM = """
import sys, warnings
import jax, jax.numpy as jnp
from memory_maze.engine.programs import cache_programs

warnings.simplefilter("error")
cache_programs()
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
events = []
jax.monitoring.register_event_listener(lambda name, **_: events.append(name))
result = jax.jit(lambda x: jnp.sort(jnp.sin(x) * 3))(jnp.arange(64.0))
print(round(float(result.sum()), 3), sum("cache_hits" in name for name in events))
"""


def test_cut_off_programs_are_compiled_again_without_a_word(tmp_path):
    def start():
        env = os.environ | {"MEMORY_MAZE_CACHE": str(tmp_path)}
        result = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True)
        assert (result.returncode, result.stderr) == (0, "")
        return result.stdout.split()

    value, hits = start()
    assert hits == "0"
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert before
    for path, program in before.items():
        path.write_bytes(program[: len(program) // 2])
    assert start() == [value, "0"]
    assert start() == [value, str(len(before))]
