"""Data sets from the hub: the real client against a small hub of our own."""

import collections
import hashlib
import http.server
import json
import random
import sys
import threading
import time
import types
import urllib.parse

import numpy as np
import pytest

from memory_maze import TASKS
from memory_maze.data import DataError, hub, load, scenes
from memory_maze.data.collection import make_manifest
from memory_maze.system.extras import install_command

REPOSITORY = "someone/mazes"
NAME = f"hub:{REPOSITORY}"
COMMITS = {"main": "a" * 40, "v1": "b" * 40, "a" * 40: "a" * 40, "b" * 40: "b" * 40}
COMMAND = "memory-maze collect --task 9x9 --episodes 30000 --steps 1000 --out DIR"


def make_scenes(seed):
    """Two agents that stand in empty mazes."""
    count, size, steps = 2, 9, 4
    rng = np.random.default_rng(seed)
    return scenes.Scenes(
        seeds=np.arange(count, dtype=np.uint32),
        walls=np.zeros((count, size), np.uint32),
        rooms=np.zeros((count, size), np.uint32),
        textures=np.zeros((count, 9), np.uint8),
        objects=np.array([[3, 40, 70]] * count, np.uint16),
        colors=np.array([[0, 1, 2]] * count, np.uint8),
        hidden=np.zeros((count, 3), bool),
        actions=rng.integers(6, size=(count, steps), dtype=np.uint8),
        rewards=np.zeros((count, steps), np.uint8),
        targets=np.zeros((count, steps + 1), np.uint8),
        poses=np.zeros((count, steps + 1, 4), np.float32),
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The files of a repository, with a data set at its root and another one in a folder."""
    folder = tmp_path_factory.mktemp("repository")
    manifest = make_manifest(TASKS["9x9"], 4, steps=4, evaluation=0, shard=2)
    for place in (folder, folder / "more"):
        place.mkdir(exist_ok=True)
        manifest.save(place)
        for seed, shard in enumerate(manifest.shards()):
            content = scenes.to_bytes(make_scenes(seed + 2 * (place != folder)))
            (place / shard.file).write_bytes(content)
    (folder / "README.md").write_text("not for us")
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


class Hub(http.server.ThreadingHTTPServer):
    """What the client asks of a hub."""

    def __init__(self, files):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = dict(files)
        self.damaged = {}  # path -> what is sent instead
        self.cut = None  # path of a file that breaks off, once
        self.dies = False  # then, and answers nothing more
        self.is_down = False
        self.gets = collections.Counter()  # paths of files -> how often they were sent
        self.requests = 0
        self.queries = collections.Counter()
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def close(self):
        self.shutdown()
        self.server_close()


def describe(path, content):
    """A file of a tree: NPZ files are large files to the hub, the others are in git."""
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    entry = {"type": "file", "path": path, "size": len(content), "oid": blob}
    if path.endswith(".npz"):
        sha256 = hashlib.sha256(content).hexdigest()
        entry["lfs"] = {"oid": sha256, "size": len(content), "pointerSize": 100}
    return entry


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer(with_body=False)

    def do_GET(self):
        self.answer(with_body=True)

    def answer(self, with_body):
        self.server.requests += 1
        parts = [urllib.parse.unquote(part) for part in self.path.split("?")[0].strip("/").split("/")]
        if self.server.is_down:
            return self.send(503, b"")
        if parts[:2] == ["api", "datasets"]:
            return self.answer_query("/".join(parts[2:4]), *parts[4:6])
        assert parts[:1] == ["datasets"], self.path
        return self.send_file(COMMITS[parts[4]], "/".join(parts[5:]), with_body)

    def answer_query(self, repository, kind, revision):
        self.server.queries[kind] += 1
        if repository == "someone/locked":
            return self.send(403, b"", {"X-Error-Code": "GatedRepo"})
        if repository != REPOSITORY:
            return self.send(404, b"", {"X-Error-Code": "RepoNotFound"})
        if revision not in COMMITS:
            return self.send(404, b"", {"X-Error-Code": "RevisionNotFound"})
        if kind == "revision":
            return self.send_json({"id": repository, "sha": COMMITS[revision]})
        return self.send_json([describe(path, content) for path, content in self.server.files.items()])

    def send_file(self, commit, path, with_body):
        content = self.server.files[path]
        entry = describe(path, content)
        etag = entry["lfs"]["oid"] if "lfs" in entry else entry["oid"]
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": commit}
        content = self.server.damaged.get(path, content)
        cut = with_body and self.server.cut == path
        if cut:
            self.server.cut, self.server.is_down = None, self.server.dies
        self.server.gets[path] += with_body
        self.send(200, content, headers, with_body, cut)

    def send_json(self, data):
        self.send(200, json.dumps(data).encode(), {"Content-Type": "application/json"})

    def send(self, status, content, headers=None, with_body=True, cut=False):
        self.send_response(status)
        for key, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if with_body:
            self.wfile.write(content[: len(content) // 2] if cut else content)


@pytest.fixture
def server(files, tmp_path, monkeypatch):
    import huggingface_hub
    from huggingface_hub import constants
    from huggingface_hub.utils import disable_progress_bars

    server = Hub(files)
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.setenv("MEMORY_MAZE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    # The client waits for seconds before it tries again.
    patient = types.SimpleNamespace(sleep=lambda seconds: None, time=time.time)
    monkeypatch.setattr("huggingface_hub.file_download.time", patient)
    monkeypatch.setattr("huggingface_hub.utils._http.time", patient)
    disable_progress_bars()
    yield server
    server.close()
    huggingface_hub.close_session()


def check(dataset, first_seed=0):
    expected = scenes.join([make_scenes(first_seed), make_scenes(first_seed + 1)])
    for key in scenes.TYPES:
        np.testing.assert_array_equal(getattr(dataset.scenes, key), getattr(expected, key))


def test_fetched_once_and_then_without_the_hub(server, tmp_path, monkeypatch):
    dataset = load(NAME)
    check(dataset)
    assert dataset.path.is_relative_to(tmp_path / "cache" / "hub")
    assert server.gets["train-00000.npz"] == 1
    assert server.gets["README.md"] == 0
    requests = server.requests
    check(load(NAME))
    assert server.requests == requests
    server.close()
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.setattr(hub, "_is_same", None)  # nor is it verified again
    check(load(NAME))


def test_folders_and_revisions(server):
    check(load(f"{NAME}/more@v1"), first_seed=2)
    assert not any("/" not in path for path in server.gets)
    server.gets.clear()
    check(load(f"{NAME}@{COMMITS['main']}"))
    check(load(f"{NAME}/more/"), first_seed=2)
    assert set(server.gets.values()) == {1}


@pytest.mark.parametrize("path", ["train-00001.npz", "dataset.json"])
def test_a_download_that_breaks_off_goes_on_with_the_next_call(server, path):
    server.cut, server.dies = path, True
    with pytest.raises(OSError, match="could not be downloaded") as caught:
        load(NAME)
    assert COMMAND in str(caught.value)
    assert not list(hub.cache_folder("hub").rglob("*.incomplete"))
    server.is_down = False
    before = {name for name in server.files if (root_of(server) / name).exists()}
    server.gets.clear()
    check(load(NAME))
    assert path not in before
    assert not before & set(server.gets)  # what had arrived is not sent again


def root_of(server):
    return hub.cache_folder("hub") / REPOSITORY / COMMITS["main"]


def test_a_file_that_breaks_off_is_begun_anew_at_once(server):
    server.cut = "train-00001.npz"
    check(load(NAME))
    assert server.gets["train-00001.npz"] == 2


def test_what_a_killed_process_left_is_removed(server):
    leftover = root_of(server) / ".cache" / "huggingface" / "download" / "x.incomplete"
    leftover.parent.mkdir(parents=True)
    leftover.write_bytes(b"half a file")
    check(load(NAME))
    assert not leftover.exists()


@pytest.mark.parametrize("path", ["train-00001.npz", "dataset.json"])
def test_wrong_bytes_are_refused_by_name_and_fetched_again(server, path):
    content = server.files[path]
    server.damaged[path] = content[:-1] + bytes([content[-1] ^ 1])
    with pytest.raises(DataError, match=f"{path}: wrong checksum for hub:someone/mazes") as caught:
        load(NAME)
    assert "load it again" in str(caught.value)
    server.damaged.clear()
    check(load(NAME))


def test_a_file_that_is_lost_is_fetched_again(server):
    path = load(NAME).path / "train-00001.npz"
    path.unlink()
    check(load(NAME))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"train-00001\.npz"):
        load(NAME)
    check(load(NAME))
    server.close()
    path.unlink()
    with pytest.raises(OSError, match="could not be downloaded"):
        load(NAME)


def test_one_process_fetches_and_the_others_wait(server):
    results = []
    threads = [threading.Thread(target=lambda: results.append(hub.fetch(NAME))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [root_of(server)] * 4
    assert server.queries["revision"] == 1
    assert set(server.gets.values()) == {1}


def test_files_must_stay_in_their_folder(server):
    server.files["../escaped.npz"] = b"x"
    with pytest.raises(DataError, match="outside of the data set"):
        load(NAME)


def test_a_repository_without_data(server):
    server.files = {"README.md": b"nothing here"}
    with pytest.raises(DataError, match="it has no data"):
        load(NAME)


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("hub:someone/else", FileNotFoundError, "no such data set"),
        ("hub:someone/locked", PermissionError, "request access"),
        ("hub:someone/mazes@v9", FileNotFoundError, "no revision 'v9'"),
        ("hub:mazes", ValueError, "hub:owner/name"),
        ("hub:someone/mazes/../other", ValueError, "hub:owner/name"),
        ("hub:../../mazes", ValueError, "hub:owner/name"),
    ],
)
def test_wrong_names(server, name, kind, message):
    with pytest.raises(kind, match=message) as caught:
        load(name)
    assert "\n" not in str(caught.value)


def test_without_a_network(server):
    server.close()
    with pytest.raises(OSError, match="Connection refused") as caught:
        load(NAME)
    assert NAME in str(caught.value)
    assert COMMAND in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_the_client(server, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ModuleNotFoundError, match="huggingface_hub: pip install") as caught:
        load(NAME)
    assert install_command("hub") in str(caught.value)


def test_the_papers_data_sets(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMORY_MAZE_CACHE", str(tmp_path))
    folder = tmp_path / "published" / "memory-maze-15x15-30M"
    with pytest.raises(FileNotFoundError, match=r"github\.com/jurgisp/memory-maze") as caught:
        load("memory-maze-15x15-30M")
    assert str(folder) in str(caught.value)
    assert COMMAND.replace("9x9", "15x15") in str(caught.value)
    folder.mkdir(parents=True)
    (folder / "train.zip").write_bytes(b"")
    assert hub.fetch("memory-maze-15x15-30M") == folder
    monkeypatch.chdir(folder.parent)
    assert not hub.is_name("memory-maze-15x15-30M")  # the folder itself


def test_paths_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="memory-maze-9x9-30M") as caught:
        load(tmp_path / "nothing")
    assert str(tmp_path / "nothing") in str(caught.value)
    assert "hub:owner/name" in str(caught.value)
    assert COMMAND in str(caught.value)


def test_a_byte_that_flips_in_the_cache_is_told_or_harmless(server):
    load(NAME)
    wanted, draw = hub.parse_name(NAME), random.Random(0)
    sound = wanted.record.read_bytes()
    for _ in range(1000):
        place = draw.randrange(len(sound))
        changed = bytes([sound[place] ^ draw.randrange(1, 256)])
        wanted.record.write_bytes(sound[:place] + changed + sound[place + 1 :])
        assert hub._find_verified(wanted) in (None, root_of(server)), place
    wanted.record.write_bytes(b"[]")
    check(load(NAME))
    path = root_of(server) / "train-00001.npz"
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    with pytest.raises(DataError, match=r"train-00001\.npz.*: remove this file, and load it again"):
        load(NAME)
    path.unlink()
    check(load(NAME))
