"""Evaluate a policy over whole episodes and report its score.

Trained agents are evaluated on held-out layouts, which no agent is trained on.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.console import Console

from memory_maze.commands.environment import DEFAULT, Environment
from memory_maze.scenario import Scenario
from memory_maze.tasks import Task

console = Console()
_BARS = "▁▂▃▄▅▆▇█"


@dataclasses.dataclass(frozen=True)
class Command:
    """Its options."""

    policy: tyro.conf.Positional[str]
    """oracle, explorer, random, a run directory, a shipped agent by name (like impala-9x9), or your own as
    module:name."""
    task: str | None = None
    """Task; by default the one the agent was trained on, and 9x9 for other policies."""
    episodes: int = 100
    """Number of episodes, each in a different maze."""
    engine: Literal["jax", "mujoco"] = "jax"
    """Engine to play on; mujoco needs the extra [mujoco]."""
    seed: int = 0
    """Seed of the first maze; episode i uses seed + i."""
    held_out: bool = False
    """Use held-out layouts for other policies too; trained agents always do."""
    forget_every: int | None = None
    """Reset the memory every N steps; the drop in score is due to what was remembered from longer ago."""
    json: Path | None = None
    """File for the results (.json)."""
    video: Path | None = None
    """File for a video (.mp4) of the first episode as seen by the agent; needs the extra [video]."""
    environment: Environment = DEFAULT

    def run(self) -> None:
        from memory_maze.agents.folder import find_environment, find_folder
        from memory_maze.agents.load import check_agent, load_policy
        from memory_maze.policies.forgetful import Forgetful
        from memory_maze.system.files import check_writable, replacing
        from memory_maze.system.provenance import short_name

        if self.video is not None:
            _check_video(self.video)
        for file in (self.json, self.video):
            if file is not None:
                check_writable(file)
        folder = find_folder(self.policy)
        own = find_environment(self.policy)
        task, options = self.environment.choose(self.task, own)
        check_agent(self.policy, options)
        # Before they are loaded, as a run in progress may overwrite them.
        weights = None if folder is None else _hash(folder)
        policy, name = load_policy(self.policy), short_name(self.policy)
        if self.forget_every is not None:
            policy = Forgetful(policy, self.forget_every)
            console.print(f"memory of {name} is reset every {self.forget_every} steps", soft_wrap=True)
        report = evaluate_shown(
            policy,
            task,
            self.episodes,
            name,
            engine=self.engine,
            seed=self.seed,
            held_out=self.held_out or None,
            video=self.video,
            options=options,
        )
        if self.video is not None:
            console.print(f"written: {self.video}", soft_wrap=True)
        if self.json is not None:
            with replacing(self.json) as path:
                told = {"policy": name, "forget_every": self.forget_every}
                path.write_text(json.dumps(told | report, indent=2) + "\n")
            console.print(f"written: {self.json}", soft_wrap=True)
        # Ablations do not go into the result file.
        if folder is not None and weights is not None and self.forget_every is None:
            _note(folder, report | {"weights": weights}, own == (task, options))


def evaluate_shown(
    policy: Any, task: Task, episodes: int, name: str, *, video: Path | None = None, **settings: Any
) -> dict[str, Any]:
    """`evaluate` with a progress bar and a printed summary; the report includes its origin."""
    from rich.progress import Progress

    from memory_maze.episodes.evaluate import describe_few_layouts, evaluate
    from memory_maze.episodes.rollout import Recording
    from memory_maze.options import Options
    from memory_maze.system.provenance import describe_origin
    from memory_maze.variants import name_task
    from memory_maze.watch.episode import write_episode

    engine = settings.setdefault("engine", "jax")
    options = settings.setdefault("options", Options())
    where, steps = name_task(task, options), task.episode_steps(options.control_freq)

    def film(scenarios: list[Scenario], recording: Recording) -> None:
        if video is not None:
            write_episode(video, scenarios[0], recording, engine, name, options)

    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task(f"{name} in {where}", total=episodes * steps)
        advance = lambda steps: progress.advance(bar, steps)  # noqa: E731
        report = evaluate(policy, task, episodes, advance=advance, watch=film, **settings)
    spread = describe_interval(report["interval_95"])
    kind = "held-out" if report["held_out"] else "different"
    console.print(
        f"{name} in {where} on {engine}: {report['mean']:.2f}{spread}, {episodes} episodes in "
        f"{report['layouts']} {kind} layouts",
        soft_wrap=True,
    )
    if few := describe_few_layouts(report):
        console.print(few, soft_wrap=True)
    for rival, share in report.get("share_of_paper", {}).items():
        console.print(f"{100 * share:.0f} % of the paper's {rival}")
    if bins := report["rewards_per_100_steps"]:
        console.print(f"rewards per 100 steps: {draw_bars(bins)}", soft_wrap=True, highlight=False)
    return report | describe_origin()


def describe_interval(interval: list[float] | None) -> str:
    """Empty if there are too few episodes for one."""
    return "" if interval is None else " ({:.2f} to {:.2f} with 95 % confidence)".format(*interval)


def draw_bars(values: list[float]) -> str:
    """A line of bars with the first, the largest and the last value."""
    bars = _BARS if console.encoding.startswith("utf") else "12345678"
    top = max(values) or 1.0
    line = "".join(bars[round(max(value, 0) / top * (len(bars) - 1))] for value in values)
    return f"{line} first {values[0]:.2f}, last {values[-1]:.2f}, max {max(values):.2f}"


def _check_video(path: Path) -> None:
    """Before minutes of playing, not after."""
    from memory_maze.system.video import import_video

    import_video()
    if path.suffix != ".mp4":
        raise ValueError(f"{path}: videos are .mp4 files")


def _hash(folder: Path) -> str | None:
    """Of the weights of a run, whose result can be read; agents alone keep no results."""
    from memory_maze.results.online import hash_weights, is_run, read_result

    if not is_run(folder):
        return None
    read_result(folder)  # rather now than after minutes: if it is damaged, this says so
    return hash_weights(folder)


def _note(folder: Path, report: dict[str, Any], own: bool) -> None:
    """Adds an evaluation to the result of a run, if it is of the run's own task and variant."""
    from memory_maze.agents.folder import RESULT, read_environment
    from memory_maze.results.online import add_evaluation, hash_weights
    from memory_maze.variants import name_task

    if hash_weights(folder) != report["weights"]:
        console.print(f"{folder / RESULT} unchanged: the run has continued in the meantime", soft_wrap=True)
        return
    if not own:
        where = name_task(*read_environment(folder))
        console.print(f"{folder / RESULT} unchanged: the agent was trained on {where}", soft_wrap=True)
        return
    try:
        added = add_evaluation(folder, report)
    except OSError as error:  # a run of somebody else
        console.print(f"not added: {error}", soft_wrap=True)
        return
    if added:
        console.print(f"added to: {folder / RESULT}", soft_wrap=True)
    else:
        console.print(
            f"{folder / RESULT} unchanged: it already has an evaluation with more episodes", soft_wrap=True
        )
