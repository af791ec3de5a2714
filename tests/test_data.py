"""Data sets: what is collected is what was seen, and what is loaded is what was collected."""

import collections
import dataclasses
import itertools
import json
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_data import make_arrays, make_scenes

from memory_maze import TASKS, data, make_task
from memory_maze.adapters.simulation import Simulation
from memory_maze.cli import main
from memory_maze.data import DataError, npz
from memory_maze.data.collection import make_manifest, make_missing
from memory_maze.data.convert import convert, plan, psnr
from memory_maze.data.dataset import Batches
from memory_maze.data.frames import Reader
from memory_maze.data.inspect import inspect
from memory_maze.data.npz import pack_trajectory
from memory_maze.data.order import Replay, Windows
from memory_maze.data.schema import KEYS, check_trajectory
from memory_maze.observation import observation_arrays
from memory_maze.options import Options
from memory_maze.splits import is_held_out
from memory_maze.world import BORDER_COLORS, bits_of

JOB = {"episodes": 15, "steps": 60, "shard": 5, "evaluation": 5}


@dataclasses.dataclass(frozen=True)
class Beholder:
    """Does what the picture tells: another picture would show in its actions."""

    sees_pictures = True

    def start(self, state):
        return jnp.int32(0)

    def act(self, memory, sight, key):
        weights = jnp.arange(sight.image.size, dtype=jnp.uint32).reshape(sight.image.shape)
        number = (sight.image * weights).sum() + memory.astype(jnp.uint32)
        return (number % 6).astype(jnp.int32), memory + 1


def decide(images):
    """What it does, from (S, 64, 64, 3) pictures."""
    weights = np.arange(images[0].size, dtype=np.uint32).reshape(images[0].shape)
    numbers = (images * weights).sum(axis=(1, 2, 3), dtype=np.uint32)
    return (numbers + np.arange(len(images), dtype=np.uint32)) % 6


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """The same trajectories in both formats."""
    folder = tmp_path_factory.mktemp("sets")
    for format in ("scenes", "npz"):
        make_missing(folder / format, make_manifest(TASKS["9x9"], format=format, **JOB))
    return folder


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_same(first, second):
    assert first.keys() == second.keys()
    for key in first:
        np.testing.assert_array_equal(np.asarray(first[key]), np.asarray(second[key]), key)


@pytest.mark.parametrize("engine", ["jax", "mujoco"])
def test_pictures_are_those_that_were_seen(engine, tmp_path):
    policy = "tests.test_data:Beholder"
    manifest = make_manifest(TASKS["9x9"], 5, steps=40, policy=policy, engine=engine, evaluation=0, shard=5)
    make_missing(tmp_path, manifest)
    dataset = data.load(tmp_path)
    for index, trajectory in enumerate(dataset):
        seen = decide(trajectory["image"][:-1])
        np.testing.assert_array_equal(seen, dataset.scenes.actions[index])
        np.testing.assert_array_equal(seen, trajectory["action"][1:].argmax(axis=1))
    # Also by themselves, and in any company.
    piece = dataset.read(3, 7, 12, ("image",))["image"]
    np.testing.assert_array_equal(piece, dataset[3]["image"][7:12])


def test_npz_files_have_the_papers_keys(sets):
    path = sets / "npz" / "train" / "000003.npz"
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    assert list(arrays) == [
        "image",
        "action",
        "reward",
        "maze_layout",
        "agent_pos",
        "agent_dir",
        "targets_pos",
        "targets_vec",
        "target_pos",
        "target_vec",
        "target_color",
    ]
    shapes = {key: array.shape for key, array in arrays.items()}
    assert shapes["image"] == (61, 64, 64, 3)
    assert shapes["action"] == (61, 6)
    assert shapes["targets_vec"] == (61, 3, 2)
    assert not arrays["action"][0].any()
    assert (arrays["action"][1:].sum(axis=1) == 1).all()
    check_trajectory(arrays, "the file")


def test_files_hold_what_the_interfaces_observe():
    task = make_task(11, objects=2)
    arrays = observation_arrays(task, Options(global_observables=True), np.float32)
    assert arrays.keys() == KEYS.keys() - {"action", "reward"}
    for key, array in arrays.items():
        assert (KEYS[key].sizes(11, 2), KEYS[key].dtype) == (array.shape, array.dtype), key


def test_both_formats_tell_the_same(sets):
    scenes, files = data.load(sets / "scenes"), data.load(sets / "npz")
    assert len(scenes) == len(files) == 15
    assert scenes.evaluation == files.evaluation == 5
    for index in (0, 9, 14):
        assert_same(scenes[index], files[index])
    with np.load(sets / "npz" / "eval" / "000004.npz") as file:
        assert_same(dict(file), scenes[-1])


def test_scenes_are_small(sets):
    """30 million steps fit in a gigabyte."""
    size = sum(path.stat().st_size for path in (sets / "scenes").glob("*.npz"))
    headers = 3 * 3000  # of the files
    assert (size - headers) / (15 * 61) < 25


def test_a_trajectory_can_be_played_again_from_its_seed(sets):
    dataset = data.load(sets / "scenes")
    assert data.load(sets / "npz").seeds == dataset.seeds == dataset.scenes.seeds.tolist()
    for index in (2, 14):
        trajectory = dataset[index]
        simulation = Simulation("9x9", seed=int(dataset.scenes.seeds[index]), global_observables=True)
        observation = simulation.reset()
        np.testing.assert_array_equal(observation["maze_layout"], trajectory["maze_layout"][0])
        np.testing.assert_allclose(observation["targets_pos"], trajectory["targets_pos"][0])
        np.testing.assert_array_equal(observation["image"], trajectory["image"][0])
        for step in range(10):
            observation, reward, _ = simulation.step(dataset.scenes.actions[index, step])
            np.testing.assert_allclose(observation["agent_pos"], trajectory["agent_pos"][step + 1], atol=1e-3)
            assert reward == trajectory["reward"][step + 1]


def test_evaluation_has_layouts_of_its_own(sets):
    scenes = data.load(sets / "scenes").scenes
    from memory_maze.data.scenes import to_scenario

    assert [is_held_out(to_scenario(scenes, index)) for index in range(15)] == [False] * 10 + [True] * 5
    assert len(set(scenes.seeds.tolist())) == 15


def test_an_interrupted_collection_goes_on(sets, tmp_path):
    """Whatever was left behind, the files are the same in the end."""
    shutil.copytree(sets / "npz", tmp_path / "npz")
    (tmp_path / "npz" / "train-00001.json").unlink()
    (tmp_path / "npz" / "train" / "000006.npz").unlink()
    (tmp_path / "npz" / "train" / "000007.npz").write_bytes(b"half a file")
    (tmp_path / "npz" / "train" / ".000008-abc-partial.npz").write_bytes(b"half a file")
    kept = (tmp_path / "npz" / "train" / "000000.npz").stat().st_mtime_ns
    with pytest.raises(DataError, match=r"1 of 3 parts are missing, the first is train-00001.json"):
        data.load(tmp_path / "npz")
    assert len(data.load(tmp_path / "npz", partial=True)) == 10
    make_missing(tmp_path / "npz", make_manifest(TASKS["9x9"], format="npz", **JOB))
    assert content(tmp_path / "npz") == content(sets / "npz")
    assert (tmp_path / "npz" / "train" / "000000.npz").stat().st_mtime_ns == kept


@pytest.mark.slow  # a worker of a cluster is killed in any case, and what is interrupted here goes on
@pytest.mark.timeout(600)
def test_killed_at_random_moments_it_is_the_same(tmp_path):
    arguments = ["--episodes", "60", "--steps", "60", "--shard", "2", "--format", "npz", "--policy", "random"]
    command = [sys.executable, "-m", "memory_maze", "collect", *arguments, "--out"]
    subprocess.run([*command, tmp_path / "whole"], check=True, capture_output=True)
    moments = random.Random(5)
    progress = []
    for _ in range(10):
        process = subprocess.Popen([*command, tmp_path / "killed"], stdout=subprocess.DEVNULL)
        # Until something happens, and a little longer.
        before = len(list((tmp_path / "killed").rglob("*.npz")))
        while process.poll() is None and len(list((tmp_path / "killed").rglob("*.npz"))) <= before:
            time.sleep(0.005)
        time.sleep(moments.uniform(0, 0.4))
        process.send_signal(signal.SIGKILL)
        process.wait()
        progress.append(len(list((tmp_path / "killed").glob("*.json"))))
    assert 0 < progress[0] <= progress[-1] < 32, progress
    subprocess.run([*command, tmp_path / "killed"], check=True, capture_output=True)
    assert content(tmp_path / "killed") == content(tmp_path / "whole")


def test_what_cannot_be_collected_is_said_in_a_line(sets, tmp_path, capsys):
    manifest = make_manifest(TASKS["9x9"], format="npz", **JOB)
    with pytest.raises(DataError, match="holds a data set with seed 0, not 7"):
        make_missing(sets / "npz", dataclasses.replace(manifest, seed=7))
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match=r"it contains notes.txt"):
        make_missing(tmp_path, manifest)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    for arguments, words in (
        (["--episodes", "0"], "0 episodes"),
        (["--policy", "nobody"], "unknown policy 'nobody'"),
        (["--task", "10x10"], "odd"),
        (["--task", "big"], "unknown task 'big'"),
        (["--seed", "-1"], "seed must be from 0"),
        (["--evaluation", "5", "--episodes", "4"], "5 of them for evaluation"),
    ):
        with pytest.raises(SystemExit):
            main(["collect", "--out", str(tmp_path / "new"), *arguments])
        assert words in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_gpu_makes_thousands_at_once(monkeypatch):
    from memory_maze.data import collection

    monkeypatch.setattr(collection.jax, "default_backend", lambda: "gpu")
    shards = make_manifest(TASKS["9x9"], 30_000).shards()
    assert [len(shard.episodes) for shard in shards] == [7250] * 4 + [1000]
    assert [len(shard.episodes) for shard in make_manifest(TASKS["9x9"], 300).shards()] == [290, 10]
    assert make_manifest(TASKS["9x9"], 30_000, shard=50).shard == 50
    assert make_manifest(TASKS["9x9"], 30_000, format="npz").shard == 100
    assert make_manifest(TASKS["9x9"], 30_000, engine="mujoco").shard == 20


def test_processes_draw_the_same_mazes(monkeypatch):
    from memory_maze.data import collection

    manifest = make_manifest(TASKS["9x9"], **JOB)
    shards = manifest.shards()[1:]  # as when the first is there already
    alone = list(collection._draw_ahead(manifest, shards))
    monkeypatch.setattr(collection, "_CHUNK", 1)
    monkeypatch.setattr(collection, "num_cores", lambda: 2)
    monkeypatch.setattr(collection, "draw_scenarios", lambda *_: pytest.fail("drawn here"))
    assert list(collection._draw_ahead(manifest, shards)) == alone
    assert [shard.split for shard, _ in alone] == ["train", "eval"]


def test_two_collections_do_not_share_a_folder(tmp_path):
    from memory_maze.data.collection import begin

    manifest = make_manifest(TASKS["9x9"], **JOB)
    with (
        begin(tmp_path, manifest),
        pytest.raises(RuntimeError, match=f"process {os.getpid()} is writing to it"),
        begin(tmp_path, manifest),
    ):
        pass


class Turner:
    """A policy as a user writes it, which counts how often a program is made of it."""

    traces = 0

    def start(self, state):
        return ()

    def act(self, memory, state, key):
        Turner.traces += 1
        return jnp.int32(2), memory


def test_any_size_and_a_policy_of_ones_own(tmp_path):
    policy = "tests.test_data:Turner"
    manifest = make_manifest(make_task(7, objects=2), 3, steps=10, policy=policy, evaluation=0, shard=1)
    make_missing(tmp_path, manifest)
    dataset = data.load(tmp_path)
    assert (dataset.size, dataset.objects, len(dataset)) == (7, 2, 3)
    assert (dataset.scenes.actions == 2).all()
    assert dataset[0]["maze_layout"].shape == (11, 7, 7)
    # The policy was found in a module of its own.
    assert sys.modules["tests.test_data"].Turner.traces == 1


@pytest.mark.parametrize("order", ["windows", "replay"])
def test_sequences_are_parts_of_trajectories(sets, order):
    dataset = data.load(sets / "npz", "train")
    whole = list(dataset)
    with dataset.batches(order, 4, 16, seed=3) as batches:
        for batch in (next(batches) for _ in range(6)):
            assert batch["image"].shape == (4, 16, 64, 64, 3)
            for row in range(4):
                for step in range(16):
                    image = batch["image"][row, step]
                    places = [(t, i) for t in whole for i in range(61) if (t["image"][i] == image).all()]
                    assert any((t["agent_pos"][i] == batch["agent_pos"][row, step]).all() for t, i in places)
                    assert all((i == 0) == batch["reset"][row, step] for _, i in places)


@pytest.mark.parametrize("order", ["windows", "replay"])
def test_formats_and_kinds_of_arrays_give_the_same_sequences(sets, order, tmp_path):
    with zipfile.ZipFile(tmp_path / "published.zip", "w") as file:
        for path in sorted((sets / "npz").rglob("*.npz")):
            file.write(path, f"memory_maze_9x9/{path.parent.name}/{path.name}")
    sources = {
        "scenes": data.load(sets / "scenes", "train"),
        "files": data.load(sets / "npz", "train"),
        "zip": data.load(tmp_path / "published.zip", "train"),
    }
    kinds = ("numpy", "jax", "dlpack")
    iterators = [source.batches(order, 3, 24, arrays=kind) for source in sources.values() for kind in kinds]
    for _ in range(4):
        batches = [next(iterator) for iterator in iterators]
        for batch in batches:
            assert_same(batch, batches[0])
    assert isinstance(batches[1]["image"], jax.Array)
    assert batches[0]["image"].flags.writeable
    for array in batches[2].values():
        np.from_dlpack(array)
    for iterator in iterators:
        iterator.close()


def test_files_are_unpacked_once_if_they_fit_into_the_memory(sets, monkeypatch):
    unpacked = []
    whole = npz.Files.read_whole
    monkeypatch.setattr(
        npz.Files,
        "read_whole",
        lambda self, index, *args: unpacked.append(index) or whole(self, index, *args),
    )

    def read():
        with data.load(sets / "npz", "train").replay(3, 24) as batches:
            return [next(batches) for _ in range(6)]

    roomy, count = read(), len(unpacked)
    # Once in an epoch; the loader may be in the second one already.
    assert collections.Counter(unpacked).most_common(1)[0][1] <= 2
    monkeypatch.setattr(npz, "memory_bytes", lambda: 2 * 5 * 61 * 64 * 64 * 3)  # with nothing but pictures
    for one, two in zip(read(), roomy, strict=True):
        assert_same(one, two)
    assert len(unpacked) == count


@pytest.mark.timeout(30)
def test_who_waits_for_a_batch_is_told_that_there_are_no_more():
    """Two do, in threads of their own, when another closes it."""

    class Order:
        position = 0

        def draw(self):
            slow.wait()
            return None, None

    slow, told = threading.Event(), queue.Queue()
    batches = Batches(Order(), lambda *_: {}, (), dict, 2)

    def wait():
        try:
            while True:
                next(batches)
        except RuntimeError as error:
            told.put(str(error))

    waiting = [threading.Thread(target=wait, daemon=True) for _ in range(2)]
    for thread in waiting:
        thread.start()
    closing = threading.Thread(target=batches.close)
    closing.start()
    slow.set()
    closing.join()
    assert [told.get(timeout=5) for _ in waiting] == ["the iterator is closed"] * 2


@pytest.mark.parametrize(("order", "interleave"), [("windows", 1), ("replay", 1), ("replay", 2)])
def test_a_saved_position_goes_on_with_the_next_batch(sets, order, interleave):
    dataset = data.load(sets / "scenes", "train")
    keywords = {"keys": ("action", "reset", "agent_pos"), "interleave": interleave}
    with dataset.batches(order, 3, 24, seed=8, **keywords) as batches:
        for _ in range(5):
            next(batches)
        position = json.loads(json.dumps(batches.position))
        expected = [next(batches) for _ in range(5)]
    again = dataset.batches(order, 3, 24, seed=8, **keywords, position=position)
    for batch in expected:
        assert_same(next(again), batch)
    again.close()
    with pytest.raises(ValueError, match="different iterator"):
        dataset.batches(order, 3, 24, seed=9, **keywords, position=position)
    if order == "replay":
        with pytest.raises(ValueError, match="different iterator"):
            dataset.batches(order, 3, 24, seed=8, interleave=3, position=position)


@given(
    lengths=st.lists(st.integers(2, 40), min_size=1, max_size=12),
    batch=st.integers(1, 12),
    time=st.integers(1, 30),
    seed=st.integers(0, 5),
    interleave=st.integers(1, 4),
)
@settings(max_examples=60, deadline=None)
def test_replay_reads_everything_once_and_in_order(lengths, batch, time, seed, interleave):
    lengths = np.array(lengths)
    batch = min(batch, len(lengths))
    order = Replay(np.arange(len(lengths)), lengths, batch, time, seed, interleave=interleave)
    rows = [[] for _ in range(interleave * batch)]
    for turn in range(interleave * (4 * lengths.sum() // (batch * time) + 2)):
        trajectories, times = order.draw()
        first = turn % interleave * batch
        for row in range(batch):
            rows[first + row] += zip(trajectories[row].tolist(), times[row].tolist(), strict=True)
        reading = [pick for pick, _ in order.position["rows"]]
        assert len(set(reading[first : first + batch])) == batch
        if 2 * interleave * batch <= len(lengths):
            assert len(set(reading)) == interleave * batch, "no two rows of any batch read the same"
    for row in rows:
        for (before, then), (after, now) in itertools.pairwise(row):
            assert (after, now) == (before, then + 1) if then + 1 < lengths[before] else now == 0
    begun = [trajectory for row in rows for trajectory, when in row if when == 0]
    assert set(begun) | {row[0][0] for row in rows} == set(range(len(lengths)))


@given(time=st.integers(1, 20), seed=st.integers(0, 5))
@settings(max_examples=20, deadline=None)
def test_windows_are_inside_and_reach_everything(time, seed):
    lengths = np.array([20, 25, 40])
    order = Windows(np.array([4, 7, 9]), lengths, 64, time, seed)
    seen = set()
    for _ in range(40):
        trajectories, times = order.draw()
        assert (np.diff(times) == 1).all()
        assert (times >= 0).all()
        assert (times[:, -1] < lengths[np.searchsorted([4, 7, 9], trajectories[:, 0])]).all()
        seen |= set(zip(trajectories[:, 0].tolist(), times[:, 0].tolist(), strict=True))
    assert len(seen) == (lengths - time + 1).sum()


def test_parts_for_several_processes_are_disjoint(sets):
    dataset = data.load(sets / "scenes", "train")
    seen = []
    for index in range(2):
        with dataset.replay(5, 20, part=(index, 2), keys=("agent_pos",), seed=1) as batches:
            places = np.concatenate([next(batches)["agent_pos"].reshape(-1, 2) for _ in range(4)])
        seen.append({tuple(place) for place in places})
    assert not seen[0] & seen[1]


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"time": 62}, "the shortest trajectory has 61"),
        ({"batch": 0}, "batch must be a positive integer"),
        ({"interleave": 0}, "interleave must be a positive integer"),
        ({"keys": ("picture",)}, "unknown key 'picture'"),
        ({"arrays": "torch"}, "numpy, jax or dlpack"),
        ({"part": (2, 2)}, "part 2 of 2"),
    ],
)
def test_wrong_sequences_are_refused(sets, keywords, words):
    with pytest.raises(ValueError, match=words):
        data.load(sets / "scenes").windows(**keywords)


def test_replay_needs_as_many_trajectories_as_rows(sets):
    with pytest.raises(ValueError, match="16 different trajectories"):
        data.load(sets / "scenes").replay(16, 8)


def test_what_goes_wrong_while_reading_ahead_is_raised(sets, tmp_path):
    shutil.copytree(sets / "npz", tmp_path / "npz")
    dataset = data.load(tmp_path / "npz")
    for path in (tmp_path / "npz").rglob("*.npz"):
        path.write_bytes(path.read_bytes()[:50_000])
    with dataset.windows(2, 8) as batches, pytest.raises(DataError, match=r"\.npz"):
        next(batches)


@pytest.mark.parametrize(
    ("place", "split"),
    [
        ("eval/a.npz", "eval"),
        ("memory_maze_9x9-EVAL_2/a.npz", "eval"),
        ("train-eval/eval/a.npz", "eval"),
        ("eval-2/trained-too/a.npz", "eval"),
        ("train/medieval/a.npz", "train"),
        ("medieval/a.npz", None),
        ("constrained/trainer.npz", None),
        ("train-eval/a.npz", None),
    ],
)
def test_splits_are_named_by_whole_words(place, split, tmp_path):
    """Of bare NPZ files; `inspect` says the same."""
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_bytes(pack_trajectory(make_arrays(make_scenes([0]))))
    for asked in ("train", "eval"):
        if asked == split:
            assert len(data.load(tmp_path, asked)) == 1
        else:
            with pytest.raises(DataError, match=f"no NPZ files found for {asked}"):
                data.load(tmp_path, asked)
    assert data.load(tmp_path).evaluation == (split == "eval")
    assert inspect(tmp_path).parts[0].split == (split or "all")


def test_scenes_become_the_files_that_would_have_been_collected(sets, tmp_path):
    dataset = data.load(sets / "scenes")
    manifest = dataclasses.replace(plan(dataset, "npz"), shard=5)

    def kill(shard, fresh):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(dataset, tmp_path / "npz", manifest, kill)
    kept = (tmp_path / "npz" / "train" / "000000.npz").stat().st_mtime_ns
    (tmp_path / "npz" / "train" / ".000007-0-partial.npz").write_bytes(b"cut off")
    convert(dataset, tmp_path / "npz", manifest)  # goes on
    assert (tmp_path / "npz" / "train" / "000000.npz").stat().st_mtime_ns == kept
    assert content(tmp_path / "npz") == content(sets / "npz")
    with pytest.raises(ValueError, match="already has the format scenes"):
        plan(dataset, "scenes")


def test_files_become_scenes_that_look_the_same(sets, tmp_path):
    """The published files tell nothing of textures: they are found in the pictures."""
    for split in ("train", "eval"):
        shutil.copytree(sets / "npz" / split, tmp_path / "bare" / split)
    bare = data.load(tmp_path / "bare")
    convert(bare, tmp_path / "scenes", plan(bare, "scenes"))
    found, original = data.load(tmp_path / "scenes"), data.load(sets / "scenes")
    assert found.evaluation == 5
    assert found.seeds == [None] * 15
    assert main(["inspect", str(tmp_path / "scenes")]) is None  # sound
    for name in ("walls", "rooms", "objects", "colors", "actions", "rewards", "targets", "hidden"):
        np.testing.assert_array_equal(getattr(found.scenes, name), getattr(original.scenes, name), name)
    for index in range(15):
        quality = psnr(found[index]["image"], original[index]["image"])
        assert quality.min() > 30
        assert quality.mean() > 45


@pytest.mark.parametrize("engine", ["jax", "mujoco"])
def test_pictures_are_those_of_the_variant_and_layouts_of_the_maze(engine):
    """The way to the target is in the picture; files promise layouts of 0 and 1."""
    scenes = make_scenes([0, 1])
    options = Options(global_observables=True, show_path=True)
    times = np.array([[0, 9, 10, 20]] * 2)
    rows = np.array([[0] * 4, [1] * 4])
    seen = Reader(scenes, engine, options).read(rows, times, ("image", "maze_layout", "target_pos"))
    images = np.asarray(seen["image"])
    for row, column in np.ndindex(times.shape):
        border = BORDER_COLORS[scenes.targets[row, times[row, column]]]
        np.testing.assert_array_equal(images[row, column, -1], [border] * 64)
        corner = images[row, column, : 2 * scenes.size, -2 * scenes.size :]
        path = (corner[..., 1] > 120) & (corner[..., [0, 2]] < 128).all(-1)
        assert path.sum() > 10, "green on the minimap"
    for layout in np.asarray(seen["maze_layout"]).reshape(-1, scenes.size, scenes.size):
        np.testing.assert_array_equal(layout, ~bits_of(scenes.walls[0]))
