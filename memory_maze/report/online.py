"""The scores of trained agents beside the paper's: from results to the rows of a table."""

import collections
import dataclasses
import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from memory_maze import paper
from memory_maze.agents.config import AgentConfig
from memory_maze.agents.registry import AGENTS, find_config
from memory_maze.report import cells
from memory_maze.report.cells import (
    Cell,
    describe_trained,
    gather,
    is_finished,
    is_timed,
    is_whole,
    make_cell,
    sort_tasks,
)
from memory_maze.report.layout import format_range, format_steps, format_time
from memory_maze.tasks import TASKS

ENGINES = {"jax": "JAX", "mujoco": "MuJoCo"}
Policies = dict[str, dict[str, list[float]]]
"""What scripted policies are rewarded in each 100 steps, by policy and task."""
_ABLATIONS = ("core", "forget_every")  # values that an ablation's name tells


@dataclasses.dataclass(frozen=True)
class Row(cells.Row):
    """What an agent scores in each task that it was evaluated in."""

    engine: str | None = None


class Group(cells.Group):
    """Runs that differ in their seeds and tasks alone."""

    def evaluations(self, task: str, engine: str) -> list[dict[str, Any]]:
        found = [one for result in self.of_task(task) for one in result["evaluations"]]
        return [one for one in found if one["engine"] == engine]

    def score(self, task: str, engine: str) -> Cell | None:
        """In the mazes that each run was played in on every engine that it was played on."""
        found, seeds = [], []
        for result in self.of_task(task):
            reports = [one for one in result["evaluations"] if one["task"] == task]
            same = len({one.get("seed") for one in reports}) == 1
            count = min((one["episodes"] for one in reports), default=0)
            for one in reports:
                if one["engine"] == engine:
                    found.append(_cut(one, count) if same else one)
                    seeds.append(result["seed"])
        return make_cell(found, seeds) if found else None


def _cut(report: dict[str, Any], count: int) -> dict[str, Any]:
    """The first episodes of an evaluation."""
    if count == report["episodes"]:
        return report
    scores = report["scores"][:count]
    error = statistics.stdev(scores) / math.sqrt(count) if count > 1 else None
    return report | {"episodes": count, "mean": statistics.fmean(scores), "std_error": error}


def group(results: Iterable[dict[str, Any]]) -> list[Group]:
    """Runs of one agent, trained for as long; those that were not finished have a name of their own."""
    # What is for comparison comes after what it is compared with, what is not finished last.
    rank = lambda one: (not is_whole(one.results[0]), bool(one.results[0]["ablation"]), one.name)  # noqa: E731
    found = gather(results, lambda result: (name_agent(result), result["agent"]))
    titles = collections.Counter(name for name, _ in found)
    # Agents of one's own may have any title.
    named = {name if titles[name] == 1 else f"{name}, {agent}": found[name, agent] for name, agent in found}
    made = (Group(name + _name_steps(members), members) for name, members in named.items())
    return sorted(made, key=rank)


def _name_steps(results: Sequence[dict[str, Any]]) -> str:
    """What each run made of the same minutes, which are its name."""
    if not is_timed(results[0]):
        return ""
    return f", {format_range([result['training']['steps'] for result in results])} steps"


def name_agent(result: dict[str, Any]) -> str:
    """Like "IMPALA, preset fast, no memory, 100M steps", or without steps if it trained for some minutes."""
    words = [paper.mark(result["title"])]
    words += [f"preset {result['preset']}"] if result["preset"] else []
    words += [result["ablation"]] if result["ablation"] else []
    hidden = _ABLATIONS if result["ablation"] else ()
    words += [f"{key}={value}" for key, value in result["changes"].items() if key not in hidden]
    words += describe_trained(result, former_version(result))
    steps, planned = result["training"]["steps"], result["training"]["steps_planned"]
    if is_finished(result):
        words.append(f"{format_steps(planned)} steps")
    elif is_timed(result):
        words.append(format_time(result["training"]["seconds"]))
    else:
        words.append(f"unfinished: {format_steps(steps)} of {format_steps(planned)} steps")
    return ", ".join(words)


def former_version(result: dict[str, Any]) -> str | None:
    """Which earlier version of the agent it is of, if its results are not comparable."""
    version, present = result["loss_version"], 1
    if agent := _find_agent(result):
        if former := agent.former_version(result["config"].get("agent", {})):
            return former
        present = agent.loss_version
    return None if version in (None, present) else f"loss version {version}"


def former_note(result: dict[str, Any]) -> str | None:
    """What is to be said below a table that has a result of an earlier version."""
    agent = _find_agent(result)
    return agent.former_note if agent and former_version(result) else None


def _find_agent(result: dict[str, Any]) -> type[AgentConfig] | None:
    """Of the package: to look at those of others would run their code."""
    return find_config(result["agent"]) if result["agent"] in AGENTS else None


def make_rows(groups: Sequence[Group]) -> list[Row]:
    """The paper's scores, then those of each group on each engine that it was evaluated on."""
    rows = [_paper_row(name) for name in paper.SCORES]
    for one in groups:
        made = []
        for engine, label in ENGINES.items():
            scores = {task: one.score(task, engine) for task in one.tasks}
            found = {task: cell for task, cell in scores.items() if cell}
            if found:
                made.append(Row(one.name, "ours", found, label))
        rows += made or [Row(one.name, "ours", {})]
    return rows


def _paper_row(name: str) -> Row:
    if name == "Oracle":
        of = (None, 1, None)
    elif name == "Human":
        of = ("episodes", 1, paper.HUMAN_EPISODES)
    else:
        of = ("runs", paper.RUNS, None)
    return Row(
        paper.mark(name), "paper", {task: Cell(*score, *of) for task, score in paper.SCORES[name].items()}
    )


def columns(groups: Sequence[Group]) -> list[str]:
    """The tasks of the benchmark, and others that something was trained in."""
    return sort_tasks([*TASKS, *(task for one in groups for task in one.tasks)])
