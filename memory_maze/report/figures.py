"""Figures of trained agents: how they learn, and how they get better within an episode."""

import itertools
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from memory_maze import paper
from memory_maze.episodes.evaluate import BIN
from memory_maze.report.cells import sort_tasks
from memory_maze.report.online import ENGINES, Group, Policies

# Okabe and Ito's colours, which the colour-blind tell apart; greys are the paper's and the oracle's.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#6a3d9a", "#8c510a")
_LOOKS = tuple(itertools.product(("-", (0, (6, 1, 1.5, 1))), PALETTE))
_RIVALS = {"IMPALA": ("#555555", (0, (5, 2))), "Dreamer (TBTT)": ("#999999", (0, (1.5, 1.5)))}
_ORACLE = {"color": "#222222", "linestyle": (0, (1, 1.5)), "linewidth": 2}
_ORACLE_LABEL = "oracle, which knows the map"
_RANDOM = {"color": "#999999", "linestyle": (0, (1, 3)), "linewidth": 2}
_STYLES = {"jax": "-", "mujoco": (0, (4, 1.5))}
_MOST_ABOVE = 3.0  # times the highest curve: what is further above is not drawn
_GRID = 100  # points of a mean curve
_LETTERS = 66  # of a line of the legend: as many as are below a panel


class Level(NamedTuple):
    """A score that curves are compared with, as a line across their panel."""

    name: str
    score: float
    label: str
    """In the legend."""
    style: dict[str, Any]


def draw_curves(groups: Sequence[Group]) -> Any:
    """Returns against steps, a panel for each task; None if there is nothing to draw."""
    return _draw_returns(groups, read_curve, list_paper_levels, math.inf, "steps (millions)")


def draw_minutes(groups: Sequence[Group], policies: Policies) -> Any:
    """Returns against minutes of training; None if there is nothing to draw, as older runs have no times.

    How long one has to wait, for agents that need other numbers of steps. `policies` has the rewards of the
    oracle and of a random policy in 100 steps, by task.
    """
    levels = lambda task: [*list_policy_levels(task, policies), *list_paper_levels(task)]  # noqa: E731
    return _draw_returns(groups, read_minutes, levels, _MOST_ABOVE, "minutes of training")


def _draw_returns(
    groups: Sequence[Group],
    read: Callable[[dict[str, Any]], np.ndarray],
    list_levels: Callable[[str], list[Level]],
    most: float,
    xlabel: str,
) -> Any:
    """Curves with levels, of which those `most` times as high as all curves are only named."""
    curves = {
        (task, one.name): found
        for one in groups
        for task in one.tasks
        if (found := [curve for result in one.of_task(task) if len(curve := read(result)) > 1])
    }
    tasks = sort_tasks(task for task, _ in curves)
    if not tasks:
        return None
    figure, panels = make_panels(tasks)
    for task, axes in panels.items():
        tops = [0.5]
        for one, (style, color) in zip(groups, itertools.cycle(_LOOKS), strict=False):
            if (task, one.name) in curves:
                tops.append(draw_curve(axes, curves[task, one.name], one.name, color, style))
        tops += _draw_levels(axes, list_levels(task), most * max(tops))
        ends = [curve[-1, 0] for (other, _), found in curves.items() if other == task for curve in found]
        axes.set(ylim=(0, 1.08 * max(tops)), xlim=(0, max(ends)))
        axes.set(xlabel=xlabel, ylabel="episode return in training")
    return finish(figure, panels)


def _draw_levels(axes: Any, levels: Sequence[Level], top: float) -> list[float]:
    """Draws levels up to the top, and names those above; the scores that are drawn."""
    within = [level for level in levels if level.score <= top]
    for level in within:
        axes.axhline(level.score, label=level.label, zorder=1, **level.style)
    above = ", ".join(f"{level.name} {level.score:.1f}" for level in levels if level not in within)
    if above:  # they would squeeze the curves
        axes.set_title(f"above: {above}", loc="right", fontsize=9, color="#555555")
    return [level.score for level in within]


def list_paper_levels(task: str) -> list[Level]:
    """The paper's final scores, of two agents in the published tasks."""
    return [
        Level(
            f"paper's {name}",
            paper.SCORES[name][task].mean,
            f"{paper.mark(name)}, the paper's at 100M steps",
            {"color": color, "linestyle": style, "linewidth": 1.8},
        )
        for name, (color, style) in _RIVALS.items()
        if task in paper.SCORES[name]
    ]


def list_policy_levels(task: str, policies: Policies) -> list[Level]:
    """What the oracle and a random policy score, as far as it is known."""
    known = {"oracle": (_ORACLE_LABEL, _ORACLE), "random": ("random policy", _RANDOM)}
    return [
        Level(name, sum(bins), *known[name]) for name in known if (bins := policies.get(name, {}).get(task))
    ]


def read_curve(result: dict[str, Any]) -> np.ndarray:
    """(points, 2): millions of steps and returns, where episodes ended."""
    return _read_points(result, "steps", 1e6)


def read_minutes(result: dict[str, Any]) -> np.ndarray:
    """(points, 2): minutes and returns, where episodes ended and the time is known."""
    return _read_points(result, "seconds", 60)


def _read_points(result: dict[str, Any], key: str, unit: float) -> np.ndarray:
    points = [(point.get(key), point["return"]) for point in result["curve"]]
    known = [(place / unit, value) for place, value in points if place is not None and value is not None]
    return np.array(known, float).reshape(-1, 2)


def draw_curve(
    axes: Any, curves: Sequence[np.ndarray], name: str, color: str, style: str | tuple = "-"
) -> float:
    """The mean of runs with the band between the lowest and the highest, where all have one; its top."""
    start, end = max(curve[0, 0] for curve in curves), min(curve[-1, 0] for curve in curves)
    if len(curves) == 1 or start >= end:
        for curve in curves:
            axes.plot(*curve.T, color=color, linestyle=style, linewidth=2, label=name, zorder=3)
    else:
        steps = np.linspace(start, end, _GRID)
        returns = np.array([np.interp(steps, *curve.T) for curve in curves])
        mean = returns.mean(axis=0)
        axes.plot(steps, mean, color=color, linestyle=style, linewidth=2, label=name, zorder=3)
        low, high = returns.min(axis=0), returns.max(axis=0)
        axes.fill_between(steps, low, high, color=color, alpha=0.2, linewidth=0, zorder=2)
    return max(float(curve[:, 1].max()) for curve in curves)


def draw_episodes(groups: Sequence[Group], oracle: Mapping[str, list[float]]) -> Any:
    """Rewards over the episode, a panel for each task; None if there is nothing to draw.

    Who remembers gets faster within an episode. `oracle` has the rewards of the oracle by task.
    """
    tasks = sort_tasks(
        task for one in groups for task in one.tasks if any(_bins(one, task, engine) for engine in ENGINES)
    )
    if not tasks:
        return None
    figure, panels = make_panels(tasks)
    for task, axes in panels.items():
        if oracle.get(task):
            _draw_bins(axes, oracle[task], label=_ORACLE_LABEL, **_ORACLE)
        for one, color in zip(groups, itertools.cycle(PALETTE), strict=False):
            both = all(any(_bins(one, task, engine) for task in tasks) for engine in ENGINES)
            for engine, label in ENGINES.items():
                if bins := _bins(one, task, engine):
                    name = f"{one.name}, {label}" if both else one.name
                    _draw_bins(
                        axes, bins, label=name, color=color, linestyle=_STYLES[engine], linewidth=2, zorder=3
                    )
        axes.set(xlabel="step of the episode", ylabel=f"rewards in {BIN} steps")
        axes.set(xlim=(0, axes.dataLim.x1 + BIN / 2), ylim=(0, 1.08 * max(axes.dataLim.y1, 0.5)))
    return finish(figure, panels)


def _bins(one: Group, task: str, engine: str) -> list[float]:
    """The mean over runs."""
    bins = [report["rewards_per_100_steps"] for report in one.evaluations(task, engine)]
    return [float(np.mean(values)) for values in zip(*bins, strict=False)]


def _draw_bins(axes: Any, bins: Sequence[float], **style: Any) -> None:
    """Each in the middle of its steps."""
    marker = "o" if len(bins) <= 20 else ""
    axes.plot((np.arange(len(bins)) + 0.5) * BIN, bins, marker=marker, markersize=4, **style)


def make_panels(tasks: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """A figure, and its axes by name."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    width = min(2, len(tasks))
    height = -(-len(tasks) // width)
    layout = ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.15)
    figure = Figure(figsize=(6.4 * width, 3.7 * height), dpi=110, layout=layout)
    panels = np.ravel(figure.subplots(height, width, squeeze=False))
    for axes in panels[len(tasks) :]:
        axes.set_axis_off()
    return figure, dict(zip(tasks, panels, strict=False))


def finish(figure: Any, panels: dict[str, Any]) -> Any:
    """One look, and one legend below all panels."""
    labels: dict[str, Any] = {}
    for task, axes in panels.items():
        axes.set_title(task, fontsize=14, loc="left", fontweight="bold")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e6e6e6", linewidth=0.8, zorder=0)
        axes.set_axisbelow(True)
        axes.tick_params(labelsize=11)
        for label in (axes.xaxis.label, axes.yaxis.label):
            label.set_size(12)
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            labels.setdefault(name, handle)
    if not labels:
        return figure
    columns = 1 if len(panels) == 1 else 2
    names = [textwrap.fill(name, _LETTERS) for name in labels]
    rows = -(-len(names) // columns)
    lines = max(
        sum(name.count("\n") + 1 for name in names[first : first + rows])
        for first in range(0, len(names), rows)
    )
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + 0.27 * lines)
    style = {"ncols": columns, "fontsize": 11, "frameon": False}
    figure.legend(labels.values(), names, loc="outside lower center", **style)
    return figure
