"""A queue of runs: slices end in time, whatever its processes do, and the next one goes on."""

import dataclasses
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import tyro

from memory_maze.system.files import cache_folder, sole_writer

ROOT = Path(__file__).resolve().parents[1]
QUEUE = ROOT / "benchmarks" / "run_queue.py"

# Works for some seconds, as `work.py FOLDER SECONDS CODE`; a line of its journal is a tenth of one.
STUB = """
import pathlib, signal, sys, time
folder, seconds, code = pathlib.Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
folder.mkdir(parents=True, exist_ok=True)
def stop(number, frame):
    (folder / "saved").touch()
    sys.exit(128 + number)
signal.signal(signal.SIGTERM, signal.SIG_IGN if "stubborn" in sys.argv else stop)
begin = time.monotonic()
while time.monotonic() - begin < seconds:
    with (folder / "journal").open("a") as file:
        file.write("worked\\n")
    time.sleep(0.1)
if code:
    sys.exit("error: it does not work")
"""


@pytest.fixture
def slices(monkeypatch):
    return load("slices", monkeypatch)


@pytest.fixture
def commands(monkeypatch):
    return load("commands", monkeypatch)


@pytest.fixture
def queue(monkeypatch):
    module = load("run_queue", monkeypatch)
    monkeypatch.setenv("MEMORY_MAZE_CACHE", os.environ.get("MEMORY_MAZE_CACHE", ""))  # main sets it
    monkeypatch.delenv("MEMORY_MAZE_CACHE")
    return module


def load(name, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module(name)


def stub(folder, seconds=0.0, code=0, *words):
    return [sys.executable, "-c", STUB, str(folder), str(seconds), str(code), *words]


class Happened:
    """What a slice told."""

    def __init__(self, slices):
        self.order, self.failures, self.left, self.minutes, self.most = [], {}, {}, {}, 0
        self._running = set()
        self.watch = slices.Watch(self._begin, self._spend, self._end, self.left.__setitem__)

    def _begin(self, name):
        self.order.append(name)
        self._running.add(name)
        self.most = max(self.most, len(self._running))
        if name == "alone":
            assert self._running == {"alone"}

    def _spend(self, name, minutes):
        self.minutes[name] = self.minutes.get(name, 0.0) + minutes

    def _end(self, name, code, failure):
        assert "alone" not in self._running or name == "alone"
        self._running.remove(name)
        self.order.append(f"{name} {'ended' if not code else 'failed' if failure else 'stopped'}")
        if failure:
            self.failures[name] = failure


@pytest.fixture
def work(slices, tmp_path):
    """Runs jobs, each a name with its seconds, exit code and other fields."""

    def run(jobs, together=1, minutes=None, reserve=0.0):
        happened = Happened(slices)
        made = [make(slices, tmp_path, name, **fields) for name, fields in jobs.items()]
        happened.signal = slices.work(made, slices.Clock(minutes, reserve), together, happened.watch)
        return happened

    return run


def make(slices, place, name, seconds=0.0, code=0, words=(), **fields):
    folder = place / name
    command = lambda minutes: stub(folder, seconds, code, *words)  # noqa: E731
    return slices.Job(name, command, place / "logs" / name, folder, **{"least": 0.0} | fields)


def test_jobs_run_in_their_order(work):
    happened = work({"one": {}, "two": {}, "three": {}})
    assert happened.order == ["one", "one ended", "two", "two ended", "three", "three ended"]
    assert happened.minutes.keys() == {"one", "two", "three"}


def test_so_many_run_together_and_what_measures_runs_alone(work):
    jobs = {name: {"seconds": 0.5} for name in "abc"} | {"alone": {"alone": True}, "last": {}}
    happened = work(jobs, together=2)
    assert happened.most == 2
    assert happened.order[:2] == ["a", "b"]
    begun = [name for name in happened.order if " " not in name]
    assert begun == ["a", "b", "c", "alone", "last"]


def test_what_needs_another_waits_for_it_and_others_do_not(work):
    jobs = {"data": {"seconds": 0.5}, "probe": {"needs": "data"}, "other": {}}
    happened = work(jobs, together=2)
    assert happened.order[:2] == ["data", "other"]
    assert happened.order.index("data ended") < happened.order.index("probe")


def test_what_fails_is_told_and_stops_nothing_but_what_needs_it(work):
    happened = work({"data": {"code": 1}, "probe": {"needs": "data"}, "other": {}})
    assert happened.failures == {"data": "it does not work"}
    assert happened.left == {"probe": "it needs data"}
    assert happened.order == ["data", "data failed", "other", "other ended"]


def test_a_slice_ends_in_time_whatever_its_processes_do(work, tmp_path):
    began = time.monotonic()
    jobs = {"good": {"seconds": 60}, "bad": {"seconds": 60, "words": ["stubborn"]}, "late": {}}
    happened = work(jobs, together=2, minutes=4 / 60, reserve=2 / 60)
    assert 3 < time.monotonic() - began < 4
    assert sorted(happened.order[2:]) == ["bad stopped", "good stopped"]
    assert not happened.failures
    assert happened.left == {"late": "there was no time left"}
    assert (tmp_path / "good" / "saved").exists()
    assert not (tmp_path / "bad" / "saved").exists()


def test_nothing_is_begun_that_is_not_worth_it(work):
    happened = work({"long": {"least": 5.0}, "short": {"least": 0.5}}, minutes=2, reserve=1)
    assert happened.order == ["short", "short ended"]
    assert happened.left == {"long": "there was no time left"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_passed_on_once_and_ends_the_slice(work, tmp_path, number):
    threading.Timer(1.0, os.kill, (os.getpid(), number)).start()
    began = time.monotonic()
    happened = work({"one": {"seconds": 60}, "two": {}})
    assert time.monotonic() - began < 5
    assert happened.signal == number
    assert happened.order == ["one", "one stopped"]
    assert (tmp_path / "one" / "saved").exists()


def test_a_folder_that_another_process_writes_to_is_left_to_it(work, monkeypatch, slices, tmp_path):
    monkeypatch.setattr(slices, "_PATIENCE", 0.5)
    with sole_writer(tmp_path / "one"):
        happened = work({"one": {}, "two": {}})
    assert happened.order == ["two", "two ended"]
    assert f"process {os.getpid()}" in happened.left["one"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the processes run on until they are done")
def test_processes_save_themselves_when_the_queue_is_killed(tmp_path):
    script = f"""
import sys
sys.path.insert(0, {str(ROOT / "benchmarks")!r})
from pathlib import Path
from slices import Clock, Job, Watch, work
job = Job("one", lambda minutes: {stub(tmp_path / "one", 60)!r}, Path({str(tmp_path / "log")!r}))
work([job], Clock(None, 0.0), 1, Watch())
"""
    process = subprocess.Popen([sys.executable, "-c", script])
    wait_for(tmp_path / "one" / "journal")
    process.kill()
    process.wait()
    wait_for(tmp_path / "one" / "saved")


def wait_for(path, seconds=60):
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, path
        time.sleep(0.1)


def test_the_error_of_a_program_is_found_in_what_it_printed(slices):
    assert slices.find_error("compiling\nerror: no such agent\nbye") == "no such agent"
    text = 'Traceback\n  File "x", line 1\njaxlib.XlaRuntimeError: out of memory\n'
    assert slices.find_error(text) == "jaxlib.XlaRuntimeError: out of memory"
    assert slices.find_error("one\ntwo\n\n") == "two"
    assert slices.find_error("") is None


FINISHED = {"steps": 100, "steps_planned": 100, "date": "2"}


@pytest.mark.parametrize(
    ("new", "old", "replaced"),
    [
        ({}, None, True),
        ({}, {}, True),
        ({"steps": 60}, None, True),
        ({"steps": 60}, {}, False),
        ({"steps": 60}, {"steps": 50}, True),
        ({"steps": 60}, {"steps": 70}, False),
        ({"steps": 60, "evaluations": []}, {"steps": 50}, False),
        ({"evaluations": []}, {}, False),
        ({}, {"date": "1"}, True),
        ({}, {"date": "3"}, False),
        ({}, "damaged", True),
    ],
)
def test_a_result_replaces_only_one_that_says_less(commands, tmp_path, new, old, replaced):
    run, copy = tmp_path / "run", tmp_path / "results" / "copy.json"
    run.mkdir()
    (run / "result.json").write_text(describe(new))
    if old is not None:
        copy.parent.mkdir()
        copy.write_text(old if isinstance(old, str) else describe(old))
    before = copy.read_text() if copy.exists() else None
    commands.copy_result(run, copy)
    assert copy.read_text() == ((run / "result.json").read_text() if replaced else before)


def describe(changes):
    """A result; older ones lack the kind."""
    values = FINISHED | {"evaluations": [{"mean": 1.0}]} | changes
    training = {key: values.pop(key) for key in ("steps", "steps_planned")}
    return json.dumps({"training": training} | values)


@pytest.mark.parametrize(
    ("report", "file"), [({"devices": "1 NVIDIA H200"}, "gpu"), ({"results": {"devices": "2 cpu"}}, "cpu")]
)
def test_a_measurement_is_a_result_once_it_has_ended(queue, tmp_path, report, file):
    (entry,) = (one for one in queue.QUEUE if one.name == "measure-resume")
    written, copy = Path(entry.command(tmp_path, None)[-1]), tmp_path / "results" / f"resume-{file}.json"
    written.parent.mkdir()
    written.write_text(json.dumps(report | {"date": "2"}))
    entry.copy(tmp_path, tmp_path / "results")
    assert not entry.read_state(tmp_path).done
    assert not copy.exists()
    entry.finish(tmp_path)
    entry.copy(tmp_path, tmp_path / "results")
    assert entry.read_state(tmp_path).done
    assert json.loads(copy.read_text())["date"] == "2"
    copy.write_text(json.dumps({"date": "3"}))
    entry.copy(tmp_path, tmp_path / "results")
    assert json.loads(copy.read_text()) == {"date": "3"}


def test_every_command_of_the_list_is_one_of_the_package(queue):
    names = [entry.name for entry in queue.QUEUE]
    assert len(set(names)) == len(names)
    for entries in (queue.QUEUE, [entry.shrink() for entry in queue.QUEUE]):
        for index, entry in enumerate(entries):
            assert entry.needs is None or entry.needs in names[:index]
            python, *words = entry.command(Path("q"), 5.0)
            assert python == sys.executable
            if words[:2] == ["-m", "memory_maze"]:
                module = importlib.import_module(f"memory_maze.commands.{words[2]}")
                parsed = tyro.cli(module.Command, args=words[3:])
                assert parsed.out == Path("q", entry.name)
            else:
                module = importlib.import_module(Path(words[0]).stem)
                assert tyro.cli(module.Config, args=words[1:]).out.parent == Path("q", entry.name)


@pytest.fixture
def fakes(queue, monkeypatch):
    """The queue has two entries, which are done after twelve lines of their journals; bad fails."""

    @dataclasses.dataclass(frozen=True)
    class Fake(queue.Entry):
        code: int = 0

        def command(self, folder, minutes):
            done = self._read_state(folder / self.name).steps
            return stub(folder / self.name, 0.1 * (self.steps - done), self.code)

        def shrink(self):
            return self

        def _read_state(self, folder):
            journal = folder / "journal"
            steps = len(journal.read_text().splitlines()) if journal.exists() else 0
            return sys.modules["entries"].State(steps, steps >= self.steps and not self.code)

    def set_up(**codes):
        made = tuple(Fake(name, (), 12, least=0.0, code=code) for name, code in codes.items())
        monkeypatch.setattr(queue, "QUEUE", made)

    return set_up


def call(queue, folder, **options):
    """One slice; gives the code that it exits with."""
    config = queue.Config(folder=folder, **{"reserve": 0.01} | options)
    with pytest.raises(SystemExit) as ended:
        queue.main(config)
    return ended.value.code


def test_the_next_call_goes_on_and_tries_again_what_failed(queue, fakes, tmp_path, capsys):
    fakes(good=0, bad=1)
    assert call(queue, tmp_path / "q", minutes=0.01 + 0.5 / 60) == 0
    out = capsys.readouterr().out
    assert "good stopped" in out
    assert "call it again to go on" in out
    moved = tmp_path / "elsewhere"
    shutil.move(tmp_path / "q", moved)
    assert call(queue, moved, together=2) == 1
    out = capsys.readouterr().out
    assert "bad failed: it does not work" in out
    assert str(moved / "logs" / "bad.log") in out
    fakes(good=0, bad=0)
    assert call(queue, moved) == 0
    assert "everything is done" in capsys.readouterr().out
    minutes = json.loads((moved / "queue.json").read_text())["good"]["minutes"]
    assert 1.0 / 60 < minutes < 10 / 60


def test_the_table_is_printed_of_a_folder_that_others_write_to(queue, fakes, tmp_path, capsys):
    fakes(good=0)
    with sole_writer(tmp_path):
        queue.main(queue.Config(folder=tmp_path, list=True))
        assert "good   0 of 12" in capsys.readouterr().out
        assert "is writing to it" in call(queue, tmp_path)


def test_what_cannot_be_done_is_told_in_a_sentence(queue, tmp_path):
    assert "--minutes 3 is too short: it takes 4" in call(queue, tmp_path, minutes=3, reserve=None)
    assert "no entry nothing: there are fast-9x9-0" in call(queue, tmp_path, names=("nothing",))
    (tmp_path / "queue.json").write_text("{")
    assert "queue.json is damaged: remove it" in call(queue, tmp_path)
    with pytest.raises(SystemExit, match="--together"):
        queue.Config(together=0)


def test_names_bring_what_they_need(queue):
    chosen = queue.choose(queue.Config(names=("probe-*-vae-15x15-1",)))
    assert [entry.name for entry in chosen] == ["data-15x15", "probe-paper-vae-15x15-1"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_real_run_is_stopped_moved_killed_and_finished(tmp_path):
    """Of the package itself, so small that a CPU can do it."""
    first, second = tmp_path / "first", tmp_path / "second"

    process = begin(first)
    wait_for(first / "fast-9x9-0" / "metrics.jsonl", 300)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, out
    assert "fast-9x9-0 stopped" in out

    shutil.move(first, second)
    began = time.monotonic()
    process = begin(second, "--minutes", "0.4", "--reserve", "0.3")  # too short for anything
    out, _ = process.communicate(timeout=60)
    assert time.monotonic() - began < 0.4 * 60 + 5  # of which some are for Python to start
    assert process.returncode == 0, out

    process = begin(second)
    time.sleep(10)
    process.kill()
    process.communicate()
    process = begin(second, "--minutes", "10")
    other, _ = begin(second).communicate()
    assert "is writing to it" in other
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0, out
    assert "everything is done" in out
    result = json.loads((second / "results" / "online" / "fast-9x9-0.json").read_text())
    assert result["training"]["steps"] >= 2_000
    assert result["evaluations"][0]["episodes"] == 2


def begin(folder, *options):
    words = ["--tiny", "--names", "fast-9x9-0", "--folder", folder, *options]
    environment = os.environ | {"MEMORY_MAZE_CACHE": str(cache_folder("programs").parent), "COLUMNS": "200"}
    return subprocess.Popen(
        [sys.executable, QUEUE, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )
