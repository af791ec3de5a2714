"""Small agents on a CPU: which runs there are, that they get their minutes, and what is told of them."""

import importlib
import json
import os
import queue
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tyro
from test_report import make_timed

from memory_maze.commands.train import Command

ROOT = Path(__file__).resolve().parents[1]
LAPTOP = ROOT / "benchmarks" / "laptop.py"
AFFINITY = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be pinned here")


@pytest.fixture
def laptop(monkeypatch):
    return load("laptop", monkeypatch)


@pytest.fixture
def documents(monkeypatch):
    return load("documents", monkeypatch)


def load(name, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module(name)


@pytest.mark.parametrize(("what", "task", "runs"), [("smoke", "7x7", 10), ("laptop", "9x9", 6)])
def test_each_run_is_a_command_of_the_package(laptop, what, task, runs):
    config = laptop.Config(what)
    entries = laptop.choose(laptop.PLANS[what], config)
    assert len(entries) == runs
    for entry in entries:
        parsed = tyro.cli(Command, args=entry.command(config.place, 12.5)[4:])
        assert (parsed.task, parsed.preset, parsed.evaluate) == (task, "small", 100)
        assert (parsed.schedule.minutes, parsed.schedule.steps) == (12.5, 1_000_000_000)
        assert parsed.out == ROOT / "runs" / "laptop" / entry.name


def test_some_runs_are_chosen_by_name(laptop):
    chosen = laptop.choose(
        laptop.PLANS["laptop"], laptop.Config("laptop", names=("dreamer-tbtt-small*", "impala*"))
    )
    assert [entry.name for entry in chosen] == [
        "dreamer-tbtt-small-9x9-0",
        "impala-small-9x9-0",
        "dreamer-tbtt-small-9x9-1",
        "dreamer-tbtt-small-9x9-2",
    ]
    with pytest.raises(SystemExit, match="no entry ppo: there are dreamer-tbtt-small-7x7-0, "):
        laptop.choose(laptop.PLANS["smoke"], laptop.Config("smoke", names=("ppo",)))


def test_cores_are_shared_out_equally(laptop, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 2, 3, 5, 7}, raising=False)
    assert laptop.split_cores(1) == [[0, 2, 3, 5, 7]]
    assert laptop.split_cores(2) == [[0, 2], [3, 5]]
    with pytest.raises(SystemExit, match="number of cores, 5"):
        laptop.Config("smoke", together=6)


@AFFINITY
def test_a_run_has_its_share_of_the_cores(laptop):
    before = os.sched_getaffinity(0)
    shares = queue.Queue()
    shares.put([min(before)])
    try:
        with laptop.holding(shares) as environment:
            code = "from memory_maze.system.cpu import num_cores; print(num_cores())"
            told = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | environment
            )
    finally:
        os.sched_setaffinity(0, before)
    assert told.stdout == "1\n"
    assert shares.get_nowait() == [min(before)]


class Trained:
    """Stands for `memory-maze train`: some seconds of a call may be lost, as if it had been killed."""

    def __init__(self, laptop, monkeypatch, lost=()):
        self.minutes, self.seconds, self.evaluated, self._lost = [], 0, 0, list(lost)
        monkeypatch.setattr(laptop, "run", self._train)
        monkeypatch.setattr(laptop, "call", self._evaluate)

    def _train(self, command, environment):
        minutes, folder = (command[command.index(name) + 1] for name in ("--minutes", "--out"))
        self.minutes.append(float(minutes))
        Path(folder).mkdir(parents=True, exist_ok=True)
        self.seconds += 60 * float(minutes) - (self._lost.pop(0) if self._lost else 0)
        (Path(folder) / "metrics.jsonl").write_text(json.dumps({"steps": 9, "seconds": self.seconds}) + "\n")
        (Path(folder) / "agent.safetensors").write_bytes(b"w")

    def _evaluate(self, minutes, *words, environment):
        self.evaluated += 1


def test_a_run_trains_for_its_minutes_however_often_it_is_called(laptop, monkeypatch, tmp_path):
    config = laptop.Config("smoke", runs=tmp_path, out=tmp_path / "results", minutes=10)
    entry = laptop.make_entry("impala", "7x7", 0, config)
    monkeypatch.setattr(laptop.os, "sched_setaffinity", lambda process, cores: None, raising=False)
    shares = queue.Queue()
    shares.put([0])
    trained = Trained(laptop, monkeypatch, lost=[240])
    laptop.make(config, laptop.PLANS["smoke"], entry, shares)
    assert trained.minutes == [10, 4]
    laptop.make(config, laptop.PLANS["smoke"], entry, shares)
    assert trained.minutes == [10, 4], "it has trained"
    assert trained.evaluated == 2, "it has no evaluation yet, whatever stopped it"
    assert laptop.find_minutes_left(tmp_path / entry.name, 14) == pytest.approx(4)
    assert laptop.find_minutes_left(tmp_path / entry.name, 10.01) == 0, "it is not worth beginning"


@pytest.mark.parametrize(
    ("new", "old", "replaced"),
    [
        ((900, 400_000, "2"), (900, 500_000, "1"), True),
        ((900, 400_000, "1"), (900, 500_000, "2"), False),
        ((900, 500_000, "2"), (3600, 400_000, "1"), False),
        ((3600, 400_000, "1"), (900, 500_000, "2"), True),
    ],
)
def test_a_longer_run_is_never_replaced_by_a_shorter_one(laptop, tmp_path, new, old, replaced):
    def save(path, seconds, steps, date):
        path.parent.mkdir()
        evaluations = [{"mean": 1.0, "date": date}]
        training = {"seconds": seconds, "steps": steps, "steps_planned": 10**9}
        path.write_text(json.dumps({"training": training, "evaluations": evaluations, "date": date}))

    copy = tmp_path / "results" / "copy.json"
    save(tmp_path / "run" / "result.json", *new)
    save(copy, *old)
    laptop.copy_result(tmp_path / "run", copy, laptop.count_minutes)
    assert (json.loads(copy.read_text())["date"] == new[2]) == replaced


def make_results():
    hardware = {"cores": 2, "cpu": "AMD EPYC"}
    results = [
        make_timed(seed, 500_000, mean) | {"hardware": hardware} for seed, mean in ((0, 2.0), (1, 3.0))
    ]
    return [
        *results,
        make_timed(0, 300_000, 4.0) | {"title": "Dreamer (TBTT + Probe loss)", "hardware": None},
    ]


def test_results_are_beside_a_random_policy_and_the_oracle(documents):
    table = documents.laptop_table(make_results())
    policies = json.loads((ROOT / "results" / "policies.json").read_text())
    random, oracle = (f"{policies[f'{name} 9x9 jax']['mean']:.2f}" for name in ("random", "oracle"))
    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    assert lines[:3] == [
        "| Dreamer (TBTT + Probe loss) † | 9x9 | 0 | 15 min | - | 300k | 4.00 ± 0.70 |",
        "| IMPALA | 9x9 | 0 | 15 min | 2 | 500k | 2.00 ± 0.70 |",
        "| IMPALA | 9x9 | 1 | 15 min | 2 | 500k | 3.00 ± 0.70 |",
    ]
    assert lines[3].startswith(f"| random | 9x9 | - | - | - | - | {random} ± ")
    assert lines[4].startswith(f"| oracle | 9x9 | - | - | - | - | {oracle} ± ")
    assert "† is given the object positions" in table
    assert "on AMD EPYC, 2026-11-15" in table
    told = documents.laptop_note(make_results())
    assert "IMPALA scores 2.0 and 3.0 after 15 min on 2 cores; a random policy 0.1." in told


def test_what_was_not_measured_is_not_told(documents, tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "ROOT", tmp_path)
    for name in documents.OPTIONAL:
        read = documents.read(tmp_path / name)
        assert {draw(read) for page in documents.PAGES.values() if (draw := page.get(name))} == {
            "Not measured yet."
        }
    (tmp_path / "results" / "laptop").mkdir(parents=True)
    (tmp_path / "results" / "laptop" / "forget.json").write_text("{}")
    assert documents.read(tmp_path / "results" / "laptop") == []


def test_what_a_memory_is_worth_is_told_with_its_interval(laptop, documents, monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    difficulty = rng.normal(5, 2, size=100)
    scores = iter([difficulty, difficulty - 1 + rng.normal(0, 0.1, 100)])

    def evaluate(policy, task, episodes, options):
        played = next(scores)
        kept = {"mean": played.mean(), "std_error": 0.2, "interval_95": None, "scores": played.tolist()}
        return kept | {
            "rewards_per_100_steps": [],
            "episodes": 100,
            "held_out": True,
            "layouts": 9,
            "seed": 0,
        }

    monkeypatch.setattr(laptop, "evaluate", evaluate)
    monkeypatch.setattr(laptop, "load_policy", lambda name: None)
    monkeypatch.setattr(laptop, "read_environment", lambda folder: (None, None))
    found = laptop.compare(tmp_path, make_timed(0, 500_000), 100)
    low, high = found["interval_95"]
    assert found["change"] == pytest.approx(-1, abs=0.05)
    assert low < found["change"] < high
    assert high - low < 0.1, "the same mazes differ less than their scores"
    assert {"command", "commit", "hardware", "date", "seed"} <= found.keys()
    table = documents.forget_table({"impala": found})
    assert "| IMPALA | 9x9 | 0 | 15 min | " in table
    assert f"| {found['change']:+.2f} ({low:+.2f} to {high:+.2f}) |" in table


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_real_agent_is_trained_once_and_compared(tmp_path):
    """Of the package itself, so small that a CPU can do it."""
    out = call("smoke", tmp_path, "--minutes", "0.1", "--names", "impala*")
    assert "IMPALA, preset debug │ 7x7" in out
    assert "oracle" in out
    (copy,) = (tmp_path / "results" / "laptop-smoke").glob("*.json")
    assert json.loads(copy.read_text())["evaluations"][0]["episodes"] == 3
    lines = (tmp_path / copy.stem / "metrics.jsonl").read_text()
    assert "trained:" not in call("smoke", tmp_path, "--minutes", "0.1", "--names", "impala*")
    assert (tmp_path / copy.stem / "metrics.jsonl").read_text() == lines
    call("forget", tmp_path)
    report = json.loads((tmp_path / "results" / "laptop" / "forget.json").read_text())
    assert report[copy.stem]["forget_every"] == 50
    assert (
        report[copy.stem]["remembering"]["scores"] == json.loads(copy.read_text())["evaluations"][0]["scores"]
    )


def call(what, runs, *words):
    words = [what, "--preset", "debug", "--episodes", "3", "--runs", str(runs), *words]
    process = subprocess.run(
        [sys.executable, LAPTOP, *words], capture_output=True, text=True, env=os.environ | {"COLUMNS": "200"}
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout
