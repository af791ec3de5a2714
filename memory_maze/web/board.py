"""The score board: players beside the paper's Human, Oracle and agents."""

import collections
import statistics
from collections.abc import Sequence
from typing import Any

from memory_maze import paper
from memory_maze.tasks import TASKS
from memory_maze.web.store import DONE, SAVED, Store

_KINDS = {"Oracle": "oracle", "Human": "human"}


def make_board(store: Store, tasks: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Rows of each size by their mean score, the best first; counted episodes alone."""
    names = store.names()
    scores: dict[tuple[str, int], list[int]] = collections.defaultdict(list)
    for episode in store.episodes(DONE, SAVED):
        if not episode.practice:
            scores[episode.task.name, episode.player].append(episode.score)
    rows: dict[str, list[dict[str, Any]]] = {task: list_paper(task) for task in tasks}
    for (task, player), values in scores.items():
        figures = {"mean": statistics.fmean(values), "best": max(values), "episodes": len(values)}
        rows.setdefault(task, []).append({"name": names[player], "kind": "player"} | figures)
    return {task: sorted(some, key=lambda row: -row["mean"]) for task, some in rows.items()}


def list_paper(task: str) -> list[dict[str, Any]]:
    """The paper's rows for a size; none for sizes that it has not."""
    return [
        {"name": name, "kind": _KINDS.get(name, "agent"), "mean": scores[task].mean}
        for name, scores in paper.SCORES.items()
        if task in TASKS
    ]
