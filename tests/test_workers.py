"""Functions that are called in programs of their own."""

import itertools
import signal

import psutil
import pytest

from memory_maze.system.subprocesses import calling

pytestmark = pytest.mark.pythons


def shout(job, index):
    if index == job["fails_at"]:
        raise ValueError("no such thing")
    return f"{job['word']} {index}".encode() * (1 + 10_000 * (index % 3))  # some more than a pipe holds


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_messages_come_in_order_from_any_number_of_workers(workers):
    with calling("tests.test_workers:shout", {"word": "hey", "fails_at": None}, workers) as messages:
        heard = list(itertools.islice(messages, 9))
    assert heard == [shout({"word": "hey", "fails_at": None}, index) for index in range(9)]


def test_nobody_works_on_when_nobody_listens():
    before = set(psutil.Process().children(recursive=True))
    with calling("tests.test_workers:shout", {"word": "hey", "fails_at": None}, 2) as messages:
        next(messages)
        assert len(set(psutil.Process().children(recursive=True)) - before) == 2
    assert set(psutil.Process().children(recursive=True)) <= before


def test_ctrl_c_is_not_for_workers(capfd):
    before = set(psutil.Process().children(recursive=True))
    with calling("tests.test_workers:shout", {"word": "hey", "fails_at": None}, 2) as messages:
        next(messages)
        next(messages)
        for process in set(psutil.Process().children(recursive=True)) - before:
            process.send_signal(signal.SIGINT)
        assert len(list(itertools.islice(messages, 20))) == 20
    assert capfd.readouterr().err == ""


def test_an_error_of_a_worker_is_one_here(capfd):
    with calling("tests.test_workers:shout", {"word": "hey", "fails_at": 1}, 2) as messages:
        next(messages)
        with pytest.raises(RuntimeError, match=r"a worker for .* exited with status 1"):
            next(messages)
    assert "ValueError: no such thing" in capfd.readouterr().err
