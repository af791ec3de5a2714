"""What the paper reports: table "Online RL benchmark results" (section 5)."""

from typing import NamedTuple


class Score(NamedTuple):
    """A mean episode return."""

    mean: float
    error: float | None = None
    """Of agents the standard deviation over five runs, of the human the standard error over ten episodes."""


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
