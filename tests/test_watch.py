"""Watch: episodes of all sources, videos of them, and the page in a browser."""

import base64
import contextlib
import io
import json
import shutil
import threading
import time
from pathlib import Path

import imageio.v2 as imageio
import numpy as np
import pytest
import uvicorn
from PIL import Image
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.testclient import TestClient
from tiny_data import OBJECTS, STEPS, make_arrays, make_scenes, write_set

from memory_maze import data, palette, web
from memory_maze.agents.weights import save_agent
from memory_maze.cli import main
from memory_maze.data.collection import pack_trajectories
from memory_maze.data.npz import pack_trajectory
from memory_maze.data.scenes import read_scenes, to_bytes
from memory_maze.play.game import Game
from memory_maze.play.recordings import save_game
from memory_maze.probing import session
from memory_maze.probing.train import begin
from memory_maze.tasks import make_task
from memory_maze.watch import film, sources, trace
from memory_maze.watch.sources import Settings, SourceError, find_entries, find_pair
from memory_maze.web.watching import STRIP, Library, watch_routes
from memory_maze.world import COLOR_NAMES

SHORT = make_task(9, 3, seconds=12.5)  # 50 steps; all tests share a few programs of 9x9
LENGTH = 50


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """A walk of the oracle as a scene and as an NPZ file, and one by hand."""
    folder = tmp_path_factory.mktemp("sets")
    data.collect(folder / "scenes", "9x9", 1, steps=LENGTH, policy="oracle", evaluation=0)
    (folder / "npz").mkdir()
    (content,) = pack_trajectories(read_scenes(folder / "scenes" / "train-00000.npz"), "jax")
    (folder / "npz" / "0.npz").write_bytes(content)
    (folder / "hand").mkdir()
    (folder / "hand" / "0.npz").write_bytes(pack_trajectory(make_arrays(make_scenes([1]))))
    return folder


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """Two episodes of two people."""
    folder = tmp_path_factory.mktemp("recordings")
    played = []
    for player, seed in (("Ada", 3), ("Ben", 4)):
        game = Game(SHORT, seed, resolution=64)
        while not game.over:
            game.step((1, 1, 1, 4)[game.steps % 4])
        played.append(save_game(folder, game, player, pace=6.0))
        game.close()
    return folder, played


def load(word, **settings):
    (entry,) = find_entries(word, Settings(**settings))
    return entry.load()


# Episodes


def test_a_scene_and_its_files_say_the_same(sets):
    one, other = load(f"{sets}/scenes#0").describe(), load(f"{sets}/npz#0").describe()
    assert one.pop("name") != other.pop("name")
    asked = {target for _, target in one["targets"]}
    colors = [describe.pop("colors") for describe in (one, other)]
    assert all(colors[0][target] == colors[1][target] for target in asked)
    for key in ("positions", "headings"):
        assert np.allclose(one.pop(key), other.pop(key), atol=1.1e-3)
    assert one == other


def test_an_agent_says_the_same_as_the_data_that_it_made(sets):
    """The oracle plays in the maze of a recorded trajectory of its own."""
    words = [f"{sets}/scenes#0", "oracle"]
    recorded, agent = (entry.load() for entry in find_pair(words))
    one, other = recorded.describe(), agent.describe()
    assert one.pop("name") != other.pop("name")
    assert one == other
    assert one["steps"] == LENGTH
    assert one["score"] > 0


def test_a_description_by_hand():
    """The walk of tiny_data.py: right along the bottom row, a reward at the tenth action."""
    scenes = make_scenes([5])
    told = trace.trace_of_scene(scenes, 0, "by hand").describe()
    assert json.loads(json.dumps(told)) == told
    assert (told["name"], told["size"], told["steps"], told["score"]) == ("by hand", 7, STEPS, 1)
    assert told["layout"][:2] == [".......", ".#.#..."]
    assert told["objects"] == [[column + 0.5, row + 0.5] for column, row in OBJECTS]
    assert told["positions"][:3] == [[0.5, 0.5], [0.75, 0.5], [1.0, 0.5]]
    assert set(told["headings"]) == {0.0}
    assert told["targets"] == [[0, 0], [10, 1]]
    assert told["rewards"] == [[10, 1]]
    assert all(len(color) == 7 for color in told["colors"])


def test_answers_are_packed():
    made = trace.trace_of_scene(make_scenes([5]), 0, "x")
    walls = np.random.default_rng(0).random((STEPS + 1, 7, 7)) < 0.5
    places = np.random.default_rng(1).random((STEPS + 1, 3, 2)) * 7
    told = trace.dataclasses.replace(made, walls=walls, places=places).describe()
    bits = np.unpackbits(
        np.frombuffer(base64.b64decode(told["walls"]), np.uint8).reshape(STEPS + 1, -1), axis=1
    )
    assert np.array_equal(bits[:, :49].reshape(walls.shape), walls)
    assert np.allclose(told["places"], places, atol=0.006)


def test_pictures_are_those_of_the_data_set(sets):
    images = data.load(sets / "npz")[0]["image"]
    steps = [0, 3, LENGTH, 49]
    for kind in ("scenes", "npz"):
        pictures = load(f"{sets}/{kind}#0").pictures(steps)
        assert pictures.shape == (4, 64, 64, 3)
        assert np.array_equal(pictures, images[steps])


def test_steps_that_are_not_there_have_no_pictures(sets):
    made = load(f"{sets}/scenes#0")
    for steps in ([], [-1], [LENGTH + 1]):
        with pytest.raises(ValueError, match=f"0 to {LENGTH}"):
            made.pictures(steps)


def test_numbers_are_those_of_the_data_set(tmp_path):
    """Also of files without a description, of which those for evaluation are the last."""
    scenes = make_scenes([1, 2, 3])
    for index, place in enumerate(("eval/a", "train/b", "train/c")):
        path = tmp_path / f"{place}.npz"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(pack_trajectory(make_arrays(scenes, index)))
    dataset = data.load(tmp_path)
    entries = find_entries(str(tmp_path))
    assert len(entries) == 3
    for index, entry in enumerate(entries):
        assert np.allclose(entry.load().directions, dataset[index]["agent_dir"])


def test_data_sets_of_all_kinds_are_listed(tmp_path):
    write_set(tmp_path / "scenes")
    write_set(tmp_path / "npz", "npz")
    (tmp_path / "some.npz").write_bytes(to_bytes(make_scenes([1, 2])))
    for place, count in (("scenes", 10), ("npz", 10), ("some.npz", 2)):
        entries = find_entries(str(tmp_path / place))
        assert len(entries) == count, place
        assert len({entry.key for entry in entries}) == count
        assert entries[-1].load().steps == STEPS


def test_long_lists_end(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "LISTED", 4)
    write_set(tmp_path / "set")
    assert len(find_entries(str(tmp_path / "set"))) == 4
    assert load(f"{tmp_path}/set#9").steps == STEPS


def test_listing_plays_and_reads_nothing(tmp_path, monkeypatch):
    write_set(tmp_path / "set")

    def fail(*_):
        raise AssertionError("this is for later")

    for name in ("load_policy", "read_part", "_play"):
        monkeypatch.setattr(sources, name, fail)
    assert find_entries("impala-9x9")[0].task == "9x9"
    assert find_entries("impala-11x11")[0].steps == 2000
    assert find_entries(f"{tmp_path}/set")[0].steps == STEPS


def test_a_recording_is_what_was_seen(recordings):
    folder, (first, second) = recordings
    one, other = find_entries(str(folder))
    assert (one.name, one.kind, one.score, one.steps) == ("Ada, 9x9, seed 3", "person", first.score, LENGTH)
    made = other.load()
    stored = np.load(folder / second.places["npz"])
    assert np.array_equal(made.pictures(range(LENGTH + 1)), stored["image"])
    assert [step for step, _ in made.describe()["rewards"]] == list(second.reward_steps)


def test_a_recording_without_its_pictures_is_drawn(recordings, tmp_path):
    folder, (_, second) = recordings
    shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "copy" / second.places["npz"]).unlink()
    one, other = load(f"{folder}#1"), load(f"{tmp_path}/copy#1")
    assert np.array_equal(one.pictures(range(LENGTH + 1)), other.pictures(range(LENGTH + 1)))


def test_an_agent_plays_beside_a_person(recordings):
    folder, _ = recordings
    person, agent = (entry.load() for entry in find_pair(["random", f"{folder}#1"])[::-1])
    assert person.steps == agent.steps == LENGTH
    assert np.array_equal(person.layout, agent.layout)
    assert np.array_equal(person.objects, agent.objects)
    assert np.array_equal(person.positions[0], agent.positions[0])
    assert not np.array_equal(person.positions, agent.positions)


def test_two_agents_are_in_the_same_maze():
    settings = Settings(seed=5, steps=LENGTH)
    one, other = (entry.load() for entry in find_pair(["random", "oracle"], settings))
    assert np.array_equal(one.layout, other.layout)
    assert np.array_equal(one.objects, other.objects)
    assert np.array_equal(one.positions[0], other.positions[0])
    assert one.targets[0] == other.targets[0]
    assert not np.array_equal(one.positions, other.positions)
    elsewhere = load("random#6", steps=LENGTH)
    assert not np.array_equal(one.layout, elsewhere.layout)


def test_agents_play_the_task_of_the_trained_one():
    assert [entry.task for entry in find_pair(["oracle", "impala-11x11"])] == ["11x11", "11x11"]
    one, other = find_pair(["oracle", "impala-11x11"])
    assert one.maze is not None
    assert one.maze == other.maze


def test_probes_answer_along_a_trajectory(tmp_path):
    write_set(tmp_path / "set", "npz")
    dataset = data.load(tmp_path / "set", "eval")
    run = session.make_run("vae-gru", "debug", steps=1)
    learning = begin(run, dataset.size, dataset.objects)
    parts = {"model": learning.model, "probes": learning.probes}
    save_agent(tmp_path / "run", parts, run.describe(dataset))
    with pytest.raises(SourceError, match="--data"):
        find_entries(str(tmp_path / "run"))
    made = load(f"{tmp_path}/run#1", data=str(tmp_path / "set"))
    assert made.walls.shape == (STEPS + 1, 7, 7)
    assert made.places.shape == (STEPS + 1, 3, 2)
    assert np.array_equal(made.pictures([0, 7]), dataset[1]["image"][[0, 7]])
    assert {"walls", "places"} < made.describe().keys()


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("nothing", "unknown source.*oracle.*impala-9x9"),
        ("oracle#x", "a number from 0 after #"),
        ("{set}#10", "trajectory 10 is out of range: there are 10"),
        ("{folder}", "no trajectories|no NPZ"),
        ("{folder}/text.txt", "text.txt"),
        ("no.module:name", "unknown policy"),
    ],
)
def test_what_is_nothing_is_refused(tmp_path, word, message):
    write_set(tmp_path / "set")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "text.txt").write_text("text")
    word = word.format(set=tmp_path / "set", folder=tmp_path / "empty")
    with pytest.raises(ValueError, match=message):
        find_entries(word)[0].load()


# Videos


def write(folder, *arguments):
    main(["video", *map(str, arguments)])
    return imageio.get_reader(folder / "a.mp4") if (folder / "a.mp4").exists() else None


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
def test_files_have_the_frames_that_are_asked_for(sets, tmp_path):
    mp4, gif = tmp_path / "a.mp4", tmp_path / "a.gif"
    with write(tmp_path, f"{sets}/scenes#0", "--out", mp4, gif, "--steps", "10:40") as video:
        assert video.count_frames() == 31
        assert video.get_meta_data()["size"] == (2 * 448 + 3 * 16, 32 + 448 + 48)
        assert video.get_meta_data()["fps"] == 12
        last = video.get_data(30)
    seen = load(f"{sets}/scenes#0").pictures([40])[0].repeat(7, axis=0).repeat(7, axis=1)
    shown = last[32:480, 16:464].astype(int)
    assert np.abs(shown - seen).mean() < 8  # the codec is not exact
    with Image.open(gif) as picture:
        assert (picture.format, picture.n_frames, picture.size) == ("GIF", 16, (2 * 256 + 48, 32 + 256 + 48))
        picture.seek(15)
        shown = np.asarray(picture.convert("RGB"))[32:288, 16:272].astype(int)
    assert np.abs(shown - seen[::7, ::7].repeat(4, axis=0).repeat(4, axis=1)).mean() < 12
    assert gif.stat().st_size < 1_000_000


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
def test_two_agents_side_by_side(tmp_path, capsys):
    out = ["--out", tmp_path / "a.mp4", "--steps", LENGTH, "--every", "10", "--fps", "6"]
    with write(tmp_path, "oracle", "random", *out) as video:
        assert video.count_frames() == 6
        assert video.get_meta_data()["fps"] == 6
        first = video.get_data(0).astype(int)
    width = first.shape[1] // 2
    assert np.abs(first[32:352, 16:width] - first[32:352, width + 8 :][:, : width - 16]).mean() < 2
    assert "oracle" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["oracle", "--out", "a.avi"], "end in .mp4 or .gif"),
        (["oracle", "--steps", "9:3"], "steps must be a number"),
        (["oracle", "--every", "0"], "every must be positive"),
        (["oracle", "--fps", "0"], "fps must be"),
        (["nothing"], "unknown source"),
    ],
)
def test_wrong_videos_are_refused(arguments, message, capsys):
    with pytest.raises(SystemExit):
        main(["video", *arguments])
    assert message in capsys.readouterr().err


def test_a_shorter_episode_waits_at_its_end():
    scenes = [make_scenes([5], steps=steps) for steps in (10, 14)]
    short, long = (trace.trace_of_arrays(make_arrays(scene), "x") for scene in scenes)
    frames = list(film.draw_frames([short, long], film.Cut().steps([short, long]), film._SIDES))
    assert len(frames) == 15
    left = [frame[:, : frame.shape[1] // 2 - 8] for frame in frames]
    assert not np.array_equal(left[9], left[10])
    assert np.array_equal(left[10], left[14])


# The server


def fill(recordings, sets):
    folder, played = recordings
    library = Library()
    ids = library.add_sources([f"{sets}/{kind}#0" for kind in ("scenes", "npz", "hand")])
    own = [
        library.add_recording(folder, one.id, owner=owner)
        for one, owner in zip(played, ("ada", "ben"), strict=True)
    ]
    return library, ids, own


def make_app(library):
    routes = watch_routes(library, lambda request: request.cookies.get("viewer"))
    static = StaticFiles(directory=Path(web.__file__).parent / "static")
    return Starlette(routes=[*routes, Mount("/static", static)], middleware=[Middleware(Strict)])


class Strict:
    """The policy that the server sends."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        async def guarded(message):
            if message["type"] == "http.response.start":
                policy = b"default-src 'self'; img-src 'self' blob: data:"
                message["headers"] = [*message["headers"], (b"content-security-policy", policy)]
            await send(message)

        await self.app(scope, receive, guarded)


@pytest.fixture
def client(recordings, sets):
    library, ids, own = fill(recordings, sets)
    with TestClient(make_app(library)) as client:
        client.ids, client.own, client.library = ids, own, library
        yield client


def test_routes_tell_of_episodes(client, sets):
    assert "/static/watch.js" in client.get("/watch").text
    listed = client.get("/api/watch").json()
    assert [one["id"] for one in listed] == client.ids
    assert listed[0].items() >= {"kind": "data", "task": "9x9", "steps": LENGTH, "score": None}.items()
    told = client.get(f"/api/watch/{client.ids[0]}").json()
    expected = load(f"{sets}/scenes#0")
    assert told == expected.describe()
    assert client.get("/api/watch").json()[0]["score"] == told["score"]  # it is known now
    assert str(sets) not in client.get("/api/watch").text


def test_strips_are_pictures_side_by_side(client, sets):
    expected = load(f"{sets}/scenes#0").pictures(range(LENGTH + 1))
    for query, first, count in (("", 0, 51), ("?from=7&count=3", 7, 3), ("?from=50", 50, 1)):
        answer = client.get(f"/api/watch/{client.ids[0]}/pictures{query}")
        assert answer.headers["content-type"] == "image/png"
        assert answer.headers["cache-control"] == "private, max-age=3600"
        strip = np.asarray(Image.open(io.BytesIO(answer.content)))
        assert strip.shape == (64, 64 * count, 3)
        pictures = strip.reshape(64, count, 64, 3).swapaxes(0, 1)
        assert np.array_equal(pictures, expected[first : first + count])


@pytest.mark.parametrize("id", ["0", "../../etc/passwd", "%2e%2e%2f", "x" * 5000, "__class__", "\u2603"])
def test_unknown_ids(client, id):
    for end in ("", "/pictures"):
        answer = client.get(f"/api/watch/{id}{end}")
        assert answer.status_code == 404
        assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "query",
    ["from=-1", "from=51", "from=x", "from=1e3", "from=%C2%B2", f"count={STRIP + 1}", "count=0", "from="],
)
def test_wrong_numbers(client, query):
    answer = client.get(f"/api/watch/{client.ids[0]}/pictures?{query}")
    assert answer.status_code == 400
    assert "must be a number" in answer.json()["error"]


def test_others_episodes_are_out_of_reach(client):
    """Of people who are not known, and of each other."""
    ada, ben = client.own
    for viewer, seen in ((None, []), ("ada", [ada]), ("ben", [ben]), ("eve", [])):
        client.cookies.clear()
        if viewer:
            client.cookies.set("viewer", viewer)
        assert [one["id"] for one in client.get("/api/watch").json() if one["own"]] == seen
        for id in client.own:
            for end in ("", "/pictures"):
                status = client.get(f"/api/watch/{id}{end}").status_code
                assert status == (200 if id in seen else 404), (viewer, end)


def test_ids_are_the_same_after_a_restart(recordings, sets, client):
    assert fill(recordings, sets)[1:] == (client.ids, client.own)
    assert len({*client.ids, *client.own}) == 5


def test_what_is_damaged_is_told_without_details(tmp_path):
    path = tmp_path / "secret-folder" / "some.npz"
    path.parent.mkdir()
    path.write_bytes(to_bytes(make_scenes([1])))
    library = Library()
    (id,) = library.add_source(str(path))
    path.write_bytes(b"no longer")
    with TestClient(make_app(library)) as client:
        answer = client.get(f"/api/watch/{id}")
    assert answer.status_code == 500
    assert answer.json().keys() == {"error"}
    assert "secret" not in answer.text


def test_two_who_ask_at_once_make_it_be_played_once(sets):
    library, made = Library(), []
    (entry,) = find_entries(f"{sets}/npz#0")

    def make(advance):
        made.append(1)
        time.sleep(0.1)
        return entry.make(advance)

    id = library.add(sources.dataclasses.replace(entry, make=make))
    threads = [threading.Thread(target=library.read, args=(id, None)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


# The page


@contextlib.contextmanager
def serving(app):
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.02)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def view_of(page, side):
    """The picture on a canvas, (64, 64, 3)."""
    pixels = page.eval_on_selector(
        f"#panel-{side} .view",
        "canvas => [...canvas.getContext('2d').getImageData(0, 0, 64, 64).data]",
    )
    return np.array(pixels, np.uint8).reshape(64, 64, 4)[..., :3]


def wait_for(page, side, step):
    page.wait_for_selector(f'#panel-{side} .view[data-step="{step}"]:not(.late)')


def test_the_page_shows_what_is_asked_for(browser, recordings, sets):
    library, ids, _ = fill(recordings, sets)
    expected = load(f"{sets}/scenes#0")
    pictures = expected.pictures(range(LENGTH + 1))
    rewards = int(expected.rewards.sum())
    problems = []
    with serving(make_app(library)) as address:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.goto(f"{address}/watch#a={ids[0]}&t=12")
        wait_for(page, "a", 12)
        assert np.array_equal(view_of(page, "a"), pictures[12])
        assert page.locator("#marks-a i").count() == rewards > 0
        assert page.locator("#panel-b").is_hidden()

        # Drag to the middle of the time line.
        box = page.locator("#time").bounding_box()
        page.mouse.move(box["x"] + 20, box["y"] + box["height"] / 2)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=4)
        page.mouse.up()
        wait_for(page, "a", 25)
        assert np.array_equal(view_of(page, "a"), pictures[25])
        page.keyboard.press("ArrowRight")
        wait_for(page, "a", 26)
        page.keyboard.press("End")
        wait_for(page, "a", LENGTH)
        assert page.locator("#panel-a .score").inner_text() == f"score {rewards}"

        # Space plays and pauses.
        page.keyboard.press("Home")
        wait_for(page, "a", 0)
        page.select_option("#speed", "8")
        page.locator("#play").focus()
        page.keyboard.press(" ")
        wait_for(page, "a", LENGTH)
        page.keyboard.press(" ")
        page.wait_for_selector("#play >> text=Pause")
        page.keyboard.press(" ")
        page.wait_for_selector("#play >> text=Play")

        # Two beside each other, and a link to it.
        page.select_option("#choice-b", ids[1])
        page.locator("#panel-b").wait_for()
        page.keyboard.press("Home")
        page.locator("#marks-a i").first.click()
        found = int(np.argmax(expected.rewards)) + 1
        for side in "ab":
            wait_for(page, side, found)
            assert np.array_equal(view_of(page, side), pictures[found])
            assert page.locator(f"#marks-{side} i").count() == rewards
        page.wait_for_url(f"**/watch#a={ids[0]}&b={ids[1]}&t={found}")
        page.select_option("#choice-b", ids[2])
        page.wait_for_selector("#message >> text=different mazes")
        assert not problems


def test_the_page_fits_a_phone(browser, recordings, sets):
    library, ids, own = fill(recordings, sets)
    with serving(make_app(library)) as address:
        context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
        context.add_cookies([{"name": "viewer", "value": "ben", "url": address}])
        page = context.new_page()
        page.goto(f"{address}/watch#a={ids[0]}&b={ids[1]}&t=12")
        wait_for(page, "b", 12)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        for name in ("#play", "#time", "#panel-a .view", "#panel-b .map"):
            assert page.locator(name).bounding_box()["y"] < 844
        page.locator("#forth").tap()
        wait_for(page, "b", 13)
        # Another's episode is as if it were not there; one's own is.
        page.goto("about:blank")
        page.goto(f"{address}/watch#a={own[0]}")
        page.wait_for_selector("#message >> text=not there")
        page.select_option("#choice-a", own[1])
        page.wait_for_selector("#panel-a .name >> text=Ben")
        context.close()


def test_pages_have_the_colours_of_the_other_maps():
    static = Path(web.__file__).parent / "static"
    maps, pages = ((static / name).read_text() for name in ("watch-map.js", "api.js"))
    for name in ("INK", "WALL", "FLOOR", "FALSE_WALL", "FALSE_FLOOR"):
        assert '{} = "#{:02x}{:02x}{:02x}"'.format(name, *getattr(palette, name)) in maps
    for name, color in zip(COLOR_NAMES, palette.OBJECTS, strict=True):
        assert '{}: "#{:02x}{:02x}{:02x}"'.format(name, *color) in pages
