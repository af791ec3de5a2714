"""A function called in several programs at once, each on a core of its own."""

import contextlib
import importlib
import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from typing import IO, Any


@contextlib.contextmanager
def calling(function: str, job: Any, workers: int) -> Generator[Iterator[bytes]]:
    """What `module:name` makes of a job and 0, 1, 2, ... without end, in this order.

    The job is plain data. Each worker is at most some calls ahead of who reads.
    """
    # Programs of their own: a process that runs JAX must not be forked, and spawned ones would
    # import the user's script.
    command = [sys.executable, "-c", "from memory_maze.system.subprocesses import _work; _work()"]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for first in range(workers):
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            processes.append(process)
            order = {"function": function, "job": job, "first": first, "stride": workers}
            with _pipe(process.stdin) as pipe:
                pipe.write(json.dumps(order).encode())
        yield (_receive(process, function) for process in itertools.cycle(processes))
    finally:
        for process in processes:
            process.kill()
            process.wait()
            _pipe(process.stdout).close()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def _receive(process: subprocess.Popen[bytes], function: str) -> bytes:
    pipe = _pipe(process.stdout)
    head = pipe.read(8)
    message = pipe.read(int.from_bytes(head))
    if len(head) < 8 or len(message) < int.from_bytes(head):
        raise RuntimeError(
            f"a worker for {function} exited with status {process.wait()}: see its error above"
        )
    return message


def _work() -> None:
    """Writes every so many-th message to standard output, until nobody reads on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program that reads, which ends this one
    order = json.load(sys.stdin)
    module, name = order["function"].split(":")
    function = getattr(importlib.import_module(module), name)
    with contextlib.suppress(BrokenPipeError):
        for index in itertools.count(order["first"], order["stride"]):
            message = function(order["job"], index)
            sys.stdout.buffer.write(len(message).to_bytes(8) + message)
            sys.stdout.buffer.flush()
