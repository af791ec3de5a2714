"""A run hears of Ctrl-C and SIGTERM at once, saves itself if that is worth it, and ends."""

import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from memory_maze.training.needs import Forecast
from memory_maze.training.stopping import StopRequest


def ask(*numbers):
    """Signals to this process, in a while."""

    def send():
        for number in numbers:
            time.sleep(0.3)
            os.kill(os.getpid(), number)

    threading.Thread(target=send).start()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_is_told_at_once_and_comes_after_the_update(number):
    told, before = [], signal.getsignal(number)
    stop = StopRequest(lambda sentence: told.append((time.perf_counter(), sentence)))
    stop.worth_saving = True

    def update():
        time.sleep(1.5)  # Python code of the main thread would not run meanwhile either
        return stop.asked, time.perf_counter()

    ask(number)
    asked, ended = stop.heed(update)
    assert asked
    ((when, sentence),) = told
    assert when < ended - 0.5
    assert sentence.startswith("stopping after this update")
    assert stop.signal_number == number
    assert signal.getsignal(number) is before


def test_a_second_ctrl_c_is_not_waited_for():
    stop = StopRequest(lambda sentence: None)
    stop.worth_saving = True
    began = time.perf_counter()
    ask(signal.SIGINT, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        stop.heed(lambda: time.sleep(3))
    assert time.perf_counter() - began < 2
    assert stop.given_up


def test_what_has_nothing_to_save_is_not_waited_for():
    stop = StopRequest(lambda sentence: None)
    ask(signal.SIGINT)
    began = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        stop.heed(lambda: time.sleep(3))
    assert time.perf_counter() - began < 2


def test_errors_and_results_come_through():
    stop = StopRequest(lambda sentence: None)
    assert stop.heed(lambda: 5) == 5
    with pytest.raises(ZeroDivisionError):
        stop.heed(lambda: 1 / 0)
    thread = threading.Thread(target=lambda: stop.heed(lambda: None))
    thread.start()  # of a notebook or a server: there are no signals to listen to
    thread.join()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 128 + signal.SIGINT), (signal.SIGTERM, -15)])
def test_a_program_that_compiles_or_plays_its_first_update_ends_at_once(number, code):
    script = """
import jax
from memory_maze import cli
from memory_maze.commands import tasks
from memory_maze.training.stopping import StopRequest
def compute():
    update = jax.jit(lambda x: jax.lax.while_loop(lambda x: x[0, 0] == 0, lambda x: x @ x, x))
    print("begun", flush=True)
    update(jax.numpy.zeros((512, 512))).block_until_ready()
def run(self):
    StopRequest(print).heed(compute)
tasks.Command.run = run
cli.main(["tasks"])
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begun\n"
    time.sleep(1)
    process.send_signal(number)
    assert process.wait(timeout=10) == code
    process.stdout.close()


def test_a_slow_first_update_is_told_before_it_ends(monkeypatch):
    monkeypatch.setattr("memory_maze.training.needs._PATIENCE", 0.2)
    told = []
    with Forecast(500, "steps", 10, told.append) as forecast:
        time.sleep(0.5)
        forecast.note({})
        forecast.note({})
    assert told[0] == "the first update is still running after 0 s: the run will take more than 2 min"
    assert told[1].startswith("19")
    assert "5,000 will take about 4 min" in told[1]
    assert len(told) == 2


def test_a_forecast_knows_of_the_time_limit_and_of_a_replay_that_is_filled_first():
    told = []
    with Forecast(10_000, "steps", 10, told.append, minutes=0.5) as forecast:
        for updates in (0, 0, 4, 4, 4, 4):
            time.sleep(0.05 if updates else 0.0)
            forecast.note({"updates": updates})
    (line,) = told
    speed, made = re.fullmatch(
        r"([\d.]+) steps per second: about ([\d,]+) in the 0.5 minutes that are left", line
    ).groups()
    assert 1 < float(speed) <= 200  # a busy machine is slower
    assert int(made.replace(",", "")) == pytest.approx(30 * float(speed), rel=0.01)
