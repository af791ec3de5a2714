"""`memory-maze inspect`: its figures, what it finds wrong, and the pictures it writes."""

import dataclasses
import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from tiny_data import SIZE, STEPS, WALLS, make_arrays, make_scenes, write_set

from memory_maze.cli import main
from memory_maze.data.inspect import inspect
from memory_maze.data.npz import pack_trajectory
from memory_maze.data.scenes import to_bytes
from memory_maze.data.tracks import (
    Tracks,
    constant_baseline,
    describe,
    join_figures,
    measure,
    tracks_of_arrays,
    tracks_of_scenes,
)
from memory_maze.system.extras import install_command


def walk(places, layout=None, objects=((0.5, 0.5),), actions=None, rewards=None):
    """A trajectory of the places, looking up."""
    steps = len(places) - 1
    return Tracks(
        layouts=np.ones((1, 3, 3), bool) if layout is None else np.array([layout], bool),
        objects=np.array([objects], float),
        positions=np.array([places], float),
        directions=np.array([[(0, 1)] * len(places)], float),
        actions=np.array([actions or [1] * steps]),
        rewards=np.array([rewards or [0] * steps], float),
    )


def test_figures_of_a_walk():
    """Right, right, back, back to the start, up: by hand."""
    places = [(0.5, 0.5), (1.5, 0.5), (1.7, 0.5), (2.5, 0.5), (1.5, 0.5), (0.5, 0.5), (0.5, 1.5)]
    layout = [[1, 1, 1], [1, 0, 0], [1, 0, 0]]
    figures = measure(walk(places, layout, actions=[1, 1, 1, 2, 2, 5], rewards=[0, 0, 1, 0, 1, 0]))
    assert figures.lengths.tolist() == [7]
    assert figures.rewards.tolist() == [2]
    assert figures.revisits.tolist() == [2]  # the middle and the start
    assert figures.distances.tolist() == pytest.approx([5])
    assert figures.actions.tolist() == [[0, 3, 2, 0, 0, 1]]
    assert figures.growth[0, [0, 20, 60, 99, 100]].tolist() == pytest.approx([0.2, 0.4, 0.6, 0.6, 0.8])


def test_staying_is_not_entering():
    figures = measure(walk([(0.5, 0.5), (0.6, 0.5), (0.5, 0.6), (0.5, 0.5)]))
    assert figures.revisits.tolist() == [0]
    assert figures.growth[0, -1] == pytest.approx(1 / 9)


def test_vectors_are_those_of_the_files():
    """The sums are over the last half of the elements."""
    arrays = make_arrays(make_scenes([1, 2, 3]), 2)
    figures = measure(tracks_of_arrays(arrays))
    half = arrays["targets_vec"][-(STEPS // 2) :].astype(float)
    assert figures.halves.tolist() == [len(half)]
    assert np.allclose(figures.sums[0], half.sum(axis=0), atol=1e-4)
    assert np.allclose(figures.squares[0], (half**2).sum(axis=0), atol=1e-4)


def test_both_formats_have_the_same_figures():
    """A shard is measured at once, files one by one."""
    scenes = make_scenes([1, 2, 3])
    one = measure(tracks_of_scenes(scenes))
    other = join_figures([measure(tracks_of_arrays(make_arrays(scenes, index))) for index in range(3)])
    for field in dataclasses.fields(one):
        assert np.allclose(getattr(one, field.name), getattr(other, field.name), atol=1e-4), field.name


def test_the_constant_baseline_by_hand():
    """Agents stand at (1, 1) and look up: the object is 1 right of two of them, and 2 up of the third."""
    free, blocked = np.ones((3, 3)), np.ones((3, 3))
    blocked[2, 2] = blocked[2, 1] = blocked[0, 2] = 0
    still = [(1, 1)] * 4
    parts = [
        measure(walk(still, free, objects=[(2, 1)])),
        measure(walk(still, free, objects=[(2, 1)])),
        measure(walk(still, blocked, objects=[(1, 3)])),
    ]
    figures = join_figures(parts)
    apart = constant_baseline(figures, ["train", "train", "eval"])
    assert (apart["trained_on"], apart["scored_on"]) == (2, 1)
    assert apart["walls_percent"] == pytest.approx(100 * 6 / 9)
    assert apart["objects_squared_error"] == pytest.approx(1 + 4)
    together = constant_baseline(figures, ["all"] * 3)
    assert (together["trained_on"], together["scored_on"]) == (3, 3)
    assert together["walls_percent"] == pytest.approx(100 * (9 + 9 + 6) / 27)
    # The mean is (2/3, 2/3): twice (1/3, 2/3) away, once (2/3, 4/3).
    assert together["objects_squared_error"] == pytest.approx((2 * 5 / 9 + 20 / 9) / 3)


def test_the_constant_baseline_is_that_of_predictions():
    """Against the squared errors of all elements."""
    scenes = make_scenes(list(range(60)))
    result = constant_baseline(measure(tracks_of_scenes(scenes)), ["all"] * 60)
    assert (result["trained_on"], result["scored_on"]) == (58, 2)
    halves = np.stack([make_arrays(scenes, index)["targets_vec"][-10:] for index in range(60)]).astype(float)
    mean = halves[:58].mean(axis=(0, 1))
    expected = ((halves[58:] - mean) ** 2).sum(axis=-1).mean()
    assert result["objects_squared_error"] == pytest.approx(expected, abs=1e-3)
    assert result["walls_percent"] == 100


def test_the_papers_values_stand_beside():
    report = describe(measure(tracks_of_scenes(make_scenes([1, 2], size=9))), ["train", "train"])
    assert report["constant_baseline"]["paper"] == {"walls_percent": 80.8, "objects_squared_error": 23.9}
    assert report["layouts"] == 1
    small = describe(measure(tracks_of_scenes(make_scenes([1]))), ["all"])
    assert "paper" not in small["constant_baseline"]


@pytest.mark.parametrize("format", ["scenes", "npz"])
def test_a_sound_set(tmp_path, format):
    write_set(tmp_path, format)
    told = []
    found = inspect(tmp_path, lambda done, total: told.append((done, total)))
    assert found.problems == found.remarks == []
    report = found.report()
    assert report["trajectories"] == 10
    assert report["splits"] == {"train": 8, "eval": 2}
    assert report["steps"] == 10 * STEPS
    data = list(tmp_path.rglob("*.npz"))
    assert report["bytes"] == sum(path.stat().st_size for path in data)
    assert report["bytes_per_step"] == pytest.approx(report["bytes"] / 200)
    assert report["reward"] == {"mean": 1, "std": 0}
    free = SIZE * SIZE - len(WALLS)
    assert report["visited_share"]["mean"] == pytest.approx((8 * 6 / free + 2 * 6 / (free - 1)) / 10)
    assert report["constant_baseline"]["walls_percent"] == pytest.approx(100 * 48 / 49)
    assert told == [(done, len(data)) for done in range(len(data) + 1)]
    json.dumps(report, allow_nan=False)


def test_single_files_folders_and_zip_files(tmp_path):
    arrays = [pack_trajectory(make_arrays(make_scenes([1, 2, 3]), index)) for index in range(3)]
    (tmp_path / "one.npz").write_bytes(arrays[0])
    (tmp_path / "scenes.npz").write_bytes(to_bytes(make_scenes([1, 2])))
    with zipfile.ZipFile(tmp_path / "both.zip", "w") as file:
        for index, split in enumerate(("train", "train", "eval")):
            file.writestr(f"maze/{split}/{index}.npz", arrays[index])
    assert inspect(tmp_path / "one.npz").report()["trajectories"] == 1
    assert inspect(tmp_path / "scenes.npz").report()["format"] == "scenes"
    zipped = inspect(tmp_path / "both.zip")
    assert zipped.report()["splits"] == {"eval": 1, "train": 2}
    assert zipped.problems == []
    assert len(zipped.remarks) == 1  # the layout is in both: others are free to do so
    everything = inspect(tmp_path)
    assert everything.report()["trajectories"] == 6
    assert everything.report()["format"] == "NPZ files and scenes"
    with pytest.raises(FileNotFoundError, match="nothing"):
        inspect(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    assert "no trajectories" in inspect(tmp_path / "empty").problems[0]


def test_trajectories_of_different_lengths(tmp_path):
    for steps in (5, 20, 33):
        arrays = make_arrays(make_scenes([1], steps=max(steps, 10)))
        (tmp_path / f"{steps}.npz").write_bytes(
            pack_trajectory({key: array[: steps + 1] for key, array in arrays.items()})
        )
    report = inspect(tmp_path).report()
    assert report["problems"] == []
    assert report["steps"] == 58
    assert report["steps_per_trajectory"] == [5, 33]


def test_what_is_missing_and_what_does_not_belong(tmp_path):
    write_set(tmp_path)
    (tmp_path / "train-00001.npz").unlink()
    (tmp_path / "train-00007.npz").write_bytes(to_bytes(make_scenes([70])))
    (tmp_path / "README.md").write_text("hello")
    (tmp_path / ".train-00001-abc-partial.npz").write_bytes(b"half")
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "lock").write_text("")
    found = inspect(tmp_path)
    assert len(found.places) == 6
    assert [names(problem) for problem in found.problems] == ["train-00001.npz", "train-00007.npz"]
    assert "missing" in found.problems[0]
    assert "unexpected" in found.problems[1]
    assert [names(remark) for remark in found.remarks] == [".train-00001-abc-partial.npz", "README.md"]


def names(line):
    return line.split(": ")[0].rsplit("/")[-1]


def test_the_command_tells_what_is_wrong(tmp_path, capsys):
    folder = tmp_path / "set"
    write_set(folder, "npz")
    damaged = folder / "train" / "000003.npz"
    damaged.write_bytes(damaged.read_bytes()[:-100])
    before = sorted((path, path.stat().st_mtime_ns) for path in folder.rglob("*"))
    with pytest.raises(SystemExit) as status:
        main(["inspect", str(folder), "--json", str(tmp_path / "report.json")])
    assert status.value.code == 1
    output = capsys.readouterr()
    assert f"problem: {damaged}: damaged" in output.out
    assert "9 (7 train, 2 eval)" in output.out
    assert len(output.err.strip().splitlines()) == 1
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["trajectories"] == 9
    assert len(report["problems"]) == 1
    assert sorted((path, path.stat().st_mtime_ns) for path in folder.rglob("*")) == before


def test_many_problems_are_counted(tmp_path, capsys):
    for index in range(50):
        (tmp_path / f"{index:02d}.npz").write_bytes(b"nothing")
    with pytest.raises(SystemExit):
        main(["inspect", str(tmp_path)])
    output = capsys.readouterr()
    assert "and 30 more" in output.out
    assert "50 problems found" in output.err


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # the child becomes ffmpeg
@pytest.mark.parametrize("format", ["scenes", pytest.param("npz", marks=pytest.mark.slow)])
def test_the_command_writes_figures_and_pictures(tmp_path, format):
    import imageio.v2 as imageio

    folder, out = tmp_path / "set", tmp_path / "pictures"
    write_set(folder, format)
    command = [sys.executable, "-m", "memory_maze", "inspect", str(folder)]
    command += ["--out", str(out), "--json", str(tmp_path / "report.json")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert json.loads((tmp_path / "report.json").read_text())["problems"] == []
    sheet, visits = imageio.imread(out / "sheet.png"), imageio.imread(out / "visits.png")
    assert sheet.shape[0] > 900
    assert sheet.shape[1] > 1600
    assert visits.shape[1] == 1500
    for picture in (sheet, visits):
        assert len(np.unique(picture[..., :3].reshape(-1, 3), axis=0)) > 100
    with imageio.get_reader(out / "video.mp4") as video:
        assert video.count_frames() == STEPS + 1
        assert video.get_meta_data()["fps"] == 8
    assert sorted(path.name for path in out.iterdir()) == ["sheet.png", "video.mp4", "visits.png"]


def run_without(module, arguments):
    code = f"""
import sys
if {module!r}:
    sys.modules[{module!r}] = None
from memory_maze.cli import main
main({arguments!r})
print([name for name in ("matplotlib", "PIL", "imageio") if name in sys.modules])
"""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize("module", ["matplotlib", "imageio", "PIL"])
def test_pictures_need_extras(tmp_path, module):
    write_set(tmp_path)
    result = run_without(module, ["inspect", str(tmp_path), "--out", str(tmp_path / "out")])
    assert result.returncode == 1
    assert install_command("video,plots") in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_checking_needs_no_extras(tmp_path):
    write_set(tmp_path)
    result = run_without(None, ["inspect", str(tmp_path)])
    assert result.returncode == 0
    assert result.stdout.splitlines()[-1] == "[]"
