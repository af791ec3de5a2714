"""Folders are written to by one process at a time."""

import contextlib
import os
import signal
import socket
import subprocess
import sys

import pytest

from memory_maze.system.files import replacing, sole_writer

pytestmark = pytest.mark.pythons

HOLD = """
import sys
from memory_maze.system.files import sole_writer
with sole_writer(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def held(folder):
    """The process that writes to the folder."""
    command = [sys.executable, "-c", HOLD, folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_folder_has_one_writer_until_it_dies(tmp_path):
    folder = tmp_path / "runs" / "one"
    with held(folder) as other:
        for _ in range(2):
            with (
                pytest.raises(RuntimeError, match=f"one: process {other.pid} is writing to it: wait"),
                sole_writer(folder),
            ):
                pass
        (folder / "weights").touch()
        other.send_signal(signal.SIGKILL)
        other.wait()
        with (
            sole_writer(folder),
            pytest.raises(RuntimeError, match=f"process {os.getpid()} is writing"),
            sole_writer(folder),
        ):
            pass
    assert os.listdir(folder) == ["weights"]


def test_a_folder_that_was_made_for_nothing_is_removed(tmp_path):
    with pytest.raises(ValueError, match="refused"), sole_writer(tmp_path / "run"):
        raise ValueError("refused")
    assert not os.listdir(tmp_path)


def test_a_writer_on_another_host_is_named(tmp_path, monkeypatch):
    with held(tmp_path) as other:
        monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
        with (
            pytest.raises(RuntimeError, match=rf"process {other.pid} on \S+ is writing"),
            sole_writer(tmp_path),
        ):
            pass


def test_where_nothing_can_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    for folder in ("/proc/run", tmp_path / "file" / "run"):
        with (
            pytest.raises(OSError, match=r"run: cannot write to it \(.*\): choose another"),
            sole_writer(folder),
        ):
            pass


def test_what_is_written_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    done = []

    def note(function):
        def call(handle, *others):
            done.append(
                (function.__name__, os.readlink(f"/proc/self/fd/{handle}") if not others else others[0])
            )
            return function(handle, *others)

        return call

    monkeypatch.setattr(os, "fsync", note(os.fsync))
    monkeypatch.setattr(os, "replace", note(os.replace))
    with replacing(tmp_path / "result.json") as path:
        path.write_text("1")
    assert done == [("fsync", str(path)), ("replace", tmp_path / "result.json"), ("fsync", str(tmp_path))]
