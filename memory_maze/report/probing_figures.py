"""Figures of probed models: their scores, within an episode, while they learn, and by the probe's depth."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from memory_maze import paper
from memory_maze.paper import TARGETS, Benchmark
from memory_maze.report.cells import sort_tasks
from memory_maze.report.figures import PALETTE, draw_curve, finish, make_panels
from memory_maze.report.probing import Group, Row, group, sort_benchmarks

_UNITS = {"walls": "walls that are right (%)", "objects": "squared error of objects"}
_BETTER = {"walls": "walls: higher is better", "objects": "objects: lower is better"}
_STYLES = ("-", (0, (5, 1.5)), (0, (1.5, 1)))  # of several groups with one title
_PAPER = {"linestyle": (0, (1, 1.2)), "linewidth": 2.2}
_FLOORS = ("Constant baseline", "RSSM, untrained")
_SPAN = 5.0  # percent of walls that an axis shows at least
_ROOM = 1.2  # widths of bars between two tasks


def draw_bars(rows: Sequence[Row]) -> Any:
    """Scores by task, ours beside the paper's; None if there are none of ours."""
    from matplotlib.patches import Rectangle

    ours = [row for row in rows if row.source == "ours"]
    if not any(row.cells for row in ours):
        return None
    colors = _colors(ours)
    titles = dict.fromkeys(row.title for row in rows)
    ordered = [row for title in titles for row in rows if row.title == title and row.cells]
    figure, named = make_panels([_BETTER[target] for target in TARGETS])
    for row in ordered:
        # Nothing to see: for the order of the legend, though a panel may lack some.
        next(iter(named.values())).add_patch(Rectangle((0, 0), 0, 0, **_look(row, colors)))
    for target, axes in zip(TARGETS, named.values(), strict=True):
        tasks = sort_tasks(task for row in rows for task, other in row.cells if other == target)
        place, middles = 0.0, []
        for task in tasks:
            drawn = [row for row in ordered if (task, target) in row.cells]
            for number, row in enumerate(drawn):
                _draw_bar(axes, place + number, row, (task, target), colors)
            middles.append(place + (len(drawn) - 1) / 2)
            place += len(drawn) + _ROOM
        axes.set_xticks(middles, tasks)
        axes.set_ylabel(_UNITS[target])
        _limit(
            axes,
            target,
            [row.cells[task, target].mean for row in rows for task in tasks if (task, target) in row.cells],
        )
    figure.set_size_inches(*(figure.get_size_inches() * (1, 1.2)))
    finish(figure, named)
    for axes in named.values():
        axes.tick_params(axis="x", length=0, labelsize=13)
    return figure


def _draw_bar(axes: Any, place: float, row: Row, benchmark: Benchmark, colors: dict[str, Any]) -> None:
    cell = row.cells[benchmark]
    axes.bar(place, cell.mean, width=0.86, zorder=3, **_look(row, colors))
    error = cell.error or 0.0
    if error:
        axes.errorbar(place, cell.mean, yerr=error, color="#222222", linewidth=1, capsize=2, zorder=4)
    axes.annotate(
        f"{cell.mean:.1f}",
        (place, cell.mean + error),
        xytext=(0, 3),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=8,
        rotation=90,
    )


def _look(row: Row, colors: dict[str, Any]) -> dict[str, Any]:
    if row.source == "ours":
        return {"label": row.name, "color": colors[row.name]}
    label = f"{row.name}, the paper's"
    return {
        "label": label,
        "facecolor": "white",
        "edgecolor": _base(row.title),
        "hatch": "////",
        "linewidth": 1,
    }


def _limit(axes: Any, target: str, means: Sequence[float]) -> None:
    """Walls start below the worst, for the constant baseline gets most of them right."""
    if target == "walls":
        low = max(0, 10 * (min(means) // 10) - (10 if min(means) % 10 < 3 else 0))
        axes.set_ylim(low, 100 + 0.12 * (100 - low))
        axes.set_yticks([tick for tick in axes.get_yticks() if low <= tick <= 100])
    else:
        axes.set_ylim(0, 1.15 * max([*means, 1.0]))


def draw_steps(groups: Sequence[Group]) -> Any:
    """Scores over the episode, a panel for each benchmark; None if there is nothing to draw.

    Scores of the benchmark are means over the second half.
    """
    lines = {
        (benchmark, one.name): _mean([figures["by_step"] for figures in one.evaluations(benchmark)])
        for one in groups
        for benchmark in one.benchmarks
    }
    lines = {key: values for key, values in lines.items() if len(values) > 1}
    benchmarks = sort_benchmarks(benchmark for benchmark, _ in lines)
    if not benchmarks:
        return None
    colors, styles = _colors(groups), _styles(groups)
    figure, named = make_panels([" ".join(benchmark) for benchmark in benchmarks])
    for benchmark, axes in zip(benchmarks, named.values(), strict=True):
        length = max(len(values) for (other, _), values in lines.items() if other == benchmark)
        half = (length - length // 2, length - 1)
        axes.axvspan(*half, color="#f0f0f0", zorder=0, label="the half that is scored")
        titles = []
        for one in groups:
            if (benchmark, one.name) in lines:
                style = {"color": colors[one.name], "linestyle": styles[one.name]}
                axes.plot(lines[benchmark, one.name], linewidth=1.6, label=one.name, zorder=3, **style)
                titles.append(one.title)
        for title in dict.fromkeys(titles):
            if benchmark in paper.PROBING.get(title, {}):
                score = paper.PROBING[title][benchmark].mean
                axes.plot(half, [score, score], color=_base(title), zorder=4, **_PAPER)
        if any(benchmark in paper.PROBING.get(title, {}) for title in titles):
            axes.plot([], [], color="#555555", label="the paper's score, in the model's colour", **_PAPER)
        axes.set(xlabel="step of the episode", ylabel=_UNITS[benchmark[1]], xlim=(0, length - 1))
        _widen(axes, benchmark[1])
    return finish(figure, named)


def _widen(axes: Any, target: str) -> None:
    """Errors start at 0; small differences between walls look small."""
    low, high = axes.get_ylim()
    if target == "objects":
        axes.set_ylim(bottom=0)
    elif high - low < _SPAN:
        middle = (low + high) / 2
        axes.set_ylim(middle - _SPAN / 2, middle + _SPAN / 2)


def _mean(lines: Sequence[Sequence[float]]) -> list[float]:
    """Over runs, of the steps that all have."""
    return [float(np.mean(values)) for values in zip(*lines, strict=False)]


def draw_curves(groups: Sequence[Group]) -> Any:
    """Scores on the way against gradient steps, a panel for each benchmark; None if there is nothing."""
    curves = {
        (benchmark, one.name): found
        for one in groups
        for benchmark in one.benchmarks
        if (
            found := [
                curve for result in one.of(benchmark) if len(curve := read_curve(result, benchmark[1])) > 1
            ]
        )
    }
    benchmarks = sort_benchmarks(benchmark for benchmark, _ in curves)
    if not benchmarks:
        return None
    colors, styles = _colors(groups), _styles(groups)
    figure, named = make_panels([" ".join(benchmark) for benchmark in benchmarks])
    for benchmark, axes in zip(benchmarks, named.values(), strict=True):
        drawn = [one for one in groups if (benchmark, one.name) in curves]
        for one in drawn:
            before = len(axes.get_lines())
            draw_curve(axes, curves[benchmark, one.name], one.name, colors[one.name])
            for line in axes.get_lines()[before:]:
                line.set_linestyle(styles[one.name])
        ends = [curve[-1, 0] for one in drawn for curve in curves[benchmark, one.name]]
        if max(ends) > 10 * min(ends):
            axes.set_xscale("log")
        else:
            axes.set_xlim(0, max(ends))
            axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set(xlabel="gradient steps", ylabel=_UNITS[benchmark[1]])
        _widen(axes, benchmark[1])
    return finish(figure, named)


def draw_depths(groups: Sequence[Group]) -> Any:
    """Scores against the probe's hidden layers, a panel for each benchmark; None without two depths.

    The paper's ablation: does a deeper probe find more, and does it find anything in a random state?
    """
    groups = group((result for one in groups for result in one.results), depths=False)
    depths = _find_depths(groups)
    benchmarks = sort_benchmarks(benchmark for benchmark, _ in depths)
    if not benchmarks:
        return None
    figure, named = make_panels([" ".join(benchmark) for benchmark in benchmarks])
    colors = _colors([one for one in groups if any(name == one.name for _, name in depths)])
    titles = list(dict.fromkeys(one.title for one in groups))
    for benchmark, axes in zip(benchmarks, named.values(), strict=True):
        for (other, name), means in depths.items():
            if other == benchmark:
                layers = sorted(means)
                scores = [float(np.mean(means[count])) for count in layers]
                style = {"marker": "o", "linewidth": 1.6, "zorder": 3}
                axes.plot(layers, scores, color=colors[name], label=name, **style)
        for one in _find_floors(groups, benchmark):
            if (benchmark, one.name) not in depths:
                score = float(np.mean([figures["mean"] for figures in one.evaluations(benchmark)]))
                style = {"linestyle": (0, (4, 2)), "linewidth": 1.4}
                axes.axhline(score, color=_base(one.title, titles), label=one.name, **style)
        axes.set(xlabel="hidden layers of the probe", ylabel=_UNITS[benchmark[1]])
        axes.xaxis.get_major_locator().set_params(integer=True)
        _widen(axes, benchmark[1])
    return finish(figure, named)


def _find_floors(groups: Sequence[Group], benchmark: Benchmark) -> list[Group]:
    """What a probe knows where there is nothing to know: of each kind the one that had the most data."""
    known = [one for one in groups if one.title in _FLOORS and benchmark in one.benchmarks]
    most = {one.title: one for one in sorted(known, key=lambda one: one.results[0]["data"]["trajectories"])}
    return list(most.values())


def _find_depths(groups: Sequence[Group]) -> dict[tuple[Benchmark, str], dict[int, list[float]]]:
    """Scores by benchmark and model, and then by hidden layers, of which there are at least two numbers."""
    found: dict[tuple[Benchmark, str], dict[int, list[float]]] = {}
    for one in groups:
        for result in one.results:
            for target in result["evaluation"]:
                key = (result["task"], target), one.name
                for layers, score in _list_depths(result, target):
                    found.setdefault(key, {}).setdefault(layers, []).append(score)
    return {key: scores for key, scores in found.items() if len(scores) > 1}


def _list_depths(result: dict[str, Any], target: str) -> list[tuple[int, float]]:
    """Hidden layers and scores: of the run's probe, and of those beside it."""
    layers = result.get("config", {}).get("probe", {}).get("layers")
    own = [] if layers is None else [(layers, result["evaluation"][target]["mean"])]
    depths = {int(depth): found for depth, found in result.get("depths", {}).items() if target in found}
    return [*own, *((depth, found[target]["mean"]) for depth, found in depths.items() if depth != layers)]


def read_curve(result: dict[str, Any], target: str) -> np.ndarray:
    """(points, 2): gradient steps, and scores on some evaluation trajectories."""
    key = f"held_out_{target}"
    points = [(point["steps"], point[key]) for point in result["curve"] if key in point]
    return np.array(points, float).reshape(-1, 2)


def _base(title: str, others: Sequence[str] = ()) -> str:
    """Models of the paper have the same colour in all figures."""
    titles = [*paper.PROBING, *(other for other in others if other not in paper.PROBING)]
    return PALETTE[titles.index(title) % len(PALETTE)]


def _colors(models: Sequence[Group] | Sequence[Row]) -> dict[str, Any]:
    """By name; the second of a title is darker than the first, and so on."""
    from matplotlib.colors import to_rgb

    titles = list(dict.fromkeys(one.title for one in models))
    return {
        one.name: tuple(0.6 ** _number(models, one) * part for part in to_rgb(_base(one.title, titles)))
        for one in models
    }


def _styles(groups: Sequence[Group]) -> dict[str, Any]:
    return {one.name: _STYLES[_number(groups, one) % len(_STYLES)] for one in groups}


def _number(models: Sequence[Any], one: Any) -> int:
    """Which of those with its title it is."""
    return [other.name for other in models if other.title == one.title].index(one.name)
