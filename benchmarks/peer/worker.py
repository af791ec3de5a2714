"""Measures one package for `reference.py`: requests come in and answers go out as lines of JSON.

Runs in the environment of either package, since both offer the same constructors.
"""

import hashlib
import json
import os
import platform
import sys
import time
from importlib import metadata

import numpy as np

PACKAGES = ("memory-maze", "mujoco", "numpy", "labmaze", "dm-control")


def main():
    answers = take_stdout()
    bench = Bench()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(bench, request.pop("do"))(**request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def take_stdout():
    """Keeps stdout for answers: whatever else is printed, by C code too, goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


class Bench:
    """One environment and the random walk through it."""

    def open(self, task, seed, keywords):
        """Import, construction and first reset: only their sum does not depend on what is lazy."""
        start = time.perf_counter()
        from memory_maze import tasks

        self.env = getattr(tasks, f"memory_maze_{task}")(seed=seed, image_only_obs=True, **keywords)
        self.env.reset()
        seconds = time.perf_counter() - start
        self.actions = np.random.RandomState(seed)
        return {"seconds": seconds}

    def versions(self):
        found = {"python": platform.python_version()}
        for package in PACKAGES:
            try:
                found[package] = metadata.version(package)
            except metadata.PackageNotFoundError:
                continue
        return found

    def walk(self, resets, steps):
        """Times resets one by one, then a walk by uniform random actions."""
        reset_ms = []
        for _ in range(resets):
            start = time.perf_counter()
            self.env.reset()
            reset_ms.append(1e3 * (time.perf_counter() - start))
        actions = self.actions.randint(6, size=steps).tolist()
        start = time.perf_counter()
        for action in actions:
            timestep = self.env.step(action)
        seconds = time.perf_counter() - start
        return {
            "reset_ms": reset_ms,
            "steps_per_second": steps / seconds,
            "last_picture": hashlib.sha256(timestep.observation.tobytes()).hexdigest(),
        }

    def memory(self, warmup, resets):
        """Resident memory after resets, and its growth over them, in MB."""
        for _ in range(warmup):
            self.env.reset()
        before = resident_bytes()
        for _ in range(resets):
            self.env.reset()
        after = resident_bytes()
        return {"resident_mb": after / 1e6, "growth_mb": (after - before) / 1e6}


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
