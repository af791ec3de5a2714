"""Reports of people: what their recordings add up to, beside the paper's human."""

import dataclasses
import itertools
import json

import imageio.v2 as imageio
import numpy as np
import pytest

from memory_maze import paper
from memory_maze.cli import main
from memory_maze.play.game import Game
from memory_maze.play.recordings import Played, save_game
from memory_maze.report import human, human_figures
from memory_maze.tasks import TASKS, make_task

numbers = itertools.count(1)


def record(folder, player="Ann", task="9x9", score=20, rewards=None, practice=False, **changes):
    """Writes the record of an episode as `save_game` does; later ones have later ids."""
    number = next(numbers)
    task = TASKS[task] if isinstance(task, str) else task
    rewards = list(range(1, score + 1)) if rewards is None else rewards
    id = f"202611{1 + number // 60:02d}T00{number % 60:02d}00-{number:08x}"
    played = Played(
        id=id,
        player=player,
        task=task,
        seed=100 + number,
        engine="jax",
        score=len(rewards),
        steps=task.episode_steps(),
        reward_steps=tuple(rewards),
        date="2026-11-01T00:00:00+00:00",
        pace=6.0,
        practice=practice,
    )
    path = folder / "episodes" / f"{id}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"format": 1} | dataclasses.asdict(played) | changes))
    return path


def read_table(text, title):
    """The cells of the Markdown table whose first column has that title, by their first."""
    (table,) = (part for part in text.split("\n\n") if part.startswith(f"| {title} |"))
    header, _, *rows = (line.strip("| ").split(" | ") for line in table.splitlines())
    return header[1:], {row[0]: row[1:] for row in rows}


def report(*arguments):
    main(["report", "human", *map(str, arguments)])


@pytest.fixture
def folder(tmp_path):
    """Two players, two sizes; scores 30, 32, 36 and 42 in 9x9 and 60 in 15x15."""
    folder = tmp_path / "recordings"
    for player, score in (("Ann", 30), ("Ann", 32), ("Ben", 36), ("Ben", 42)):
        record(folder, player, score=score)
    record(folder, "Ben", "15x15", score=60)
    return folder


def test_scores_are_means_over_episodes_beside_the_papers(folder, tmp_path, capsys):
    out = tmp_path / "report"
    report(folder, "--out", out)
    assert "35.0 ± 2." in capsys.readouterr().out
    text = (out / "human.md").read_text()
    names = ["human-episode.png", "human.md", "human.json", "human-scores.png"]
    assert {path.name for path in out.iterdir()} == set(names)
    sizes, rows = read_table(text, "score")
    assert sizes == list(TASKS)
    mean, error = rows["People"][0].split(" ± ")
    assert (mean, float(error)) == ("35.0", pytest.approx(2.3, abs=0.11))
    assert rows == {
        "Oracle, the paper's": ["34.8", "58.0", "74.5", "87.7"],
        "Human, the paper's": ["26.4 ± 1.6", "44.3 ± 2.5", "55.5 ± 3.5", "67.7 ± 4.0"],
        "People": [f"35.0 ± {error}", "-", "-", "60.0"],
        "95 % interval": ["-"] * 4,
        "share of the Oracle": ["101%", "-", "-", "68%"],
        "episodes": ["4", "-", "-", "1"],
        "players": ["2", "-", "-", "1"],
    }
    _, players = read_table(text, "player")
    assert players == {
        "Ann": ["2", "31.0 ± 0.7 (n=2)", "-", "-", "-"],
        "Ben": ["3", "39.0 ± 2.1 (n=2)", "-", "-", "60.0 (n=1)"],
    }
    scores = json.loads((out / "human.json").read_text())
    small, large = scores["sizes"]
    assert (small["size"], small["mean"], small["episodes"], small["players"]) == ("9x9", 35, 4, 2)
    # The error of the mean of four that are drawn again: their standard deviation over the root of 4.
    assert small["std_error"] == pytest.approx(np.std([30, 32, 36, 42]) / 2, rel=0.03)
    assert small["share_of_oracle"] == pytest.approx(35 / 34.8)
    assert small["paper"]["Human"] == {"mean": 26.4, "error": 1.6}
    assert (large["mean"], large["std_error"], large["interval_95"]) == (60, None, None)
    assert small["interval_95"] is None
    assert scores["players"][0]["scores"]["9x9"]["mean"] == 31
    assert sorted(one["score"] for one in scores["episodes"]) == [30, 32, 36, 42, 60]
    for name in ("human-episode.png", "human-scores.png"):
        image = imageio.imread(out / name)
        assert min(image.shape[:2]) > 400
        assert image[..., :3].std() > 10


def test_five_episodes_have_an_interval(folder, tmp_path):
    record(folder, "Cid", score=35)
    report(folder, "--out", tmp_path / "report")
    _, rows = read_table((tmp_path / "report" / "human.md").read_text(), "score")
    low, high = rows["95 % interval"][0].split(" to ")
    assert 30 < float(low) < 33
    assert 37 < float(high) < 42


def test_rewards_are_counted_in_100_steps(tmp_path):
    for _ in range(3):
        record(tmp_path, rewards=[1, 100, 101, 950, 1000])
        record(tmp_path, rewards=[100, 901, 902, 903])
    (size,) = human.group(human.find_recordings([tmp_path]).counted)
    means = [1.5, 0.5, *[0] * 7, 2.5]
    assert size.bins.mean(axis=0).tolist() == means
    figure = human_figures.draw_episodes([size], {"9x9": [3.5] * 10})
    (axes,) = figure.axes
    assert axes.get_title(loc="left") == "9x9: 6 episodes, 1 player"
    lines = {line.get_label(): line.get_xydata() for line in axes.get_lines()}
    np.testing.assert_allclose(lines["people, mean"], np.stack([np.arange(50, 1000, 100), means], axis=1))
    assert lines["oracle, which knows the map"][0].tolist() == [50, 3.5]
    (band,) = axes.collections
    # In the last 100 steps there are 2 and 3: of six that are drawn again, 1 to 5 have 3.
    (points,) = [path.vertices for path in band.get_paths()]
    np.testing.assert_allclose(sorted(set(points[points[:, 0] == 950, 1])), [2 + 1 / 6, 2 + 5 / 6])


def test_what_is_left_of_an_episode_is_no_bin(tmp_path):
    record(tmp_path, task=make_task(7, objects=3, seconds=60), rewards=[5, 150, 230])
    record(tmp_path, task=make_task(7, objects=3, seconds=10), rewards=[5, 6])
    long, short = human.group(human.find_recordings([tmp_path]).counted)[::-1]
    assert (long.name, long.bins.tolist()) == ("7x7, 40 steps", [[]])
    assert (short.name, short.bins.tolist()) == ("7x7, 240 steps", [[1, 1]])
    report(tmp_path, "--out", tmp_path / "report")


def test_bars_are_means_beside_the_papers_agents(folder):
    sizes = human.group(human.find_recordings([folder]).counted)
    figure = human_figures.draw_scores(sizes)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["9x9", "15x15"]
    bars = {bar.get_label(): bar[0].get_height() for bar in figure.axes[0].containers if len(bar) == 1}
    assert bars.pop("people, mean") == 35
    assert bars == {
        f"{paper.mark(name)}, the paper's": scores["9x9"].mean for name, scores in paper.SCORES.items()
    }


def test_practice_is_left_out_and_counted(folder, tmp_path, capsys):
    for _ in range(3):
        record(folder, "Cleo", score=1, practice=True)
    report(folder, "--out", tmp_path / "report")
    assert "left out: 3 practice episodes" in capsys.readouterr().out
    text = (tmp_path / "report" / "human.md").read_text()
    assert "Left out: 3 episodes of practice." in text
    assert "Cleo" not in text
    assert read_table(text, "score")[1]["People"][0].startswith("35.0 ± 2.")


DAMAGE = {
    "cut": lambda path: path.write_text(path.read_text()[:-30]),
    "empty": lambda path: path.write_text(""),
    "score": lambda path: change(path, score=21),
    "pace": lambda path: change(path, pace="fast"),
    "date": lambda path: change(path, date=[1]),
    "task": lambda path: change(path, task={"size": 9.0, "objects": 3, "seconds": 250}),
    "rooms": lambda path: change(path, task=dataclasses.asdict(TASKS["9x9"]) | {"max_rooms": "$x^"}),
}


def change(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_records_are_named_and_the_others_reported(folder, tmp_path, damage, capsys):
    path = record(folder, "Cleo")
    damage(path)
    report(folder, "--out", tmp_path / "report")
    printed = capsys.readouterr().out
    assert f"left out: {path}: not the record of an episode" in printed.replace("\n", "")
    text = (tmp_path / "report" / "human.md").read_text()
    assert f"damaged: {path.name}." in text
    assert "Cleo" not in text
    assert read_table(text, "score")[1]["People"][0].startswith("35.0 ± 2.")


def test_anonymous_players_are_numbered_by_their_first_episodes(tmp_path, capsys):
    record(tmp_path / "in", "Zoe", "15x15", practice=True)
    record(tmp_path / "in", "Yan", "15x15", score=10)
    record(tmp_path / "in", "Ann", score=20)
    record(tmp_path / "in", "Zoe", score=30)
    report(tmp_path / "in", "--anonymous", "--out", tmp_path / "out")
    text = (tmp_path / "out" / "human.md").read_text()
    _, players = read_table(text, "player")
    assert players == {
        "P1": ["1", "-", "-", "-", "10.0 (n=1)"],
        "P2": ["1", "20.0 (n=1)", "-", "-", "-"],
        "P3": ["1", "30.0 (n=1)", "-", "-", "-"],
    }
    everything = capsys.readouterr().out + text + (tmp_path / "out" / "human.json").read_text()
    for word in ("Ann", "Yan", "Zoe", "T00"):
        assert word not in everything, word


def test_an_episode_in_several_folders_counts_once(folder, tmp_path):
    other = tmp_path / "other"
    record(other, "Cleo", score=60)
    for path in folder.glob("episodes/*.json"):
        (other / "episodes" / path.name).write_text(path.read_text())
    found = human.find_recordings([folder, other, folder])
    assert sorted(one.score for one in found.counted) == [30, 32, 36, 42, 60, 60]
    ids = [one.id for one in found.counted]
    assert ids == sorted(set(ids))


def test_the_folder_of_a_study_will_do(folder, tmp_path):
    study = tmp_path / "study"
    study.mkdir()
    folder.rename(study / "recordings")
    assert len(human.find_recordings([study]).counted) == 5


def test_other_tasks_are_not_beside_the_papers(tmp_path):
    record(tmp_path, task=make_task(7, objects=3), score=5)
    record(tmp_path, task=make_task(9, objects=3, seconds=25), score=3)
    record(tmp_path, task=make_task(9, objects=1), score=9)
    record(tmp_path, task=make_task(9, objects=3, max_rooms=2), score=7)
    report(tmp_path, "--out", tmp_path / "report")
    text = (tmp_path / "report" / "human.md").read_text()
    sizes, rows = read_table(text, "score")
    assert sizes == [
        "7x7",
        "9x9",
        "9x9, 1 object",
        "9x9, 100 steps",
        "9x9, max_rooms=2",
        "11x11",
        "13x13",
        "15x15",
    ]
    assert rows["People"] == ["5.0", "-", "9.0", "3.0", "7.0", "-", "-", "-"]
    assert rows["Human, the paper's"][:5] == ["-", "26.4 ± 1.6", "-", "-", "-"]
    assert set(rows["share of the Oracle"]) == {"-"}
    scores = json.loads((tmp_path / "report" / "human.json").read_text())
    assert not any("paper" in size for size in scores["sizes"])


def test_names_are_shown_as_they_are(tmp_path, capsys):
    names = ["[bold]Ann[/bold]", "<b>Ben</b>", "a|b", "*_c_*", "[/]"]
    for name in names:
        record(tmp_path, name)
    report(tmp_path, "--out", tmp_path / "report")
    printed = capsys.readouterr().out
    for name in names:
        assert name in printed
    text = (tmp_path / "report" / "human.md").read_text()
    assert r"| \<b\>Ben\</b\> | 1 |" in text
    assert r"| a\|b | 1 |" in text


@pytest.mark.parametrize("make", ["nothing", "empty", "practice", "damaged"])
def test_without_recordings_one_line_says_how_to_make_some(tmp_path, make, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "recordings"
    if make == "empty":
        folder.mkdir()
    elif make == "practice":
        record(folder, practice=True)
    elif make == "damaged":
        record(folder).write_text("{")
    with pytest.raises(SystemExit):
        main(["report", "human", "--out", "report"])
    error = capsys.readouterr().err
    assert "memory-maze play --out recordings" in error
    assert len(error.strip().splitlines()) == 1
    assert not (tmp_path / "report").exists()


def test_what_was_played_is_reported(tmp_path):
    game = Game(make_task(7, objects=3, seconds=26), seed=5, resolution=64)
    while not game.over:
        game.step(4 if game.steps % 40 < 20 else 1)
    game.close()
    played = save_game(tmp_path, game, "Ann", pace=6.0)
    (found,) = human.find_recordings([tmp_path]).counted
    assert found == played
    report(tmp_path, "--out", tmp_path / "report")
    (size,) = json.loads((tmp_path / "report" / "human.json").read_text())["sizes"]
    assert (size["size"], size["mean"]) == ("7x7, 104 steps", game.score)
    assert size["rewards_per_100_steps"] == [len([step for step in game.reward_steps if step <= 100])]
