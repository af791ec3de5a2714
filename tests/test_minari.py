"""Data sets exported to Minari, read back with Minari."""

import fcntl
import subprocess
import sys
import weakref

import gymnasium
import minari
import numpy as np
import pytest
import tyro

from memory_maze import TASKS
from memory_maze.commands import export as export_command
from memory_maze.data import KEYS, load
from memory_maze.data.collection import make_manifest, make_missing
from memory_maze.data.minari import export
from memory_maze.data.npz import pack_trajectory
from memory_maze.system.extras import install_command

NAME = "memory-maze/9x9-random-v0"
STEPS = 5


@pytest.fixture(scope="module", params=["scenes", "npz"])
def dataset(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    manifest = make_manifest(
        TASKS["9x9"], 3, steps=STEPS, policy="random", format=request.param, evaluation=1, shard=2, seed=7
    )
    make_missing(folder, manifest)
    return load(folder)


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """Where Minari keeps its data sets."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path / "minari"


def seeds_of(exported):
    return [facts["seed"] for facts in exported.storage.get_episode_metadata(range(len(exported)))]


def check_episode(episode, arrays):
    """Everything but the observations."""
    np.testing.assert_array_equal(np.eye(6)[episode.actions], arrays["action"][1:])
    np.testing.assert_array_equal(episode.rewards, arrays["reward"][1:])
    assert episode.terminations.tolist() == [False] * STEPS
    assert episode.truncations.tolist() == [False] * (STEPS - 1) + [True]
    assert episode.actions.dtype == np.int64
    assert len(episode) == STEPS


def test_images_come_back_as_they_were(dataset):
    told = []
    export(dataset, NAME, advance=told.append)
    exported = minari.load_dataset(NAME)
    assert told == [STEPS] * 3
    assert (exported.total_episodes, exported.total_steps) == (3, 3 * STEPS)
    episodes = list(exported.iterate_episodes())
    for index, episode in enumerate(episodes):
        assert episode.id == index
        np.testing.assert_array_equal(episode.observations, dataset[index]["image"])
        assert exported.observation_space.contains(episode.observations[0])
        check_episode(episode, dataset[index])
    assert {len(episode.actions) for episode in exported.sample_episodes(2)} == {STEPS}
    assert len(set(seeds_of(exported))) == 3


def test_all_observations_come_back_as_they_were(dataset):
    exported = export(dataset, NAME, observations="all")
    keys = set(KEYS) - {"action", "reward"}
    for index, episode in enumerate(exported):
        arrays = dataset[index]
        assert set(episode.observations) == keys == set(exported.observation_space)
        for key in keys:
            np.testing.assert_array_equal(episode.observations[key], arrays[key], strict=True)
        first = {key: array[0] for key, array in episode.observations.items()}
        assert exported.observation_space.contains(first)
        check_episode(episode, arrays)
    with exported.recover_environment() as env:
        assert env.spec.id == "MemoryMaze-9x9-ExtraObs-v0"


def test_the_environment_repeats_the_episodes(dataset):
    exported = export(dataset, NAME)
    with exported.recover_environment() as env:
        assert env.spec.id == "MemoryMaze-9x9-v0"
        assert env.action_space == exported.action_space
        assert env.observation_space == exported.observation_space
        for episode, seed in zip(exported, seeds_of(exported), strict=True):
            images = [env.reset(seed=seed)[0]]
            for action, reward in zip(episode.actions, episode.rewards, strict=True):
                image, paid, *_ = env.step(int(action))
                images.append(image)
                assert paid == reward
            difference = np.abs(np.stack(images).astype(int) - episode.observations)
            assert difference.mean() < 0.01


def test_what_minari_is_told(dataset):
    export(dataset, NAME)
    facts = minari.list_local_datasets()[NAME]
    assert facts["algorithm_name"] == "random"
    assert "9x9 with 3 objects: 3 trajectories, 15 steps" in facts["description"]
    assert "author" not in facts
    assert minari.namespace.list_local_namespaces() == ["memory-maze"]
    assert minari.load_dataset(NAME).env_spec == gymnasium.spec("MemoryMaze-9x9-v0")


def test_jpeg_is_smaller_and_close(dataset):
    exact, small = export(dataset, NAME), export(dataset, "small-v0", jpeg=True)
    sizes = [path.storage.data_path.joinpath("main_data.hdf5").stat().st_size for path in (exact, small)]
    assert sizes[1] < sizes[0] / 2
    difference = np.abs(exact[0].observations.astype(int) - small[0].observations)
    assert 0 < difference.mean() < 10


def test_a_name_that_is_taken_is_refused(dataset, root):
    export(dataset, NAME)
    before = (root / NAME / "data" / "main_data.hdf5").read_bytes()
    with pytest.raises(FileExistsError, match=f"choose another name or version.*minari delete {NAME}"):
        export(dataset, NAME)
    assert (root / NAME / "data" / "main_data.hdf5").read_bytes() == before
    export(dataset, NAME.replace("v0", "v1"))


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_export_leaves_nothing(dataset, root, error):
    def interrupt(steps):
        raise error

    with pytest.raises(error):
        export(dataset, NAME, advance=interrupt)
    assert list(root.iterdir()) == []
    export(dataset, NAME)
    assert sorted(path.name for path in (root / NAME).rglob("*")) == [
        "data",
        "main_data.hdf5",
        "metadata.json",
    ]


def test_what_a_killed_export_left_is_not_a_data_set_and_is_replaced(dataset, root):
    leftover = root / ".memory-maze--9x9-random-v0-partial" / "data" / "main_data.hdf5"
    leftover.parent.mkdir(parents=True)
    leftover.write_bytes(b"half a file")
    assert minari.list_local_datasets() == {}
    assert len(export(dataset, NAME)) == 3
    assert [path.name for path in root.iterdir()] == ["memory-maze"]


def test_two_exports_of_one_name_at_once(dataset, root):
    folder = root / ".memory-maze--9x9-random-v0-partial"
    folder.mkdir(parents=True)
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(RuntimeError, match="another process is writing"):
            export(dataset, NAME)


@pytest.mark.parametrize("name", ["memory maze-v0", "../mazes-v0", "/mazes-v0", "mazes", ""])
def test_names_that_minari_does_not_take(dataset, name):
    with pytest.raises(ValueError, match="not a valid Minari id"):
        export(dataset, name)


def test_observations_that_there_are_not(dataset):
    with pytest.raises(ValueError, match="image or all"):
        export(dataset, NAME, observations="video")


def test_files_without_a_manifest(dataset, tmp_path):
    """As the paper's: neither policy nor seeds are known. Lengths may differ."""
    (tmp_path / "files").mkdir()
    for index, stop in enumerate((3, STEPS + 1)):
        arrays = {key: array[:stop] for key, array in dataset[index].items()}
        arrays["reward"] = np.eye(stop, dtype=np.float32)[2]  # paid for the second action
        (tmp_path / "files" / f"{index}.npz").write_bytes(pack_trajectory(arrays))
    exported = export(load(tmp_path / "files"), NAME)
    assert [episode.rewards.tolist() for episode in exported] == [[0, 1], [0, 1, 0, 0, 0]]
    assert "algorithm_name" not in exported.storage.metadata
    assert not any("seed" in facts for facts in exported.storage.get_episode_metadata([0, 1]))
    np.testing.assert_array_equal(exported[0].observations, dataset[0]["image"][:3])


def test_other_tasks_have_no_environment(dataset, tmp_path):
    arrays = dataset[0]
    fewer = {key: arrays[key][:, :2] for key in ("targets_pos", "targets_vec")}
    (tmp_path / "0.npz").write_bytes(pack_trajectory(arrays | fewer))
    exported = export(load(tmp_path / "0.npz"), NAME, observations="all")
    assert exported.env_spec is None
    assert exported[0].observations["targets_pos"].shape == (STEPS + 1, 2, 2)


def test_trajectories_are_in_memory_one_by_one(dataset, monkeypatch):
    read, pictures, most = dataset.read, [], 0

    def watch(*arguments, **keywords):
        nonlocal most
        arrays = read(*arguments, **keywords)
        pictures.append(weakref.ref(arrays["image"]))
        most = max(most, sum(picture() is not None for picture in pictures))
        return arrays

    monkeypatch.setattr(dataset, "read", watch)
    export(dataset, NAME)
    assert len(pictures) == 3
    assert most <= 2


def test_the_command(dataset, capsys):
    arguments = [str(dataset.path), "--name", NAME, "--split", "train", "--observations", "all"]
    tyro.cli(export_command.Command, args=arguments).run()
    exported = minari.load_dataset(NAME)
    assert len(exported) == 2
    assert "agent_pos" in exported.observation_space.spaces
    assert f'minari.load_dataset("{NAME}")' in capsys.readouterr().out


def test_without_minari():
    """The data sets themselves do not need it."""
    code = (
        "import sys; sys.modules['minari'] = None\n"
        "from memory_maze.data.minari import export\n"
        "export(None, 'x-v0')"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert install_command("minari") in result.stderr
