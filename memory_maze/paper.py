"""What the paper reports: its tables of the online RL benchmark and of the offline probing benchmarks."""

from typing import Literal, NamedTuple

Target = Literal["walls", "objects"]
TARGETS: tuple[Target, ...] = ("walls", "objects")  # what probes are asked for
STATE_SIZE = 2048  # of a model, so that probes are comparable
RUNS = 5  # of each agent, which a score's error is the standard deviation over
PROBING_RUNS = 3  # of each model
HUMAN_EPISODES = 10  # which the error of the human's scores is the standard error over


class Score(NamedTuple):
    """A mean score."""

    mean: float
    error: float | None = None


def _row(*scores: tuple[float, ...]) -> dict[str, Score]:
    return {f"{size}x{size}": Score(*score) for size, score in zip((9, 11, 13, 15), scores, strict=True)}


# Agents after 100 million steps.
SCORES = {
    "Oracle": _row((34.8,), (58.0,), (74.5,), (87.7,)),
    "Human": _row((26.4, 1.6), (44.3, 2.5), (55.5, 3.5), (67.7, 4.0)),
    "IMPALA": _row((23.4, 0.4), (28.2, 0.3), (27.5, 0.6), (17.7, 1.4)),
    "Dreamer": _row((28.2, 0.8), (20.4, 1.9), (11.6, 0.7), (4.1, 1.2)),
    "Dreamer (TBTT)": _row((33.2, 0.1), (31.4, 3.1), (21.4, 3.0), (5.6, 1.9)),
    # It is told where the objects are while it learns, and so is no baseline of the benchmark.
    "Dreamer (TBTT + Probe loss)": _row((33.9, 0.4), (44.5, 1.2), (37.3, 1.1), (14.7, 1.9)),
}

TOLD = "Dreamer (TBTT + Probe loss)"
MARK = "†"


def mark(name: str) -> str:
    """The name of an agent, marked if it is told during training what the benchmark asks for."""
    return f"{name} {MARK}" if name == TOLD else name


Benchmark = tuple[str, str]  # task and target
BENCHMARKS: tuple[Benchmark, ...] = (
    ("9x9", "walls"),
    ("15x15", "walls"),
    ("9x9", "objects"),
    ("15x15", "objects"),
)


def _probing(*scores: tuple[float, ...]) -> dict[Benchmark, Score]:
    return {benchmark: Score(*score) for benchmark, score in zip(BENCHMARKS, scores, strict=True)}


# After a million gradient steps: percent of walls that are right, and squared error of the objects' places.
PROBING = {
    "Constant baseline": _probing((80.8,), (78.3,), (23.9,), (64.8,)),
    "VAE (no memory)": _probing((84.1, 0.3), (78.7, 0.1), (17.2, 0.2), (56.2, 0.1)),
    "Supervised oracle": _probing((99.7, 0.1), (88.5, 0.1), (0.3, 0.1), (9.2, 0.8)),
    "RSSM": _probing((89.0, 0.3), (80.0, 0.1), (8.3, 0.3), (39.5, 0.3)),
    "VAE+GRU (TBTT)": _probing((90.0, 0.1), (80.2, 0.1), (7.8, 0.2), (34.9, 0.1)),
    "RSSM (TBTT)": _probing((94.0, 0.5), (80.5, 0.2), (6.2, 0.3), (33.8, 0.1)),
}
