"""Train a sequence model and probe its state for walls and objects. Run it again to resume."""

import dataclasses
from pathlib import Path
from typing import Any, Literal

import tyro

from memory_maze.commands.schedule import DEFAULT as SCHEDULE
from memory_maze.commands.schedule import Scheduled
from memory_maze.probing.config import INTERLEAVE
from memory_maze.system.extras import missing


@dataclasses.dataclass(frozen=True)
class Command:
    """Its options."""

    model: tyro.conf.Positional[str]
    """constant, vae, supervised, rssm, vae-gru, rssm-tbtt, rssm-untrained, the directory of an agent with a
    world model, or package.module:Name."""
    out: Path
    """Run directory: checkpoints, metrics.jsonl, TensorBoard, weights, and result.json."""
    task: str = "9x9"
    """Task; the benchmarks use 9x9 and 15x15."""
    data: str | None = None
    """Data set to train on, from `memory-maze collect`; by default data/TASK."""
    targets: tuple[Literal["walls", "objects"], ...] = ("walls", "objects")
    """What the probes predict; supervised models have a single target."""
    preset: Literal["paper", "small", "debug"] | None = None
    """Sizes of model, probes and batches: as in the paper, small for a CPU, tiny for tests. By default paper,
    or small without a GPU."""
    set: tuple[str, ...] = ()
    """Hyperparameters of the model to change, as name=value: --set recurrent=1024."""
    probe: tuple[str, ...] = ()
    """Hyperparameters of the probes to change, as name=value: --probe layers=2. Makes scores incomparable."""
    depths: tuple[int, ...] = ()
    """Train additional probes with these numbers of hidden layers: --depths 0 1 2."""
    interleave: int = INTERLEAVE
    """Number of batches of different trajectories that alternate when training models with TBTT; with few,
    consecutive batches show the same mazes. NPZ trajectories in progress are held in memory if they fit."""
    trajectories: int | None = None
    """Trajectories to evaluate on; by default the whole evaluation split."""
    score_every: int = 10_000
    """Gradient steps between evaluations on some trajectories, for the learning curve."""
    schedule: Scheduled = SCHEDULE

    def run(self) -> None:
        from rich.console import Console

        from memory_maze.commands.presets import choose_preset
        from memory_maze.system.files import sole_writer
        from memory_maze.system.limits import check_least
        from memory_maze.training.progress import Bars

        try:
            from memory_maze.probing.session import make_run, probe
        except ModuleNotFoundError as error:
            raise missing(f"probing needs {error.name}", error.name, "train") from error
        self.schedule.check()
        check_least(1, trajectories=self.trajectories)
        console = Console()
        run = make_run(
            self.model,
            self.preset or choose_preset(console, "paper"),
            settings=self.set,
            probe=self.probe,
            targets=self.targets,
            depths=self.depths,
            interleave=self.interleave,
            score_every=self.score_every,
            **self.schedule.values(),
        )
        train_set, scored_set = self._load()
        with sole_writer(self.out), Bars(console, run.steps, f"{self.model} in {self.task}") as bars:
            result = probe(run, train_set, scored_set, self.out, self.trajectories, _Progress(bars, console))
        if (made := result["training"]["steps"]) < run.steps and result["training"]["steps_planned"]:
            console.print(f"time limit reached after {made:,} of {run.steps:,} steps; run it again to resume")
        for target, figures in result["evaluation"].items():
            console.print(_describe(result, target, figures), soft_wrap=True)
            for depth, others in result["depths"].items():
                console.print(f"  with {depth} hidden layers: {others[target]['mean']:.2f}", soft_wrap=True)
        console.print(f"written: {self.out / 'result.json'}", soft_wrap=True)

    def _load(self) -> tuple[Any, Any]:
        from memory_maze import data
        from memory_maze.tasks import parse_task

        size = parse_task(self.task).size
        place = self.data or f"data/{self.task}"
        if self.data is None and not Path(place).exists():
            raise FileNotFoundError(
                f"{place}: no data set found: create one with memory-maze collect --task {self.task} "
                f"--episodes 30000 --out {place}, or give one with --data"
            )
        train_set, scored_set = (data.load(place, split) for split in ("train", "eval"))
        if train_set.size != size:
            raise ValueError(
                f"{place} has {train_set.size}x{train_set.size} mazes, not {size}x{size}: check --task"
            )
        return train_set, scored_set


def _describe(result: dict[str, Any], target: str, figures: dict[str, Any]) -> str:
    from memory_maze.paper import PROBING

    form = "{:.1f} % of the walls" if target == "walls" else "{:.2f} squared error of the objects"
    line = f"{result['title']} in {result['task']}: {form.format(figures['mean'])}"
    error = figures["std_error"]
    line += "" if error is None else f" (± {error:.2f} over {figures['trajectories']:,} trajectories)"
    published = PROBING.get(result["title"], {}).get((result["task"], target))
    return line + (f"; paper: {published.mean}" if published else "")


class _Progress:
    """A progress bar for training, then one for evaluation."""

    def __init__(self, bars: Any, console: Any) -> None:
        self._bars, self._console, self._scoring = bars, console, None

    def tell(self, sentence: str) -> None:
        """Above the bars."""
        self._console.print(sentence, soft_wrap=True, markup=False)

    def show(self, metrics: dict[str, Any]) -> None:
        """A line of training."""
        asked = [target for target in ("walls", "objects") if f"score_{target}" in metrics]
        scores = [f"{target} {metrics[f'score_{target}']:.2f}" for target in asked]
        line = f"{metrics['steps']:,} steps, {metrics['steps_per_second']:.1f}/s, {', '.join(scores)}"
        self._bars.show(metrics["steps"], line)

    def expect(self, steps: int) -> None:
        """So many steps are about to be scored."""
        self._scoring = self._bars.add(steps, "evaluation")

    def advance(self, steps: int) -> None:
        """So many have been."""
        self._bars.advance(self._scoring, steps)
