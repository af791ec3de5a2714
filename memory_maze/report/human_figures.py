"""Figures of people: how they get faster within an episode, and what they score beside the paper's agents."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from memory_maze import paper
from memory_maze.episodes.evaluate import BIN, FEWEST
from memory_maze.report.figures import PALETTE, finish, make_panels
from memory_maze.report.human import Size, make_cell, resample

_PEOPLE = PALETTE[0]
_PAPER = dict(zip(paper.SCORES, ("#222222", *PALETTE), strict=False))  # its human has the colour of people
_ORACLE = {"color": "#222222", "linestyle": (0, (1, 1.5)), "linewidth": 2}
_ORDER = ("Human", "Oracle", *(name for name in paper.SCORES if name not in ("Human", "Oracle")))
_MANY = 20  # bins that have no marks
_CROWD = 60  # episodes with small ones


def draw_episodes(sizes: Sequence[Size], oracle: dict[str, list[float]]) -> Any:
    """Rewards over the episode, a panel for each size; None if there is nothing to draw.

    The paper's figure of its human: who remembers gets faster within an episode. `oracle` has the rewards of
    the oracle by task.
    """
    drawn = {_title(size): size for size in sizes if size.bins.shape[1]}
    if not drawn:
        return None
    figure, panels = make_panels(list(drawn))
    for title, axes in panels.items():
        size = drawn[title]
        if size.is_published and oracle.get(size.name):
            _draw_line(axes, oracle[size.name], label="oracle, which knows the map", **_ORACLE)
        _draw_line(axes, size.bins.mean(axis=0), label="people, mean", color=_PEOPLE, linewidth=2, zorder=3)
        if len(size.episodes) >= FEWEST:
            _draw_band(axes, size)
        axes.set(xlabel="step of the episode", ylabel=f"rewards in {BIN} steps")
        top = max([axes.dataLim.y1, 0.5])
        axes.set(xlim=(0, size.task.episode_steps()), ylim=(0, 1.08 * top))
    return finish(figure, panels)


def _title(size: Size) -> str:
    """Like "9x9: 12 episodes, 4 players"."""
    counts = {"episode": len(size.episodes), "player": len(size.players)}
    return f"{size.name}: " + ", ".join(f"{n:,} {word}{'s' * (n > 1)}" for word, n in counts.items())


def _middles(count: int) -> np.ndarray:
    """Of the steps of each bin."""
    return (np.arange(count) + 0.5) * BIN


def _draw_line(axes: Any, bins: Sequence[float] | np.ndarray, **style: Any) -> None:
    marker = "o" if len(bins) <= _MANY else ""
    axes.plot(_middles(len(bins)), bins, marker=marker, markersize=4, **style)


def _draw_band(axes: Any, size: Size) -> None:
    """Where the mean lies with 95 % confidence, by drawing episodes again."""
    low, high = np.quantile(resample(size.bins), (0.025, 0.975), axis=0)
    label = "95 % interval (bootstrap)"
    axes.fill_between(
        _middles(len(low)), low, high, color=_PEOPLE, alpha=0.2, linewidth=0, zorder=2, label=label
    )


def draw_scores(sizes: Sequence[Size]) -> Any:
    """Scores as bars beside the paper's, a panel for each size; None if there are none."""
    if not sizes:
        return None
    figure, panels = make_panels([size.name for size in sizes])
    for size, axes in zip(sizes, panels.values(), strict=True):
        _draw_people(axes, 0, size)
        if size.is_published:
            for place, name in enumerate(_ORDER, 1):
                _draw_paper(axes, place, name, size.name)
        axes.set(xlim=(-0.7, len(_ORDER) + 0.7), ylabel="episode return")
        axes.set_ylim(0, 1.15 * max(axes.dataLim.y1, 0.5))
        axes.set_xticks([])
    return finish(figure, panels)


def _draw_people(axes: Any, place: float, size: Size) -> None:
    cell = make_cell(size)
    look = {"label": "people, mean", "color": _PEOPLE}
    _draw_bar(axes, place, cell.mean, cell.error, top=size.scores.max(), **look)
    spread = np.linspace(-0.28, 0.28, len(size.episodes)) if len(size.episodes) > 1 else np.zeros(1)
    axes.plot(
        place + spread,
        size.scores,
        linestyle="",
        marker="o",
        markersize=3.5 if len(size.episodes) <= _CROWD else 1.8,
        markerfacecolor="white",
        markeredgecolor="#222222",
        markeredgewidth=0.7,
        label="a single episode",
        zorder=5,
    )


def _draw_paper(axes: Any, place: float, name: str, task: str) -> None:
    score = paper.SCORES[name][task]
    look: dict[str, Any] = {"facecolor": "white", "edgecolor": _PAPER[name], "hatch": "////", "linewidth": 1}
    _draw_bar(axes, place, score.mean, score.error, label=f"{paper.mark(name)}, the paper's", **look)


def _draw_bar(
    axes: Any, place: float, mean: float, error: float | None, *, top: float = 0.0, **look: Any
) -> None:
    """With its number above it, and above `top`."""
    axes.bar(place, mean, width=0.86, zorder=3, **look)
    if error:
        axes.errorbar(place, mean, yerr=error, color="#222222", linewidth=1, capsize=2, zorder=4)
    axes.annotate(
        f"{mean:.1f}",
        (place, max(mean + (error or 0.0), top)),
        xytext=(0, 3),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=9,
        zorder=6,
    )
