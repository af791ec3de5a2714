"""Layouts for the batched engine: made by the reference's generator, cached, checked, held out."""

import hashlib

import numpy as np
import pytest

from memory_maze import TASKS, make_task
from memory_maze.engine import bank
from memory_maze.engine.bank import load_bank
from memory_maze.scenario import WALL, reachable_cells

pytestmark = pytest.mark.pythons

# Of 1,100 layouts for training and 50 held-out ones, as when labmaze drew them: ends of names, and digests.
BEFORE = {
    "9x9": (
        "ece7dbef",
        "d2fab692e5786610ce37683704e9d27480ab125f8eba6806d5c58b0b2e79c3ec",
        "2a2695119ea09da63cf7e66d40b1b433893ed33e9706bd3ad4d54523d9d20465",
    ),
    "11x11": (
        "a0e16f79",
        "dd838a3205ebe3e08859593357000a53c5b43888c9342d1e8dbfcb554e2f106e",
        "ab51e6987df73a7109335ab42e196257793dc41f93cba8f7f9d26b3bb62279ba",
    ),
    "13x13": (
        "065fe581",
        "0e368ba3c41fd180170995b6b891529131a6bfb9f6ad6ee85a2561e132c399ab",
        "c01dfb5c432da3b52346af9b7ddfb69f71aaa1534228d22012489438f4d78328",
    ),
    "15x15": (
        "26d1ad39",
        "661b77546e0bc77a1cc77b2aeb2be1dfa8ac3728d43740ab8d2a5a134586d4da",
        "d83a8a102b12073fc4bed71c48c002918e1c9fa5fef82b75cf42e7aa3f15ad22",
    ),
}


@pytest.mark.parametrize(
    "task", [*TASKS.values(), make_task(7, 6), make_task(31, 2)], ids=lambda task: task.name
)
def test_layouts_are_playable(task, tmp_path):
    made = load_bank(task, 40, folder=tmp_path)
    assert made.walls.shape == (40, task.size)
    for walls, rooms, places, spawns in zip(*vars(made).values(), strict=True):
        free = unpack(walls, task.size) == 0
        cells = np.flatnonzero(free)
        starts, objects = spawns[spawns >= 0], places[places >= 0]
        assert len(starts) >= 1
        assert len(objects) >= task.objects
        assert set(starts) | set(objects) <= set(cells)
        assert (unpack(rooms, task.size) <= free).all()
        rows = (
            ["*" * task.grid]
            + ["*" + "".join(" " if f else "*" for f in row) + "*" for row in free]
            + ["*" * task.grid]
        )
        assert len(reachable_cells(tuple(rows), first_free(rows))) == len(cells)


def unpack(rows, size):
    return rows[:, None] >> np.arange(size, dtype=np.uint32) & 1


def first_free(rows):
    return next((r, c) for r, row in enumerate(rows) for c, char in enumerate(row) if char != WALL)


@pytest.mark.parametrize(("task", "before"), BEFORE.items(), ids=BEFORE)
def test_banks_and_their_names_are_those_of_labmazes_mazes(task, before, tmp_path):
    """So caches of then are still those of now."""
    name, *digests = before
    for held_out, size, digest in ((False, 1100, digests[0]), (True, 50, digests[1])):
        made = load_bank(TASKS[task], size, held_out=held_out, folder=tmp_path)
        found = hashlib.sha256()
        for array in vars(made).values():
            found.update(array.tobytes())
        assert found.hexdigest() == digest
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{task}-heldout-50-0-{name}.npz",
        f"{task}-train-1100-0-{name}.npz",
    ]


def test_banks_come_from_the_cache(tmp_path, monkeypatch):
    first = load_bank(TASKS["9x9"], 30, folder=tmp_path)
    monkeypatch.setattr(bank, "_make", lambda *_: pytest.fail("made again"))
    second = load_bank(TASKS["9x9"], 30, folder=tmp_path)
    for one, two in zip(vars(first).values(), vars(second).values(), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"PK" + data[2:-9]]
)
def test_damaged_files_are_made_again(tmp_path, damage):
    first = load_bank(TASKS["9x9"], 30, folder=tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    np.testing.assert_array_equal(load_bank(TASKS["9x9"], 30, folder=tmp_path).walls, first.walls)


def test_changed_content_is_noticed(tmp_path):
    first = load_bank(TASKS["9x9"], 30, folder=tmp_path)
    (path,) = tmp_path.iterdir()
    with np.load(path) as file:
        arrays = {key: file[key] for key in file}
    arrays["walls"][3] ^= 2
    np.savez_compressed(path, **arrays)
    np.testing.assert_array_equal(load_bank(TASKS["9x9"], 30, folder=tmp_path).walls, first.walls)


def test_held_out_layouts_are_never_trained_on(tmp_path):
    training = load_bank(TASKS["9x9"], 3000, folder=tmp_path)
    other = load_bank(TASKS["9x9"], 1000, seed=7, folder=tmp_path)
    held_out = load_bank(TASKS["9x9"], 300, held_out=True, folder=tmp_path)
    trained = {row.tobytes() for row in training.walls} | {row.tobytes() for row in other.walls}
    assert not trained & {row.tobytes() for row in held_out.walls}
    assert not np.array_equal(training.walls[:1000], other.walls)


def test_workers_make_the_same_bank(tmp_path, monkeypatch):
    monkeypatch.setattr(bank, "_CHUNK", 64)
    one = bank._make(TASKS["11x11"], 200, 0, False, progress=False)
    monkeypatch.setattr(bank, "num_cores", lambda: 1)
    alone = bank._make(TASKS["11x11"], 400, 0, False, progress=False)
    np.testing.assert_array_equal(one.walls, alone.walls[:200])


def test_worker_processes_agree(tmp_path):
    with (
        bank._chunks(TASKS["9x9"], 0, False, workers=2) as several,
        bank._chunks(TASKS["9x9"], 0, False, workers=1) as one,
    ):
        for _ in range(3):
            np.testing.assert_array_equal(next(several).walls, next(one).walls)
