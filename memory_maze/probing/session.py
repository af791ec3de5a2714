"""A whole run of the benchmark: training, evaluation, and what came of it."""

import dataclasses
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np

from memory_maze.agents.weights import save_agent
from memory_maze.data.dataset import Dataset
from memory_maze.paper import TARGETS
from memory_maze.probing import baselines
from memory_maze.probing.agent import title_agent
from memory_maze.probing.config import ProbeConfig
from memory_maze.probing.constant import evaluate_constant
from memory_maze.probing.evaluate import evaluate, summarize
from memory_maze.probing.train import Learning, OptimizerConfig, Run, describe_mazes, name_depth, train
from memory_maze.results.probing import find_preset, write_result
from memory_maze.system.overrides import override

CONSTANT = "constant"


class Progress(Protocol):
    """Told of how far things are."""

    def show(self, metrics: dict[str, Any]) -> None: ...
    def tell(self, sentence: str) -> None: ...
    def expect(self, steps: int) -> None: ...
    def advance(self, steps: int) -> None: ...


# What a preset says beside the sizes of models.
_RUNS: dict[str, dict[str, Any]] = {
    "paper": {},
    "small": {
        "batch": 16,
        "time": 32,
        "probe": ProbeConfig(units=256, learning_rate=1e-3),
        "optimizer": OptimizerConfig(learning_rate=1e-3),
    },
    "debug": {"batch": 4, "time": 6, "probe": ProbeConfig(units=8), "score_on": 4},
}


def make_run(
    model: str,
    preset: str = "paper",
    *,
    settings: tuple[str, ...] = (),
    probe: tuple[str, ...] = (),
    **values: Any,
) -> Run:
    """A run of a preset with other settings, each given as name=value."""
    defaults = _RUNS[preset]
    config = None
    if model in baselines.MODELS:
        config = override(baselines.PRESETS[preset], settings)
    elif settings:
        raise ValueError(f"{model} has no hyperparameters: only the baselines do")
    made = Run(model, config, **defaults | values)
    return dataclasses.replace(made, probe=override(made.probe, probe))


def probe(
    run: Run,
    train_set: Dataset,
    scored_set: Dataset,
    out: Path,
    trajectories: int | None,
    progress: Progress,
) -> dict[str, Any]:
    """Trains and evaluates, or goes on; writes RUN/result.json and gives it."""
    if run.model == CONSTANT:
        progress.expect(len(train_set) * (train_set.lengths[0] // 2) + int(scored_set.lengths.sum()))
        scores = evaluate_constant(train_set, scored_set, progress.advance)
        run = dataclasses.replace(run, steps=0)
        described = {"state_size": 0, "carries": False, "supervised": False, "frozen": False}
    else:
        learning = train(run, train_set, scored_set, out, progress.show, progress.tell)
        save_agent(out, {"model": learning.model, "probes": learning.probes}, run.describe(train_set))
        count = len(scored_set) if trajectories is None else min(trajectories, len(scored_set))
        progress.expect(int(scored_set.lengths[:count].sum()))
        scores = evaluate(
            learning.model, learning.probes, scored_set, trajectories=count, advance=progress.advance
        )
        described = _describe_model(learning)
    out.mkdir(parents=True, exist_ok=True)
    described |= _describe_run(run, train_set)
    figures = summarize(scores)
    main: dict[str, Any] = {target: figures.pop(target) for target in TARGETS if target in figures}
    return write_result(out, described | {"depths": _find_depths(run, figures)}, main)


def _find_depths(run: Run, figures: dict[str, Any]) -> dict[str, Any]:
    """Of further probes, by their hidden layers."""
    return {
        str(depth): {
            target: {key: figures[name_depth(target, depth)][key] for key in ("mean", "std_error")}
            for target in run.targets
        }
        for depth in (run.depths if figures else ())
    }


def _describe_model(learning: Learning) -> dict[str, Any]:
    model = learning.model
    arrays = [leaf for leaf in jax.tree.leaves(model) if hasattr(leaf, "shape")]
    return {
        "state_size": model.state_size,
        "carries": model.carries,
        "supervised": model.supervised,
        "frozen": model.frozen,
        "parameters": sum(int(np.prod(leaf.shape)) for leaf in arrays),
    }


def _describe_run(run: Run, train_set: Dataset) -> dict[str, Any]:
    preset, changes = find_preset(run.settings, baselines.PRESETS)
    if run.probe != _RUNS[preset or "paper"].get("probe", ProbeConfig()):
        changes = changes | {"probe": dataclasses.asdict(run.probe)}
    manifest = train_set.manifest
    return {
        "model": run.model,
        "title": baselines.TITLES.get(run.model) or title_agent(run.model) or run.model,
        "preset": preset,
        "changes": changes,
        "task": f"{train_set.size}x{train_set.size}",
        **describe_mazes(train_set),
        "seed": run.seed,
        "targets": list(run.targets if run.model != CONSTANT else TARGETS),
        "data": {
            "trajectories": len(train_set),
            "steps": int((train_set.lengths - 1).sum()),
            "format": "npz" if train_set.scenes is None else "scenes",
            "engine": manifest.engine if manifest else None,
            "policy": getattr(manifest, "policy", None),
        },
        "config": run.describe(train_set),
    }
