"""Which mazes are for training and which for evaluation: the rule that no agent and no data set may break."""

import hashlib

import numpy as np

from memory_maze.options import DEFAULT, Options
from memory_maze.sampler import MAX_SEED, make_sampler
from memory_maze.scenario import Scenario, layout_of
from memory_maze.tasks import Task
from memory_maze.world import bit_rows

# One layout in so many, chosen by its walls, is kept for evaluation.
HELD_OUT_SHARE = 16
SEED_STRIDE = 1 << 20  # from a seed to the next one to try
_TRIES = 4000


def holds_out(walls: np.ndarray) -> bool:
    """Whether a layout is kept for evaluation; its walls are (N,) uint32 bit rows.

    Decided by the layout itself, so that both kinds keep the generator's frequencies.
    """
    return hashlib.sha256(walls.tobytes()).digest()[0] % HELD_OUT_SHARE == 0


def is_held_out(scenario: Scenario) -> bool:
    """Whether a scenario's layout is kept for evaluation."""
    return holds_out(bit_rows(layout_of(scenario) == 0))


def draw_scenario(
    task: Task,
    seed: int,
    held_out: bool,
    options: Options = DEFAULT,
) -> tuple[int, Scenario]:
    """A scenario with a layout for evaluation, or with one for training, and the seed that it has.

    It is the first of the seed, or of the first one a million or millions later whose layout is of the kind.
    """
    for attempt in range(_TRIES):
        chosen = (seed + attempt * SEED_STRIDE) % (MAX_SEED + 1)
        scenario = make_sampler(task, chosen, options).sample()
        if is_held_out(scenario) == held_out:
            return chosen, scenario
    kind = "evaluation" if held_out else "training"
    raise RuntimeError(
        f"no {task.name} maze for {kind} in {_TRIES:,} tries: mazes of this size have few layouts; "
        "choose another seed, or no evaluation"
    )
