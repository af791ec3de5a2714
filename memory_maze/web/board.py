"""The score board: players beside the paper's Human, Oracle and agents."""

import collections
from collections.abc import Sequence
from typing import Any

from memory_maze import paper
from memory_maze.tasks import TASKS
from memory_maze.variants import name_task
from memory_maze.web.store import Standing, Store

_KINDS = {"Oracle": "oracle", "Human": "human"}


def make_board(store: Store, tasks: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Rows of each variant by their mean score, the best first; counted episodes alone.

    Args:
        store: What was played.
        tasks: As `variants.name_task` names them; others that were played follow.
    """
    standings: dict[tuple[str, int], list[Standing]] = collections.defaultdict(list)
    for one in store.standings():
        standings[name_task(one.task, one.options), one.player].append(one)
    rows: dict[str, list[dict[str, Any]]] = {task: list_paper(task) for task in tasks}
    for (task, _), some in standings.items():
        count = sum(one.episodes for one in some)
        figures = {"mean": sum(one.total for one in some) / count, "best": max(one.best for one in some)}
        row = {"name": some[0].name, "kind": "player", **figures, "episodes": count}
        rows.setdefault(task, list_paper(task)).append(row)
    return {task: sorted(some, key=lambda row: -row["mean"]) for task, some in rows.items()}


def list_paper(task: str) -> list[dict[str, Any]]:
    """The paper's rows for a task; none for variants, and for sizes that it has not."""
    return [
        {"name": paper.mark(name), "kind": _KINDS.get(name, "agent"), "mean": scores[task].mean}
        for name, scores in paper.SCORES.items()
        if task in TASKS
    ]
