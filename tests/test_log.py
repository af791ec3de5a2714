"""Metrics are on disk line by line, and on Weights & Biases where they are asked for."""

import json
import sys

import pytest

from memory_maze.cli import main
from memory_maze.results.metrics import read_metrics
from memory_maze.training.log import Log

pytestmark = pytest.mark.usefixtures("plain_pictures")


def test_lines_after_the_checkpoint_are_written_again(tmp_path):
    log = Log(tmp_path, 0)
    for steps in (10, 20, 30):
        log.write({"steps": steps, "seconds": steps / 10, "loss": 1.0})
    log.close()
    log = Log(tmp_path, 20)
    assert log.seconds == 2.0
    log.write({"steps": 30, "loss": 2.0})
    log.close()
    assert [line["steps"] for line in read_metrics(tmp_path)] == [10, 20, 30]
    assert read_metrics(tmp_path)[-1]["loss"] == 2.0


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """A folder for runs, with Weights & Biases left alone by the rest of the world."""
    pytest.importorskip("wandb")
    for name, value in {
        "MODE": "offline",
        "DIR": "",
        "PROJECT": "",
        "CACHE_DIR": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(f"WANDB_{name}", value) if value else monkeypatch.delenv(f"WANDB_{name}", False)
    return tmp_path / "run"


@pytest.mark.filterwarnings("default")
def test_weights_and_biases_are_told_and_know_the_run_again(offline):
    words = ["train", "impala", "--preset", "debug", "--evaluate", "0", "--wandb"]
    words += ["--out", str(offline), "--log-every", "0"]
    main([*words, "--steps", "32"])
    main([*words, "--steps", "64"])
    runs = sorted((offline / "wandb").glob("offline-run-*"))
    assert len(runs) == 2
    (name,) = {path.name.rpartition("-")[2] for path in runs}
    assert name == (offline / "wandb-id").read_text().strip()
    told = b"".join(path.read_bytes() for run in runs for path in run.glob("*.wandb"))
    assert all(word in told for word in (b"loss_total", b"steps_per_second", b"unroll_length"))
    assert not json.loads((offline / "config.json").read_text())["agent"].get("wandb")


def test_without_the_package_it_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "wandb", None)
    words = ["train", "impala", "--preset", "debug", "--task", "7x7", "--steps", "16", "--wandb"]
    with pytest.raises(SystemExit):
        main([*words, "--out", str(tmp_path / "run")])
    error = capsys.readouterr().err
    assert "--wandb needs wandb: pip install" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()
