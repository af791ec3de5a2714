"""Train an agent. Run it again to resume, also with more steps."""

import dataclasses
from pathlib import Path
from typing import Any

import tyro

from memory_maze.commands.environment import DEFAULT as VARIANT
from memory_maze.commands.environment import Environment
from memory_maze.commands.schedule import DEFAULT as SCHEDULE
from memory_maze.commands.schedule import Scheduled
from memory_maze.system.extras import missing

_DEFAULTS: dict[str, Any] = {"steps": 100_000_000, "layouts": None, "evaluate": 100}
_SHOWN = {"loss": "loss_total", "entropy": "loss_entropy"}
_TINY: dict[str, Any] = {"steps": 512, "layouts": 64, "evaluate": 5}


@dataclasses.dataclass(frozen=True)
class Command:
    """Its options."""

    agent: tyro.conf.Positional[str]
    """Agent: impala, or your own config class as package.module:Name."""
    out: Path
    """Run directory: checkpoints, metrics.jsonl, TensorBoard, weights, and result.json."""
    task: str = "9x9"
    """Task, or any odd size like 7x7."""
    preset: str | None = None
    """Set of hyperparameters: fast for a GPU, small for a CPU, paper for comparison, debug for tests. By
    default fast, or small without a GPU."""
    set: tuple[str, ...] = ()
    """Hyperparameters to change, as name=value: --set learning_rate=1e-3 core=gru core.size=128."""
    layouts: int | None = None
    """Number of layouts to train on; by default enough for 100 million steps, or 64 with preset debug."""
    evaluate: int | None = None
    """Episodes of the final evaluation on held-out layouts; 0 skips it. By default 100, or 5 with preset
    debug."""
    strips: bool = False
    """Write open-loop/STEPS.png at each checkpoint: the 45 images that a world model imagines after it has
    seen 5, above those that were really seen; needs the extra [video]."""
    distributed: bool = False
    """Train on several hosts, detected by JAX, for example under SLURM. Start the same command on each."""
    coordinator: str | None = None
    """Without automatic detection: address and free port of the first host, HOST:PORT."""
    hosts: int | None = None
    """Without automatic detection: number of hosts."""
    host: int | None = None
    """Without automatic detection: index of this host, from 0."""
    schedule: Scheduled = SCHEDULE
    environment: Environment = VARIANT

    def run(self) -> None:
        from rich.console import Console

        from memory_maze.commands.presets import choose_preset, find_preset
        from memory_maze.splits import SEED_STRIDE
        from memory_maze.system.limits import check_between
        from memory_maze.system.overrides import override

        task, options = self.environment.task(self.task), self.environment.parse()
        self.schedule.check()
        check_between(0, SEED_STRIDE, evaluate=self.evaluate)
        try:
            from memory_maze.agents.folder import RESULT
            from memory_maze.agents.registry import find_config
            from memory_maze.results.online import read_result, write_result
            from memory_maze.training.devices import connected, is_first, sole_writers, use_cores
            from memory_maze.training.run import find_devices
        except ModuleNotFoundError as error:
            raise missing(f"training needs {error.name}", error.name, "train") from error
        agent = find_config(self.agent)
        if self.preset is not None:
            find_preset(agent, self.preset)
        if not self.distributed and self.hosts is None:
            on_cpu = override(find_preset(agent, self.preset or "small"), self.set)
            # XLA shares the updates of a replay among cores by itself, as its products are larger.
            counts = (1,) if on_cpu.learns_from == "replay" else (on_cpu.num_envs, on_cpu.batch_size)
            use_cores(*counts, devices=find_devices(self.out))
        if (self.out / RESULT).exists():
            read_result(self.out)  # fail now rather than after hours if it is damaged
        with (
            connected(self.distributed, self.coordinator, self.hosts, self.host),
            sole_writers(self.out),
        ):
            console = Console(quiet=not is_first())
            preset = self.preset or choose_preset(console, "fast")
            self._train(agent, preset, task, options, console)
            result = write_result(self.out) if is_first() else None
        if result is None:
            return
        console.print(f"trained: {self.out}", soft_wrap=True)
        if episodes := self._or_default("evaluate", preset):
            self._evaluate(result, episodes, task, options)
        console.print(f"evaluate it again with: memory-maze evaluate {self.out}", soft_wrap=True)

    def _or_default(self, name: str, preset: str) -> Any:
        """The given value, or the default for the preset."""
        given = self.schedule.steps if name == "steps" else getattr(self, name)
        return (_TINY if preset == "debug" else _DEFAULTS)[name] if given is None else given

    def _train(self, agent: Any, preset: str, task: Any, options: Any, console: Any) -> None:
        from memory_maze.commands.presets import find_preset
        from memory_maze.results.online import write_result
        from memory_maze.system.overrides import override
        from memory_maze.training.devices import is_first
        from memory_maze.training.progress import Bars
        from memory_maze.training.run import Run, train
        from memory_maze.training.stopping import RunStoppedError
        from memory_maze.variants import name_task

        run = Run(
            task,
            override(find_preset(agent, preset), self.set),
            layouts=self._or_default("layouts", preset),
            options=options,
            strips=self.strips,
            **self.schedule.values() | {"steps": self._or_default("steps", preset)},
        )
        try:
            with Bars(console, run.steps, f"{agent.title} in {name_task(task, options)}") as bars:
                train(
                    run,
                    self.out,
                    lambda metrics: bars.show(metrics["steps"], describe(metrics)),
                    tell=lambda sentence: console.print(sentence, soft_wrap=True, markup=False),
                )
        except RunStoppedError:
            if is_first():
                write_result(self.out)
            raise

    def _evaluate(self, result: dict[str, Any], episodes: int, task: Any, options: Any) -> None:
        """Evaluates the agent, unless an earlier call did."""
        from memory_maze.agents.load import load_policy
        from memory_maze.commands.evaluate import evaluate_shown
        from memory_maze.results.online import add_evaluation

        done = [one["episodes"] for one in result["evaluations"] if one["engine"] == "jax"]
        if done and done[0] >= episodes:
            return
        policy = load_policy(str(self.out))
        report = evaluate_shown(policy, task, episodes, self.out.name, options=options)
        add_evaluation(self.out, report | {"weights": result["weights"]})


def describe(metrics: dict[str, Any]) -> str:
    """Metrics as a line of text."""
    score = [] if metrics["return"] is None else [f"return {metrics['return']:.2f}"]
    known = {name: metrics[key] for name, key in _SHOWN.items() if metrics.get(key) is not None}
    losses = [f"{name} {value:.3g}" for name, value in known.items()]
    if metrics.get("updates") == 0:
        losses = ["filling the replay"]
    speed = f"{metrics['steps'] / 1e6:.2f}M steps, {metrics['steps_per_second']:,.0f}/s"
    return ", ".join([speed, *score, *losses])
