"""Scenarios written by hand: read, refused, saved, loaded, played."""

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_maze import TASKS, Sampler, Scenario, ScenarioError, make_task
from memory_maze.scenario import find_rooms
from memory_maze.world import COLOR_NAMES

pytestmark = pytest.mark.pythons

MAP = """
#########
#r  #  g#
#   #   #
#   #   #
### # ###
#       #
# ##### #
#b  >   #
#########
"""


def edit(row, column, char, text=MAP):
    lines = text.strip("\n").splitlines()
    lines[row] = lines[row][:column] + char + lines[row][column + 1 :]
    return "\n".join(lines)


def test_a_map_is_read():
    scenario = Scenario.from_text(MAP)
    assert scenario.size == 7
    assert scenario.objects == ((1, 1), (1, 7), (7, 1))
    assert [COLOR_NAMES[color] for color in scenario.colors] == ["red", "green", "blue"]
    assert scenario.spawns == ((7, 4),)
    assert scenario.heading == 0.0
    assert not scenario.complete, "textures and target draws are left open"


def test_indented_maps_and_dots_are_read():
    indented = "\n".join("    " + line for line in MAP.strip("\n").replace(" ", ".").splitlines())
    assert Scenario.from_text(indented) == Scenario.from_text(MAP)


def test_rooms_are_found():
    rooms = find_rooms(Scenario.from_text(MAP).walls)
    assert rooms[1] == ".AAA.BBB."
    assert rooms[3] == ".AAA.BBB."
    assert set("".join(rooms[4:])) == {"."}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (edit(0, 3, " "), r"cell \(0, 3\) is open: the outermost cells must be wall"),
        (edit(7, 4, " "), "no spawn"),
        (edit(5, 2, "?"), r"cell \(5, 2\): unknown character '\?'"),
        (edit(5, 2, "r"), r"cell \(5, 2\): there is a red object in cell \(1, 1\) already"),
        (edit(5, 2, "^", edit(5, 4, "<")), "only one of"),
        (edit(5, 2, "P"), "either one start with a heading"),
        (
            edit(4, 3, "#"),
            r"object 0 \(red\) in cell \(1, 1\) cannot be reached from the spawn in cell \(7, 4\)",
        ),
        ("\n".join(MAP.strip("\n").splitlines()[:-1]), "8 rows"),
        ("###\n#P#\n###", "odd number of rows from 9 to 33"),
        (edit(0, 8, ""), "row 0 has 8 cells"),
        (MAP.replace("r", " ").replace("g", " ").replace("b", " "), "from 1 to 6 objects: got 0"),
    ],
)
def test_impossible_maps_are_refused(text, message):
    with pytest.raises(ScenarioError, match=message):
        Scenario.from_text(text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"objects": ((0, 0), (1, 7), (7, 1))}, r"object 0 \(red\) is in cell \(0, 0\), which is wall"),
        ({"objects": ((1, 1), (1, 1), (7, 1))}, r"object 1 is in cell \(1, 1\), which holds another"),
        ({"objects": ((1, 1), (1, 99), (7, 1))}, r"cell \(1, 99\), outside the maze"),
        ({"objects": ((1, 1),)}, "1 objects and 3 colours"),
        ({"objects": ((1, 1),) * 99}, "99 objects do not fit: the maze has 36 free cells"),
        ({"colors": (0, 0, 1)}, "object 1 is red, and so is an earlier one"),
        ({"colors": (0, 1, 9)}, "colour 9"),
        ({"spawns": ((4, 0),)}, r"a spawn is in cell \(4, 0\), which is wall"),
        ({"heading": math.nan}, "finite angle"),
        ({"textures": ("blue",)}, "textures must name 9"),
        ({"textures": ("plaid",) * 9}, "unknown wall texture 'plaid'"),
        ({"draws": ()}, "at least the first target"),
        ({"draws": (0, 3)}, r"draws name objects \[3\]"),
        ({"hidden": (5,)}, r"hidden names objects \[5\]"),
        ({"rooms": ("A",)}, "rooms must have 9 rows"),
        ({"walls": ("x" * 9,) * 9}, "walls hold"),
    ],
)
def test_impossible_scenarios_are_refused(change, message):
    with pytest.raises(ScenarioError, match=message):
        dataclasses.replace(Scenario.from_text(MAP), **change)


def test_unconnected_spawns_are_refused():
    text = edit(4, 3, "#", MAP.replace("r", "P").replace(">", "P"))
    with pytest.raises(ScenarioError, match=r"cannot be reached|are not connected"):
        Scenario.from_text(text)
    with pytest.raises(ScenarioError, match=r"spawns in cells \(7, 4\) and \(1, 1\) are not connected"):
        dataclasses.replace(
            Scenario.from_text(edit(4, 3, "#", MAP.replace("r", " "))), spawns=((7, 4), (1, 1))
        )


@given(st.integers(0, 10**6), st.sampled_from([*TASKS, "7x7", "31x31"]))
def test_saving_and_loading_loses_nothing(tmp_path_factory, seed, name):
    task = TASKS.get(name) or make_task(int(name.split("x")[0]), 4)
    scenario = Sampler(task, seed).sample()
    path = tmp_path_factory.mktemp("scenario") / "maze.json"
    scenario.save(path)
    assert Scenario.load(path) == scenario
    assert list(path.parent.iterdir()) == [path]


def test_open_scenarios_are_saved_open(tmp_path):
    scenario = Scenario.from_text(MAP)
    scenario.save(tmp_path / "maze.json")
    assert Scenario.load(tmp_path / "maze.json") == scenario


def test_a_text_map_can_be_loaded(tmp_path):
    (tmp_path / "maze.txt").write_text(MAP)
    assert Scenario.load(tmp_path / "maze.txt") == Scenario.from_text(MAP)


def test_maps_are_written_as_they_are_read():
    scenario = Scenario.from_text(MAP.replace(">", "P"))
    assert Scenario.from_text(scenario.to_text()) == scenario


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.pop("format"), "not a scenario"),
        (lambda data: data.pop("walls"), "missing keys"),
        (lambda data: data.update(extra=1), "unknown keys"),
        (lambda data: data.update(objects=[1, 2]), "objects:"),
    ],
)
def test_broken_files_are_refused(tmp_path, change, message):
    data = Scenario.from_text(MAP).to_dict()
    change(data)
    (tmp_path / "maze.json").write_text(json.dumps(data))
    with pytest.raises(ScenarioError, match=message):
        Scenario.load(tmp_path / "maze.json")


def test_cut_off_files_are_refused(tmp_path):
    Scenario.from_text(MAP).save(tmp_path / "maze.json")
    text = (tmp_path / "maze.json").read_text()
    (tmp_path / "maze.json").write_text(text[: len(text) // 2])
    with pytest.raises(ScenarioError, match="neither a text map nor JSON"):
        Scenario.load(tmp_path / "maze.json")


def test_a_failed_save_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "maze.json"
    Scenario.from_text(MAP).save(path)
    before = path.read_text()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk is full")))
    with pytest.raises(OSError, match="disk is full"):
        Scenario.from_text(MAP.replace("r", " ")).save(path)
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


@given(st.integers(0, 10**6))
def test_filling_draws_only_what_is_open(seed):
    scenario = Scenario.from_text(MAP, start_anywhere=False)
    filled = scenario.fill(np.random.RandomState(seed), 50)
    assert filled.complete
    assert (filled.spawns, filled.heading) == (scenario.spawns, scenario.heading)
    assert filled.fill(np.random.RandomState(seed + 1), 50) == filled


def test_starting_anywhere():
    scenario = Scenario.from_text(MAP.replace(">", " "), start_anywhere=True)
    assert len(scenario.spawns) == 36 - 3
    starts = {scenario.fill(np.random.RandomState(seed), 5).spawns for seed in range(50)}
    assert len(starts) > 10
