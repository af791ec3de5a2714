"""A study's players, places, scores and shows; without a network."""

import asyncio
import contextlib
import dataclasses
import os
import random
import shutil
import sqlite3
import time

import pytest
from conftest import GOLDEN
from serving import unpack
from starlette.testclient import TestClient

from memory_maze.assets import AGENTS
from memory_maze.data.npz import Files, Member
from memory_maze.options import DEFAULT
from memory_maze.play.game import Game
from memory_maze.play.recordings import EPISODES, read_recordings, save_game
from memory_maze.tasks import parse_task
from memory_maze.variants import parse_options
from memory_maze.web import lobby
from memory_maze.web.app import PLAYER, Settings, make_app
from memory_maze.web.live import Live, encode
from memory_maze.web.store import DONE, OPEN, SAVED, Store
from memory_maze.web.watching import Library

TASK = parse_task("7x7")
SHORT = dataclasses.replace(TASK, seconds=2.0)  # eight steps


def opening(folder, library=None, **settings):
    """A page of a new server."""
    app = make_app(Settings(folder, **{"tasks": (TASK,)} | settings), library)
    return TestClient(app, "http://localhost", headers={"Origin": "http://localhost"})


def of(key):
    return {"Cookie": f"{PLAYER}={key}"}


def begin(client, key):
    return client.post("/api/episodes", json={"task": "7x7", "practice": False}, headers=of(key)).status_code


def play(client, key):
    return client.websocket_connect("ws://localhost/api/play", headers=of(key))


def ask_me(client, key):
    return client.get("/api/me", headers=of(key)).json()


def wait_until(condition, seconds=30):
    limit = time.time() + seconds
    while not (found := condition()):
        assert time.time() < limit, "it does not happen"
        time.sleep(0.01)
    return found


@pytest.fixture
def store(tmp_path):
    """Of the study in `tmp_path`."""
    store = Store(tmp_path / "players.sqlite")
    yield store
    store.close()


def add_episode(store, player, score=0, task=TASK, state=SAVED, practice=False, steps=0, options=DEFAULT):
    episode = store.begin(player.id, task, options, 314, practice, 60.0)
    for _ in range(steps):
        store.add_action(episode.id, 1, score)
    store._run("UPDATE episodes SET score = ? WHERE id = ?", score, episode.id)
    if state != OPEN:
        store.set_state(episode.id, state)
    return episode


def test_who_finds_no_place_loses_neither_the_open_game_nor_a_maze(tmp_path, store):
    (first, _), (second, waiting) = store.add_player("Anna"), store.add_player("Ben")
    before = add_episode(store, waiting, state=OPEN, steps=3)
    with opening(tmp_path, players=1, seed=700) as client:
        assert begin(client, first) == 201
        for _ in range(3):
            assert begin(client, second) == 503
        told = ask_me(client, second)["open"]
        assert (told["id"], told["steps"]) == (before.id, 3)
        assert begin(client, first) == 201  # whose place it is
    with opening(tmp_path, players=1, seed=700) as client:
        assert begin(client, second) == 201
    assert store.open_episode(waiting.id).seed == 701


def test_a_game_that_nobody_looks_at_gives_its_place(tmp_path, store, monkeypatch):
    (first, _), (second, _) = store.add_player("Anna"), store.add_player("Ben")
    with opening(tmp_path, players=1) as client:
        assert begin(client, first) == 201
        with play(client, first) as page:
            page.receive_bytes()
            monkeypatch.setattr("memory_maze.web.live.ABSENCE", 0.0)
            assert begin(client, second) == 503
        wait_until(lambda: begin(client, second) == 201)
        with play(client, first) as page:  # it takes a place in turn
            assert unpack(page.receive_bytes())[0]["episode"] == ask_me(client, first)["open"]["id"]


def test_an_episode_whose_last_step_is_made_is_kept_whatever_its_player_does(tmp_path, store, monkeypatch):
    key, player = store.add_player("Ben")
    episode = add_episode(store, player, task=SHORT, state=OPEN, steps=7)
    show = Live._show

    async def show_slowly(live, due):
        await show(live, due)
        if live.game.over:
            await asyncio.sleep(30)

    monkeypatch.setattr(Live, "_show", show_slowly)
    with opening(tmp_path, pace=60) as client:
        with play(client, key) as page:
            page.receive_bytes()
            page.send_text('{"pause": false}')
            while not unpack(page.receive_bytes())[0]["over"]:
                pass
            assert begin(client, key) == 201
        assert [one["id"] for one in ask_me(client, key)["done"]] == [episode.id]
    (played,) = read_recordings(tmp_path / "recordings")
    assert (played.id, played.steps) == (episode.id, 8)


def test_a_game_that_fails_goes_on_from_what_is_stored(tmp_path, store, monkeypatch, caplog):
    key, player = store.add_player("Ben")
    add_episode(store, player, state=OPEN, steps=3)
    add_action = Store.add_action

    def fail(*_):
        raise sqlite3.OperationalError("database or disk is full")

    with opening(tmp_path, pace=60) as client:
        with play(client, key) as page:
            page.receive_bytes()
            monkeypatch.setattr(Store, "add_action", fail)
            page.send_text('{"pause": false}')
            assert page.receive()["code"] == 1011
        assert "database or disk is full" in caplog.text
        monkeypatch.setattr(Store, "add_action", add_action)
        with play(client, key) as page:
            assert unpack(page.receive_bytes())[0]["step"] == 3


def test_an_episode_that_was_finished_but_not_saved_is_saved_by_the_next_server(tmp_path, store):
    _, player = store.add_player("Ben")
    game = Game(SHORT, 314, resolution=64, actions=[1] * 8)
    episode = add_episode(store, player, game.score, SHORT, DONE, steps=8)
    with opening(tmp_path) as client:
        assert client.get("/api/me").status_code == 200
    (played,) = read_recordings(tmp_path / "recordings")
    assert (played.id, played.player, played.score) == (episode.id, "Ben", game.score)
    assert Files([Member(tmp_path / "recordings" / played.places["npz"])]).read_whole(0)["reward"].sum() == 1


def test_a_flood_is_stopped_for_its_source(tmp_path):
    with opening(tmp_path, requests=2) as client:
        statuses = [client.get("/api/me").status_code for _ in range(40)]
    assert statuses[:10] == [200] * 10
    assert statuses[-1] == 429


def board_of(client, title="7x7"):
    rows = client.get("/api/board").json()[title]
    return [tuple(row[key] for key in ("name", "mean", "best", "episodes")) for row in rows]


def test_the_board_counts_finished_episodes_whatever_becomes_of_recordings(tmp_path, store):
    (_, anna), (_, ben) = store.add_player("Anna"), store.add_player("Ben")
    for score in (3, 4, 8):
        add_episode(store, anna, score)
    add_episode(store, ben, 9)
    add_episode(store, ben, 50, practice=True)
    add_episode(store, ben, 60, state=OPEN)  # and then left
    add_episode(store, ben, 70, state=OPEN)
    with opening(tmp_path) as client:
        assert board_of(client) == [("Ben", 9, 9, 1), ("Anna", 5, 8, 3)]
        add_episode(store, anna, 25)
        new = [("Anna", 10, 25, 4), ("Ben", 9, 9, 1)]
        assert board_of(client) == new
        game = Game(SHORT, 314, resolution=64, actions=[1] * 8)
        played = save_game(tmp_path / "recordings", game, "Ben", pace=6.0)
        (tmp_path / "recordings" / EPISODES / f"{played.id}.json").write_bytes(b"{")
        assert board_of(client) == new
        store.rename(anna.id, "Anne")
        assert board_of(client)[0][0] == "Anne"


def test_each_variant_has_a_board_of_its_own_and_the_paper_stands_beside_none(tmp_path, store):
    _, anna = store.add_player("Anna")
    nine, vis = parse_task("9x9"), parse_options("Vis")
    add_episode(store, anna, 3, nine)
    for score in (8, 10):
        add_episode(store, anna, score, nine, options=vis)
    add_episode(store, anna, 20, dataclasses.replace(nine, objects=2), options=vis)
    with opening(tmp_path, tasks=(nine,), options=vis) as client:
        (told,) = client.get("/api/me").json()["tasks"]
        assert (told["name"], told["paper"]) == ("9x9, Vis", [])
        board = client.get("/api/board").json()
        assert sorted(board) == ["9x9", "9x9, Vis", "9x9, Vis, 2 objects"]
        assert {row["kind"] for row in board["9x9, Vis"]} == {"player"}
        assert board_of(client, "9x9, Vis") == [("Anna", 9, 10, 2)]
        assert board_of(client, "9x9, Vis, 2 objects") == [("Anna", 20, 20, 1)]
    with opening(tmp_path, tasks=(nine,)) as client:
        board = client.get("/api/board").json()
        assert [row["mean"] for row in board["9x9"] if row["kind"] == "player"] == [3]
        assert "human" in {row["kind"] for row in board["9x9"]}
    with opening(tmp_path) as client:
        assert "human" in {row["kind"] for row in client.get("/api/board").json()["9x9"]}


def test_a_study_of_before_there_were_variants_goes_on(tmp_path):
    """A file of the version that stored no variants: Anna has played to the end, Ben 12 steps."""
    shutil.copy(GOLDEN / "players-1.sqlite", tmp_path / "players.sqlite")
    ben = "0125d075e23deea5392027970d04c9cd"
    for _ in range(2):  # once it is an old file, and then a new one
        with opening(tmp_path, options=parse_options("Vis")) as client:
            begun = ask_me(client, ben)["open"]
            assert (begun["task"], begun["steps"], begun["score"]) == ("7x7", 12, 1)
            assert board_of(client) == [("Anna", 1, 1, 1)]
            assert board_of(client, "7x7, Vis") == []
            with play(client, ben) as page:
                told, picture = unpack(page.receive_bytes())
        assert told["step"] == 12
        assert picture == encode(Game(TASK, 314, resolution=64, actions=[1] * 12).picture(256))
    with contextlib.closing(Store(tmp_path / "players.sqlite")) as store:
        check_that_boards_read_no_episode(store)
        player = store.find_player(ben)
        add_episode(store, player, 5, options=parse_options("Vis"))
        assert [one.title for one in store.episodes(SAVED)] == ["7x7", "7x7, Vis"]


def test_the_variant_is_compiled_before_anybody_plays(tmp_path, monkeypatch):
    compiled, vis = [], parse_options("Vis")
    monkeypatch.setattr(lobby, "Game", lambda task, seed, **keywords: compiled.append((task, keywords)))
    with opening(tmp_path, tasks=(SHORT,), options=vis):
        wait_until(lambda: compiled)
    ((task, keywords),) = compiled
    assert (task, keywords["options"]) == (SHORT, vis)


def test_the_board_reads_no_episode(store):
    check_that_boards_read_no_episode(store)


def check_that_boards_read_no_episode(store):
    """Their actions would be read with them."""
    statements = []
    store._base.set_trace_callback(statements.append)
    store.standings()
    store._base.set_trace_callback(None)
    plan = [row["detail"] for row in store._run(f"EXPLAIN QUERY PLAN {statements[-1]}")]
    assert "COVERING INDEX scores" in plan[0]


# Folders of strangers


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Two episodes."""
    folder = tmp_path_factory.mktemp("recordings")
    for seed in (314, 315):
        game = Game(SHORT, seed, resolution=64, actions=[1] * 8)
        save_game(folder, game, "Eve", pace=6.0, id=f"20260101T000000-0000{seed:04}")
    return folder


def copy_of(recorded, folder):
    for path in recorded.rglob("*.*"):
        new = folder / path.relative_to(recorded)
        new.parent.mkdir(parents=True, exist_ok=True)
        new.write_bytes(path.read_bytes())
    return sorted(path for path in folder.rglob("*.*") if "314" in path.name)


def replace_by_pipe(path):
    path.unlink()
    os.mkfifo(path)


def replace_by_huge(path):
    with path.open("wb") as file:
        file.truncate(1 << 40)  # of zeros that take no room


@pytest.mark.timeout(60)
@pytest.mark.parametrize("spoil", [replace_by_pipe, replace_by_huge])
@pytest.mark.parametrize("kind", [EPISODES, "npz", "scenes"])
def test_a_strangers_pipes_and_huge_files_stop_no_show(recorded, tmp_path, spoil, kind):
    paths = copy_of(recorded, tmp_path / "shown")
    spoil(next(path for path in paths if kind in path.parts))
    library = Library()
    library.add_sources([str(tmp_path / "shown")])
    with opening(tmp_path, library) as client:
        shown = client.get("/api/watch").json()
        assert len(shown) == (1 if kind == EPISODES else 2)
        answers = [client.get(f"/api/watch/{one['id']}").status_code for one in shown]
    drawn_again = (kind, spoil) == ("npz", replace_by_pipe)
    assert answers == ([200] if kind == EPISODES else [200 if drawn_again else 500, 200])


def test_a_strangers_damaged_files_are_refused_one_by_one(recorded, tmp_path, caplog):
    rng = random.Random(0)
    paths = copy_of(recorded, tmp_path / "shown")
    contents = {path: path.read_bytes() for path in paths}
    for _ in range(60):
        path = rng.choice(paths)
        data = bytearray(contents[path])
        for place in rng.sample(range(len(data)), rng.choice((1, 8))):
            data[place] = rng.randrange(256)
        path.write_bytes(data)
        library = Library()
        library.add_sources([str(tmp_path / "shown")])
        with opening(tmp_path, library) as client:
            shown = client.get("/api/watch").json()
            assert "seed 315" in shown[-1]["name"]
            for one in shown:
                assert client.get(f"/api/watch/{one['id']}").status_code in (200, 500)
                assert client.get(f"/api/watch/{one['id']}/pictures?count=2").status_code in (200, 500)
            assert client.get(f"/api/watch/{shown[-1]['id']}").status_code == 200
            assert client.get("/api/watch").status_code == 200
        path.write_bytes(contents[path])


def test_a_folder_with_nothing_but_damage_is_named(recorded, tmp_path):
    for path in copy_of(recorded, tmp_path) + sorted((tmp_path / EPISODES).iterdir()):
        path.write_bytes(b"{")
    with pytest.raises(ValueError, match="not the record of an episode"):
        Library().add_sources([str(tmp_path)])


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["config.json", "agent.safetensors"])
@pytest.mark.parametrize("kind", ["a pipe", "huge"])
def test_agents_of_strangers_are_refused_by_name(tmp_path, name, kind):
    shutil.copytree(AGENTS / "impala-9x9", tmp_path / "agent")
    (tmp_path / "agent" / name).unlink()
    if kind == "huge":
        (tmp_path / "agent" / name).touch()
        os.truncate(tmp_path / "agent" / name, 1 << 40)
    else:
        os.mkfifo(tmp_path / "agent" / name)
    library = Library()
    with pytest.raises((ValueError, OSError), match=name if kind == "a pipe" else "agent"):
        library.read(library.add_source(str(tmp_path / "agent"))[0], None)
