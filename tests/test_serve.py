"""People play in a real browser against a real server."""

import concurrent.futures
import contextlib
import io
import itertools
import json
import math
import random
import socket
import statistics
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from pictures import look_same
from PIL import Image
from serving import open_page, serving, unpack
from websockets.exceptions import ConnectionClosed

from memory_maze.commands import serve
from memory_maze.commands.environment import Variant
from memory_maze.data.npz import Files, Member
from memory_maze.options import ACTION_NAMES
from memory_maze.play.game import Game
from memory_maze.play.recordings import read_recordings
from memory_maze.tasks import parse_task
from memory_maze.variants import parse_options
from memory_maze.web.guard import Bucket

AHEAD = 314  # of this seed, the first object is eight steps ahead
EPISODE = parse_task("7x7").episode_steps()


def wait_until(condition, seconds=30):
    limit = time.time() + seconds
    while not (found := condition()):
        assert time.time() < limit, "it does not happen"
        time.sleep(0.05)
    return found


def enter(page, server, name="Anna"):
    page.goto(server.url)
    page.fill("#name", name)
    page.click("#naming button")
    page.wait_for_selector("#sizes .size")


def start_game(page, practice=False):
    page.click(f"button[data-task='7x7'][data-practice='{str(practice).lower()}']")
    page.wait_for_selector("#veil-button", state="visible", timeout=60_000)


def step_of(page):
    return int(page.get_attribute("#view", "data-step"))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A fast one for all tests that need no other; each has players of its own."""
    out = tmp_path_factory.mktemp("study")
    options = ["--tasks", "7x7", "--seed", str(AHEAD), "--pace", "60", "--requests", "10000"]
    with serving(out, *options) as server:
        server.recordings = out / "recordings"
        yield server
    failures = [index for index, line in enumerate(server.log) if "Traceback" in line]
    assert not failures, "".join(server.log[failures[0] :])


PIXELS = """() => {
  const view = document.getElementById("view");
  return [Number(view.dataset.step), [...view.getContext("2d").getImageData(0, 0, 64, 64).data]];
}"""


def find_played(server, player):
    """What is recorded of a player, once it is."""
    if not server.recordings.exists():
        return None
    return next((one for one in read_recordings(server.recordings) if one.player == player), None)


def test_keys_move_the_ball_to_an_object_and_the_recording_is_what_was_seen(server, browser):
    page = open_page(browser)
    enter(page, server, "Carl")
    start_game(page)
    page.click("#sharp")
    page.wait_for_selector("#view[width='64']")
    page.keyboard.down("ArrowUp")
    page.wait_for_selector("#view[data-score='1']", timeout=20_000)
    assert page.inner_text("#score") == "1"
    page.keyboard.down("ArrowLeft")
    wait_until(lambda: step_of(page) > 100)
    page.keyboard.up("ArrowUp")
    seen = {}
    while not seen or max(seen) < EPISODE:
        step, values = page.evaluate(PIXELS)
        seen[step] = np.array(values, np.uint8).reshape(64, 64, 4)[..., :3]
    page.wait_for_selector("text=The time is up")
    score = int(page.inner_text("#score"))
    page.click("#veil-button")
    page.wait_for_selector("#history td")
    assert page.inner_text("#board tr.mine td:nth-child(2)") == f"{score}.0"
    assert not page.complaints
    played = wait_until(lambda: find_played(server, "Carl"))
    assert (played.score, played.seed, played.practice) == (score, AHEAD, False)
    assert 8 <= played.reward_steps[0] <= 12
    arrays = Files([Member(server.recordings / played.places["npz"])]).read_whole(0)
    made = {ACTION_NAMES[index] for index in arrays["action"][1:].argmax(axis=1)}
    assert {"forward", "forward_left", "left"} <= made
    assert arrays["reward"].sum() == score
    assert len(seen) > 10  # fewer than the steps where the machine is busy
    for step, picture in seen.items():
        assert look_same(picture, arrays["image"][step]), f"picture {step}"


def test_a_reload_and_a_killed_server_lose_nothing(tmp_path):
    with serving(tmp_path, "--tasks", "7x7", "--seed", str(AHEAD), "--pace", "10") as server:
        cookie = server.new_player()
        episode = server.begin(cookie)
        with server.socket(cookie) as game:
            unpack(game.recv())
            game.send('{"pause": false}')
            game.send('{"keys": 1}')
            while (told := unpack(game.recv())[0])["step"] < 12:
                game.send(json.dumps({"seen": told["picture"]}))
        with server.socket(cookie) as game:  # as after a reload
            again, picture = unpack(game.recv())
        assert again["step"] >= told["step"]
        assert again["paused"]
        assert again["score"] == 1
        time.sleep(0.5)
        server.stop(kill=True)
    with serving(tmp_path, "--tasks", "7x7", "--pace", "10") as server:
        assert server.ask("/api/me", cookie=cookie)[1]["open"]["id"] == episode["id"]
        with server.socket(cookie) as game:
            later, same_picture = unpack(game.recv())
    for key in ("step", "score", "left", "color"):
        assert later[key] == again[key]
    assert same_picture == picture


SHORT_VIS = "7x7, Vis, 40 steps"


@pytest.mark.slow  # its page is tested with a browser, its going on with the usual task
def test_a_game_goes_on_in_its_own_variant_and_is_recorded_as_such(tmp_path):
    vis = ["--tasks", "7x7", "--variant", "Vis", "--seconds", "10"]
    with serving(tmp_path, *vis, "--seed", str(AHEAD), "--pace", "60") as server:
        cookie = server.new_player()
        assert server.ask("/api/me")[1]["tasks"][0]["name"] == SHORT_VIS
        server.begin(cookie, SHORT_VIS)
        with server.socket(cookie) as game:
            unpack(game.recv())
            game.send('{"pause": false}')
            game.send('{"keys": 1}')
            while unpack(game.recv())[0]["step"] < 10:
                pass
            game.send('{"pause": true}')
        server.stop(kill=True)
    with serving(tmp_path, "--tasks", "7x7", "--seed", str(AHEAD)) as server:
        assert server.ask("/api/me", cookie=cookie)[1]["open"]["task"] == SHORT_VIS
        with server.socket(cookie) as game:
            game.send('{"resolution": 64}')
            seen = dict([step_and_picture(game)])
            game.send('{"pause": false}')
            while max(seen) < 40:
                seen |= [step_and_picture(game)]
        server.recordings = tmp_path / "recordings"
        played = wait_until(lambda: find_played(server, "Anna"))
        board = server.ask("/api/board")[1]
        assert (board["7x7"], [row["name"] for row in board[SHORT_VIS]]) == ([], ["Anna"])
        server.begin(cookie)
        assert server.ask("/api/me", cookie=cookie)[1]["open"]["task"] == "7x7"
    assert (played.task.seconds, played.options) == (10, parse_options("Vis"))
    images = Files([Member(tmp_path / "recordings" / played.places["npz"])]).read_whole(0)["image"]
    assert len(images) == 41
    for step, picture in seen.items():
        assert picture is None or look_same(picture, images[step]), f"picture {step}"
    assert not look_same(Game(played.task, AHEAD, resolution=64).image, images[0])


def step_and_picture(game):
    """What a page is sent; large pictures are left out."""
    told, data = unpack(game.recv(timeout=20))
    game.send(json.dumps({"seen": told["picture"]}))
    picture = np.asarray(Image.open(io.BytesIO(data)))
    return told["step"], picture if len(picture) == 64 else None


def test_the_page_shows_the_variant(tmp_path, browser):
    options = ["--variant", "Oracle", "--options", "control_freq=8", "camera_resolution=128"]
    title = "7x7, Oracle, control_freq=8, camera_resolution=128, 2 objects, 80 steps"
    length = ["--objects", "2", "--seconds", "10", "--pace", "8"]
    with serving(tmp_path, "--tasks", "7x7", *options, *length) as server:
        page = open_page(browser)
        enter(page, server)
        card = page.locator("#sizes .size")
        assert card.locator("h3").inner_text() == title
        assert card.locator("span").inner_text() == "2 objects, 10 seconds"
        assert page.inner_text("#board-sizes button") == title
        page.click("button[data-practice='false']")
        page.wait_for_selector("#veil-button", state="visible", timeout=60_000)
        assert page.inner_text("#kind") == f"{title}, for the score"
        assert page.locator("#sharp").is_hidden(), "agents do not see 64x64 pixels"
        corner = np.array(page.evaluate(MAP)).reshape(-1, 4)[:, :3]
        assert (np.ptp(corner, axis=1) > 90).any(), "the way is marked green and the player red"
        page.click("#back")
        page.wait_for_selector(f"text=You have a scored game in {title} at step 0")
        assert not page.complaints


# The corner with the minimap, without the border.
MAP = """() => [...document.getElementById("view").getContext("2d").getImageData(228, 4, 24, 24).data]"""


def test_the_map_is_for_practice_alone(server):
    cookie = server.new_player()
    for practice in (True, False):
        server.begin(cookie, practice=practice)
        with server.socket(cookie) as game:
            told, _ = unpack(game.recv())
        assert ("map" in told) == practice
        assert told["practice"] == practice


def test_a_page_that_stops_looking_stops_the_clock(server):
    cookie = server.new_player()
    server.begin(cookie)
    with server.socket(cookie) as game:
        game.recv()
        game.send('{"pause": false}')  # and never says that it sees anything
        told = {"paused": False}
        while not told["paused"] or told["step"] == 0:
            told, _ = unpack(game.recv(timeout=20))
    assert 110 <= told["step"] <= 140


def test_a_game_is_on_one_page_at_a_time(server):
    cookie = server.new_player()
    server.begin(cookie)
    with server.socket(cookie) as old:
        old.recv()
        with server.socket(cookie) as new:
            new.recv()
            with pytest.raises(ConnectionClosed, match="4409"):
                drain(old)
            new.send('{"pause": false}')
            assert unpack(new.recv(timeout=10))[0]["episode"]


def test_a_phone(server, browser):
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    page = open_page(browser, **phone)
    page.on("dialog", lambda dialog: dialog.accept())
    enter(page, server)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    start_game(page)
    page.tap("#veil-button")
    page.dispatch_event("button[data-key='1']", "pointerdown", {"pointerId": 7})
    page.wait_for_selector("#view[data-score='1']", timeout=20_000)
    page.dispatch_event("button[data-key='1']", "pointerup", {"pointerId": 7})
    page.click("#back")
    start_game(page, practice=True)
    assert page.locator("#map").is_visible()
    box = page.locator("#touch").bounding_box()
    assert box["y"] + box["height"] <= 844, "the buttons are on the screen"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not page.complaints


def test_names_are_text_and_not_html(server, browser):
    page = open_page(browser)
    enter(page, server, "<img src=x onerror=alert(1)>")
    assert page.inner_text("#who") == "<img src=x onerror=alert(1)>"
    assert page.locator("#who img").count() == 0
    assert not page.complaints


def play_along(server, cookie, seconds, delays):
    with server.socket(cookie) as game:
        game.recv()
        game.send('{"pause": false}')
        game.send('{"keys": 1}')
        limit = time.time() + seconds
        while time.time() < limit:
            told, picture = unpack(game.recv(timeout=20))
            delays.append(time.time() - told["due"])
            game.send(json.dumps({"seen": told["picture"]}))
            assert Image.open(io.BytesIO(picture)).size == (256, 256)


@pytest.mark.slow
def test_ten_players_at_once(tmp_path):
    with serving(tmp_path, "--tasks", "9x9") as server:
        cookies = [server.new_player(f"P{index}") for index in range(10)]
        for cookie in cookies:
            server.begin(cookie, "9x9")
        delays = [[] for _ in cookies]
        threads = [
            threading.Thread(target=play_along, args=(server, cookie, 10, some))
            for cookie, some in zip(cookies, delays, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    counts = [len(some) for some in delays]
    assert min(counts) > 40, counts  # six a second, with a machine that does other things too
    assert max(counts) < 70, counts
    assert statistics.median(itertools.chain(*delays)) < 0.1


def test_players_cannot_reach_what_is_not_theirs(server):
    first, second = server.new_player("A"), server.new_player("B")
    server.begin(first)
    with server.socket(first) as game:
        game.recv()
        game.send('{"pause": false}')
        while not (told := unpack(game.recv())[0])["over"]:
            game.send(json.dumps({"seen": told["picture"]}))
    watch = wait_until(lambda: server.ask("/api/me", cookie=first)[1]["done"][0]["watch"])
    mine, other = (server.ask("/api/watch", cookie=cookie)[1] for cookie in (first, second))
    assert [one["id"] for one in mine] == [watch]
    assert other == []
    path = f"/api/watch/{watch}"
    for end in ("", "/pictures?from=0&count=4"):
        assert server.ask(path + end, cookie=first)[0] == 200
        assert server.ask(path + end, cookie=second)[0] == 404
        assert server.ask(path + end)[0] == 404
    with server.socket(second) as game, pytest.raises(Exception, match="4404"):
        game.recv(timeout=10)


def test_the_token_opens_the_door(tmp_path):
    with serving(tmp_path, "--tasks", "7x7", "--host", "0.0.0.0") as server:
        assert len(server.token) > 16
        for path in ("/", "/api/me", "/static/play.js", "/watch", "/?token=wrong"):
            assert server.ask(path)[0] == 401, path
        status, _, cookie = server.ask(f"/?token={server.token}")
        assert status == 303
        assert server.ask("/api/me", cookie=cookie)[0] == 200
        assert server.ask("/api/me", cookie=cookie + "x")[0] == 401


def test_other_sites_cannot_act_for_a_player(server):
    cookie = server.new_player()
    body = {"task": "7x7", "practice": True}
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{server.port + 1}"):
        assert server.ask("/api/episodes", body, cookie, headers={"Origin": origin})[0] == 403
    assert server.ask("/api/me", headers={"Host": "evil.example"})[0] == 400
    assert server.ask("/api/episodes", b"x" * 5000, cookie)[0] == 413
    assert server.ask("/api/me", cookie=cookie)[1]["open"] is None


MESSAGES = [
    "", "{", "[]", "null", '{"keys": 8}', '{"keys": -1}', '{"keys": true}', '{"keys": 1.5}', "1" * 5000,
    '{"pause": 1}', '{"resolution": 100000}', '{"seen": 1e99}', '{"seen": -1}', "[" * 250, '{"a": 1}',
    '{"keys": 1, "pause": false}', '{"keys": "1"}', "\x00", '{"keys": NaN}', b"\x00\xff", b"{}",
]  # fmt: skip


def make_nonsense(rng):
    """A request that no page makes."""
    paths = [
        "/api/me", "/api/episodes", "/api/play", "/api/board", "/api/watch/../../etc/passwd", "/watch/x",
        "/static/../app.py", "/static/%2e%2e/%2e%2e/cli.py", "/static/..%2f..%2fcli.py", "/../players.sqlite",
        "//etc/passwd", "/static/", "/api/watch/" + "a" * 300, "/api/watch/x/pictures?from=-1&count=9e9",
        "/%00", "/api/watch/x/pictures?from=1&count=", "/?" + "&" * 100,
    ]  # fmt: skip
    method = rng.choice(["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW", "get"])
    bodies = [
        b"", b"{", b"[" * 2000, b'{"name": 1}', b'{"name": "\\u0000"}', b'{"name": null, "x": 1}',
        b'{"task": "99x99", "practice": true}', b'{"task": "7x7", "practice": 1}', b"a" * 3000,
        bytes(rng.randrange(256) for _ in range(rng.randrange(200))), b'{"name": "\xff"}', b"NaN", b'"x"',
    ]  # fmt: skip
    body = rng.choice(bodies)
    lines = [f"{method} {rng.choice(paths)} HTTP/1.1", "Host: HOST", "Connection: close"]
    lines += rng.sample(
        [
            "Origin: http://HOST",
            f"Content-Length: {rng.choice([len(body), len(body) + 5, -1, 10**12, 'x'])}",
            "Content-Type: application/json",
            "Cookie: memory_maze_player=" + "'; DROP TABLE players; --",
            "Cookie: memory_maze_player=\xff\xfe",
            "Upgrade: websocket",
            "Transfer-Encoding: chunked",
            "Range: bytes=0-99999999999",
            "X: " + "y" * rng.randrange(20_000),
        ],
        rng.randrange(6),
    )
    request = "\r\n".join(lines).encode("latin1") + b"\r\n\r\n" + body
    return request if rng.random() < 0.8 else bytes(rng.randrange(256) for _ in range(300))


def send_raw(port, request):
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.settimeout(0.25)
        answer = b""
        try:
            connection.sendall(request.replace(b"HOST", f"127.0.0.1:{port}".encode()))
            while part := connection.recv(65536):
                answer += part
        except OSError:
            pass
    return answer


def drain(game):
    """Takes pictures until the server ends it."""
    while True:
        game.recv(timeout=10)


def test_a_thousand_malformed_requests_and_messages(server):
    rng = random.Random(0)
    nonsense = [make_nonsense(rng) for _ in range(500)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda request: send_raw(server.port, request), nonsense))
    for answer in answers:
        assert not any(word in answer for word in (b"Traceback", b"root:x:", b"def ", b"SQLite format"))
        assert not answer.startswith(b"HTTP/1.1 5"), answer
    assert sum(answer.startswith(b"HTTP/1.1 4") for answer in answers) > 200
    cookie = server.new_player()
    server.begin(cookie)
    for _ in range(500):
        with server.socket(cookie, open_timeout=10) as game:
            game.send(rng.choice(MESSAGES))
            with pytest.raises(ConnectionClosed) as closed:
                drain(game)
            assert "Traceback" not in str(closed.value)
    assert server.process.poll() is None
    status, told, _ = server.ask("/api/me", cookie=cookie)
    assert (status, told["open"]["steps"]) == (200, 0)


def test_requests_that_made_the_server_stumble(server):
    cookie = server.new_player()
    answer = send_raw(server.port, b"POST /api/me HTTP/1.1\r\nHost: HOST\r\nOrigin: http://[\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 403")
    lines = ["POST /api/me HTTP/1.1", "Host: HOST", "Origin: http://HOST", f"Cookie: {cookie}"]
    lines += ["Content-Type: application/json", "Transfer-Encoding: chunked", "", ""]
    head = "\r\n".join(lines).encode()
    chunk = b"400\r\n" + b"a" * 1024 + b"\r\n"
    assert send_raw(server.port, head + 4 * chunk + b"0\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert send_raw(server.port, head + 5 * chunk).startswith(b"HTTP/1.1 413")
    with socket.create_connection(("127.0.0.1", server.port)) as gone:
        gone.sendall(head.replace(b"HOST", f"127.0.0.1:{server.port}".encode()) + chunk)
    assert server.ask("/api/me", cookie=cookie)[1]["name"] == "Anna"


def connect_to(server, address):
    return socket.create_connection(("127.0.0.1", server.port), 20, (address, 0))


def answer_of(connection):
    try:
        return connection.recv(65536)
    except OSError:
        return b""


def test_a_thousand_connections_from_one_address_lock_nobody_out(server):
    request = f"GET /api/me HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n".encode()

    def is_answered_there():
        with connect_to(server, "127.0.0.2") as later:
            with contextlib.suppress(OSError):
                later.sendall(request + b"\r\n")
            return answer_of(later).startswith(b"HTTP/1.1 200")

    with contextlib.ExitStack() as stack:
        for number in range(1000):
            connection = stack.enter_context(connect_to(server, "127.0.0.2"))
            with contextlib.suppress(OSError):
                connection.sendall([b"", b"GET", request][number % 3])  # and nothing more
        assert server.ask("/api/me")[0] == 200
        assert answer_of(connection).startswith(b"HTTP/1.1 429")
        assert not is_answered_there()
        wait_until(is_answered_there, 20)  # once the others have waited too long


def test_who_asks_slowly_is_not_waited_for_and_who_plays_slowly_is(server):
    cookie = server.new_player()
    server.begin(cookie)
    request = f"POST /api/me HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nX: {'x' * 200}".encode()
    with server.socket(cookie) as game, connect_to(server, "127.0.0.1") as slow:
        game.recv()
        begun = time.monotonic()
        with contextlib.suppress(OSError):
            for byte in request:
                slow.sendall(bytes([byte]))
                time.sleep(0.1)
        assert time.monotonic() - begun < 10
        game.send('{"pause": false}')
        assert unpack(game.recv(timeout=10))[0]["episode"]


def test_two_servers_do_not_share_a_folder(server):
    with (
        pytest.raises(RuntimeError, match=f"process {server.process.pid} is writing to it: wait"),
        serving(server.recordings.parent),
    ):
        pass


def test_who_asks_too_often_has_to_wait():
    now = 0.0
    bucket = Bucket(rate=2, burst=3, clock=lambda: now)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    now = 1.0
    assert [bucket.take() for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tasks", "8x8"], "size must be odd"),
        (["--variant", "Vs"], "did you mean 'Vis'"),
        (["--show", "nowhere"], "nowhere"),
    ],
)
def test_wrong_options_are_explained(tmp_path, options, message):
    with pytest.raises(RuntimeError, match=message) as raised, serving(tmp_path, *options):
        pass
    assert "Traceback" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", 99999), ("port", -1), ("pace", 0), ("pace", math.nan), ("players", 0), ("requests", 0),
        ("requests", math.nan), ("seed", -1), ("seed", 2**32),
    ],
)  # fmt: skip
def test_numbers_that_make_no_sense_are_refused(tmp_path, name, value):
    with pytest.raises(ValueError, match=f"{name} must be"):
        serve.Command(out=tmp_path / "study", **{name: value}).run()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        (Variant(options=("discrete_actions=false",)), "discrete_actions must be true"),
        (Variant(options=("target_color_in_image=false",)), "target_color_in_image must be true for people"),
        (Variant(variant="Oracle", options=("camera_resolution=16",)), "the minimap .* 18 pixels"),
        (Variant(objects=7), "objects must be from 1 to 6"),
    ],
)
def test_what_nobody_can_play_is_refused(tmp_path, monkeypatch, variant, message):
    monkeypatch.setattr(serve.Command, "_serve", lambda command, settings: None)
    with pytest.raises(ValueError, match=message):
        serve.Command(out=tmp_path / "study", environment=variant).run()
    assert not list(tmp_path.iterdir())


def test_a_port_that_is_taken_is_told(tmp_path, server):
    """In a process of its own: uvicorn closes all log handlers, and absl's closes what pytest writes to."""
    words = ["serve", "--out", tmp_path, "--tasks", "7x7", "--port", str(server.port)]
    result = subprocess.run(
        [sys.executable, "-m", "memory_maze", *words], capture_output=True, text=True, timeout=240
    )
    assert result.returncode == 1
    assert f"{server.port} is not free to listen on: choose another --port" in result.stderr
    assert "Traceback" not in result.stderr
