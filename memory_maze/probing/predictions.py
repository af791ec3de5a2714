"""What the probes of a trained model answer along a trajectory."""

from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from memory_maze.agents.folder import read_config
from memory_maze.agents.weights import load_weights
from memory_maze.data.dataset import Dataset
from memory_maze.palette import OBJECTS, Color
from memory_maze.probing import baselines
from memory_maze.probing.config import ProbeConfig
from memory_maze.probing.evaluate import observe, time_first
from memory_maze.probing.model import SequenceModel, initial_carry
from memory_maze.probing.probe import KEYS, Probe
from memory_maze.probing.train import OptimizerConfig, Run, begin

_CHUNK = 100


class Predictions(NamedTuple):
    """What is true of S steps of a trajectory, and what is answered; None where nothing is asked."""

    images: np.ndarray  # (S, 64, 64, 3) uint8
    positions: np.ndarray  # (S, 2): in cells from the bottom left
    directions: np.ndarray  # (S, 2)
    layout: np.ndarray  # (N, N) bool: free, [y, x], y from the bottom
    objects: np.ndarray  # (n, 2): in cells from the bottom left
    colors: list[Color]  # of the objects
    walls: np.ndarray | None  # (S, N, N) bool: answered to be free
    places: np.ndarray | None  # (S, n, 2): answered, in cells from the bottom left


def load_run(folder: Path, dataset: Dataset) -> tuple[SequenceModel, dict[str, Probe]]:
    """The trained model and probes of a run on data like this."""
    described = read_config(folder)
    if "probe" not in described:
        raise ValueError(f"{folder}: not a run of memory-maze probe")
    settings = described["settings"]
    run = Run(
        described["model"],
        settings and baselines.Config(**settings),
        tuple(described["targets"]),
        ProbeConfig(**described["probe"] | {"told": tuple(described["probe"]["told"])}),
        optimizer=OptimizerConfig(**described["optimizer"]),
        depths=tuple(described.get("depths", ())),  # older runs have none
        batch=1,
    )
    template = eqx.filter_eval_shape(begin, run, dataset.size, dataset.objects)
    parts = load_weights(folder, {"model": template.model, "probes": template.probes})
    return parts["model"], parts["probes"]


def predict(model: SequenceModel, probes: dict[str, Probe], dataset: Dataset, index: int) -> Predictions:
    """Asks at every step of a trajectory, while the state is carried along."""
    if not 0 <= index < len(dataset):
        raise ValueError(f"trajectory {index} is out of range: there are {len(dataset)}, counted from 0")
    length, carry = int(dataset.lengths[index]), initial_carry(model, 1)
    parts: list[dict[str, np.ndarray]] = []
    for begins in range(0, length, _CHUNK):
        times = np.minimum(np.arange(begins, begins + _CHUNK), length - 1)[None]
        batch = dataset.take(np.full_like(times, index), times, KEYS)
        carry, answers = _ask(model, probes, carry, batch, jax.random.key(begins))
        made = jax.device_get({**time_first(batch), **answers})
        parts.append({key: np.asarray(array)[: length - begins, 0] for key, array in made.items()})
    joined = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    to_world = _make_turn(joined["agent_pos"], joined["agent_dir"])
    return Predictions(
        joined["image"],
        joined["agent_pos"],
        joined["agent_dir"],
        joined["maze_layout"][0] > 0,
        to_world(joined["targets_vec"])[0],
        _find_colors(dataset, index),
        joined["walls"] > 0 if "walls" in joined else None,
        to_world(joined["objects"]) if "objects" in joined else None,
    )


@eqx.filter_jit
def _ask(
    model: SequenceModel, probes: dict[str, Probe], carry: Any, batch: dict[str, Any], key: jax.Array
) -> tuple[Any, dict[str, jax.Array]]:
    carry, states, truth = observe(model, carry, batch, key)
    return carry, {target: probe.answer(states, truth) for target, probe in probes.items()}


def _make_turn(positions: np.ndarray, forward: np.ndarray) -> Any:
    """What takes (S, n, 2) places in the agent's frame, to the right and ahead, to cells."""
    right = np.stack([forward[:, 1], -forward[:, 0]], axis=-1)

    def to_world(vectors: np.ndarray) -> np.ndarray:
        along = vectors[..., :1] * right[:, None] + vectors[..., 1:] * forward[:, None]
        return positions[:, None] + along

    return to_world


def _find_colors(dataset: Dataset, index: int) -> list[Color]:
    """Of the objects, where the data tells; of the first ones otherwise."""
    numbers = range(dataset.objects) if dataset.scenes is None else dataset.scenes.colors[index]
    return [OBJECTS[int(number)] for number in numbers]


def mean_score(answers: Predictions, step: int) -> dict[str, float]:
    """How good the answers at one step are."""
    found = {}
    if answers.walls is not None:
        found["walls"] = 100 * float((answers.walls[step] == answers.layout).mean())
    if answers.places is not None:
        found["objects"] = float(np.square(answers.places[step] - answers.objects).sum(axis=-1).mean())
    return found
