"""What a change of the code's shape must leave as it is: returns, data sets and metrics, as digests.

    python benchmarks/behaviour.py --out before.json       in one checkout
    python benchmarks/behaviour.py --compare before.json   in another: ends with 1 if anything differs

Everything runs on the CPU by the JAX engine, as commands of the checkout that the file is called in.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

TIMED = {"seconds", "steps_per_second", "compile_seconds"}
DIGITS = 6  # of metrics: programs that are divided otherwise round differently


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, help="file for the digests")
    parser.add_argument("--compare", type=Path, help="file of another checkout")
    parser.add_argument("--episodes", type=int, default=20, help="of the trained agent")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), arguments.episodes)
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")
    if arguments.compare:
        before = json.loads(arguments.compare.read_text())
        differing = [key for key in before.keys() | found.keys() if before.get(key) != found.get(key)]
        print("the same:", ", ".join(key for key in found if key not in differing) or "nothing")
        print("different:", ", ".join(sorted(differing)) or "nothing")
        sys.exit(bool(differing))


def measure(folder: Path, episodes: int) -> dict[str, Any]:
    """What the commands of this checkout do, in a folder for their files."""
    call(folder, f"evaluate impala-9x9 --episodes {episodes} --json scores.json")
    found: dict[str, Any] = {"scores": json.loads((folder / "scores.json").read_text())["scores"]}
    for form in ("scenes", "npz"):
        call(folder, f"collect --task 7x7 --episodes 64 --evaluation 16 --out {form} --format {form}")
        found[form] = digest(folder / form)
    call(folder, "convert scenes both --format npz")
    found["converted"] = digest(folder / "both")
    call(folder, "train impala --preset debug --task 7x7 --out online --log-every 0 --evaluate 0")
    found["metrics of training"] = read_metrics(folder / "online")
    probing = "probe rssm-tbtt --task 7x7 --preset debug --data scenes --out probing"
    call(folder, f"{probing} --log-every 0 --steps 8 --score-every 4")
    found["metrics of probing"] = read_metrics(folder / "probing")
    return found


def call(folder: Path, words: str) -> None:
    environment = os.environ | {"PYTHONPATH": os.getcwd(), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "memory_maze", *words.split()]
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)


def digest(folder: Path) -> str:
    """Of all arrays of a data set."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*.npz")):
        with np.load(path) as arrays:
            for name in sorted(arrays):
                total.update(
                    f"{path.relative_to(folder)}/{name}".encode()
                    + np.ascontiguousarray(arrays[name]).tobytes()
                )
    return total.hexdigest()


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """All but times, rounded."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: _round(value) for key, value in line.items() if key not in TIMED} for line in lines]


def _round(value: Any) -> Any:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
