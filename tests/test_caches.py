"""Caches and checkpoints with a damaged byte: what they hold is made again, and never wrong."""

import os
import random
import shutil
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from memory_maze import TASKS
from memory_maze.engine import bank
from memory_maze.engine.picture import textures
from memory_maze.system.programs import Programs
from memory_maze.training.checkpoint import Checkpoints

pytestmark = pytest.mark.pythons


def damage(path, count, draw=None):
    """The file with one random byte changed, so many times, each time another."""
    sound, draw = path.read_bytes(), draw or random.Random(0)
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


def write_checkpoints(folder, *steps):
    """What they hold, and what describes it."""
    trees = {step: {"weights": jnp.arange(99.0) * step} for step in steps}
    checkpoints = Checkpoints(folder / "checkpoints")
    for step, tree in trees.items():
        (folder / f"position-{step}.json").write_text(f"{step}")
        checkpoints.save(step, tree, folder / f"position-{step}.json")
    checkpoints.close()
    template = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), tree
    )
    return trees, template


def restore(folder, template):
    """The last checkpoint that is whole."""
    checkpoints = Checkpoints(folder / "checkpoints")
    try:
        return checkpoints.latest, checkpoints.restore(template)
    finally:
        checkpoints.close()


@pytest.mark.parametrize("count", [12, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.timeout(1200)
def test_checkpoints(tmp_path, capsys, count):
    trees, template = write_checkpoints(tmp_path / "sound", 1, 2)
    newest = tmp_path / "sound" / "checkpoints" / "2"
    files = sorted(path for path in newest.rglob("*") if path.is_file())
    files.append(tmp_path / "sound" / "position-2.json")
    ends = np.cumsum([path.stat().st_size for path in files])
    draw = random.Random(0)
    for _ in range(count):
        shutil.copytree(tmp_path / "sound", tmp_path / "run")
        number = int(np.searchsorted(ends, draw.randrange(ends[-1]), side="right"))
        path = tmp_path / "run" / files[number].relative_to(tmp_path / "sound")
        next(damage(path, 1, draw))
        for _ in range(2):
            latest, restored = restore(tmp_path / "run", template)
            np.testing.assert_array_equal(restored["weights"], trees[latest]["weights"], err_msg=path)
        assert latest == 1
        assert (
            capsys.readouterr().err.count("is damaged and was removed: resuming from the previous one") == 1
        )
        shutil.rmtree(tmp_path / "run")


def test_without_a_whole_checkpoint_nothing_is_begun_anew(tmp_path):
    _, template = write_checkpoints(tmp_path, 1)
    next(damage(tmp_path / "checkpoints" / "1" / "default" / "_METADATA", 1))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(
        ValueError, match="its checkpoints are damaged: choose another directory, or remove this run"
    ):
        restore(tmp_path, template)
    assert sorted(tmp_path.rglob("*")) == before


def test_checkpoints_of_versions_without_checksums(tmp_path, capsys):
    trees, template = write_checkpoints(tmp_path, 1, 2)
    for step in (2, 1):
        (tmp_path / "checkpoints" / str(step) / "checksums.json").unlink()
        latest, restored = restore(tmp_path, template)
        assert latest == 1, "the other was cut off"
        np.testing.assert_array_equal(restored["weights"], trees[1]["weights"])
    assert capsys.readouterr().err.count("removed") == 1


PROGRAM = """
import sys, warnings
import jax, jax.numpy as jnp
from memory_maze.system.programs import cache_programs

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
