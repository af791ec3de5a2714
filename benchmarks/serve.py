"""How late pictures are when many people play at once: `python benchmarks/serve.py`.

Starts `memory-maze serve` and lets players hold the forward key at six steps a second, with large pictures,
from the same machine. A picture's delay reaches from the moment at which its step was due until it has
arrived: the step, drawing, packing and the way through the socket. Writes results/serve-cpu.json.
"""

import asyncio
import dataclasses
import json
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import tyro
from machine import ROOT, describe_run
from rich.console import Console
from rich.table import Table
from websockets.asyncio.client import connect
from websockets.typing import Origin

from memory_maze.system.files import replacing

console = Console()


@dataclasses.dataclass(frozen=True)
class Config:
    """Measure the delay of pictures."""

    players: tuple[int, ...] = (1, 10, 20, 40)
    """How many play at once."""
    seconds: float = 20.0
    """How long."""
    task: str = "15x15"
    """Where."""
    out: Path = ROOT / "results" / "serve-cpu.json"
    """File for the figures."""


def main(config: Config) -> None:
    results = {}
    for count in config.players:
        with tempfile.TemporaryDirectory() as folder:
            results[str(count)] = measure(config, count, folder)
    report = describe_run(graphics=False) | {"seed": None}
    report |= {"settings": {"seconds": config.seconds, "task": config.task}, "results": results}
    with replacing(config.out) as path:
        path.write_text(json.dumps(report, indent=2) + "\n")
    table = Table("players", "pictures a second for each", "median delay, ms", "95 % below, ms", "busy cores")
    for count, figures in results.items():
        row = [figures[key] for key in ("pictures_per_second", "median_ms", "p95_ms", "cores")]
        table.add_row(count, *(f"{value:.2f}" for value in row))
    console.print(table)
    console.print(f"written: {os.path.relpath(config.out)}", soft_wrap=True)


def measure(config: Config, count: int, folder: str) -> dict[str, float]:
    """Of one number of players."""
    options = ["--out", folder, "--port", "0", "--tasks", config.task, "--requests", "1000"]
    command = [sys.executable, "-u", "-m", "memory_maze", "serve", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = re.match(r"open http://([^/]+)/", process.stdout.readline())
    assert found is not None
    try:
        cookies = [enter(found[1], f"P{index}", config.task) for index in range(count)]
        delays = asyncio.run(play_all(found[1], cookies, config.seconds))
    finally:
        process.terminate()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stdout.close()
    every = [delay for some in delays for delay in some]
    return {
        "pictures_per_second": min(map(len, delays)) / config.seconds,
        "median_ms": 1e3 * statistics.median(every),
        "p95_ms": 1e3 * statistics.quantiles(every, n=20)[-1],
        "cores": (usage.ru_utime + usage.ru_stime) / config.seconds,
    }


def enter(host: str, name: str, task: str) -> str:
    """A new player with a new game; returns the cookie."""
    answer = post(host, "/api/me", {"name": name})
    cookie = answer.headers["Set-Cookie"].partition(";")[0]
    post(host, "/api/episodes", {"task": task, "practice": False}, cookie)
    return cookie


def post(host: str, path: str, body: dict[str, Any], cookie: str = "") -> Any:
    headers = {"Content-Type": "application/json", "Origin": f"http://{host}", "Cookie": cookie}
    request = urllib.request.Request(f"http://{host}{path}", json.dumps(body).encode(), headers)
    return urllib.request.urlopen(request, timeout=60)


async def play_all(host: str, cookies: list[str], seconds: float) -> list[list[float]]:
    """The delays of each player's pictures, all of whom begin at once."""
    ready = asyncio.Barrier(len(cookies))
    return await asyncio.gather(*(play(host, cookie, seconds, ready) for cookie in cookies))


async def play(host: str, cookie: str, seconds: float, ready: asyncio.Barrier) -> list[float]:
    address, headers = f"ws://{host}/api/play", {"Cookie": cookie}
    delays = []
    async with connect(address, origin=Origin(f"http://{host}"), additional_headers=headers) as socket:
        await socket.recv()
        await ready.wait()
        await socket.send('{"pause": false}')
        await socket.send('{"keys": 1}')
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            message = await socket.recv()
            assert isinstance(message, bytes)
            (length,) = struct.unpack(">I", message[:4])
            told = json.loads(message[4 : 4 + length])
            delays.append(time.time() - told["due"])
            await socket.send(json.dumps({"seen": told["picture"]}))
    return delays


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
