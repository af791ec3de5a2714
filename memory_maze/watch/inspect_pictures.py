"""Pictures of a data set: trajectories with maps and views, diagrams, and a video."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from memory_maze.data.inspect import Inspection, read_part
from memory_maze.data.npz import Opener
from memory_maze.data.scenes import Scenes
from memory_maze.data.tracks import POINTS, Figures, measure
from memory_maze.palette import INK
from memory_maze.system.files import replacing
from memory_maze.system.programs import cache_programs
from memory_maze.system.video import write_video
from memory_maze.watch.maps import Map, load_font, time_color
from memory_maze.watch.trace import Trace, trace_of_arrays, trace_of_scene

TRAJECTORIES, VIEWS = 6, 8  # on the sheet
STEPS, FPS = 200, 8  # of the video
_MAP, _VIEW, _TEXT, _GAP = 304, 128, 20, 16


def write_pictures(out: Path, found: Inspection) -> list[Path]:
    """Writes sheet.png, visits.png and video.mp4; returns where they are."""
    import imageio.v2 as imageio

    assert found.figures is not None
    cache_programs()
    chosen = np.unique(np.linspace(0, len(found.places) - 1, TRAJECTORIES).astype(int))
    traces = [read_trace(found, int(index)) for index in chosen]
    sheet, visits, video = (out / name for name in ("sheet.png", "visits.png", "video.mp4"))
    with replacing(sheet) as path:
        imageio.imwrite(path, draw_sheet(traces))
    with replacing(visits) as path:
        draw_visits(path, found.figures)
    write_video(video, draw_video(traces[0]), FPS)
    return [sheet, visits, video]


def read_trace(found: Inspection, index: int) -> Trace:
    """A trajectory, read again. Scenes are drawn by the JAX engine, whatever recorded them."""
    part, number = found.places[index]
    source = read_part(part, Opener())
    name = part.member.inner or (
        part.member.path.relative_to(found.path).as_posix() if found.path.is_dir() else found.path.name
    )
    if isinstance(source, Scenes):
        return trace_of_scene(source, number, f"{name}, trajectory {number}")
    return trace_of_arrays(source, name)


def draw_sheet(traces: Sequence[Trace]) -> np.ndarray:
    """Two trajectories beside each other: map and views."""
    from PIL import Image

    blocks = [_draw_block(trace) for trace in traces]
    width, height = blocks[0].size
    columns = min(2, len(blocks))
    rows = -(-len(blocks) // columns)
    size = (_GAP + columns * (width + _GAP), rows * (height + _GAP) + 2 * _TEXT + 3 * _GAP)
    sheet = Image.new("RGB", size, "white")
    for index, block in enumerate(blocks):
        row, column = divmod(index, columns)
        sheet.paste(block, (_GAP + column * (width + _GAP), _GAP + row * (height + _GAP)))
    _draw_legend(sheet, size[1] - 2 * _TEXT - 2 * _GAP)
    return np.asarray(sheet)


def _draw_block(trace: Trace) -> Any:
    """A map, and eight views in two lines beside it."""
    from PIL import Image, ImageDraw

    line = _VIEW + _TEXT + 8
    block = Image.new("RGB", (_MAP + _GAP + 4 * (_VIEW + 8) - 8, 2 * line + _TEXT + 10), "white")
    draw = ImageDraw.Draw(block)
    figures = measure(trace.tracks)
    facts = f"reward {figures.rewards[0]:.0f}, {100 * figures.growth[0, -1]:.0f} % of the cells visited"
    draw.text((0, 0), f"{trace.name}: {facts}", fill=INK, font=load_font(_TEXT))
    top = _TEXT + 10
    end = trace.steps
    block.paste(Map(trace, end, _MAP).draw(end), (0, top))
    times = np.linspace(0, end, VIEWS).astype(int)
    for index, (time, view) in enumerate(zip(times, trace.pictures(times), strict=True)):
        row, column = divmod(index, 4)
        x, y = _MAP + _GAP + column * (_VIEW + 8), top + row * line
        block.paste(Image.fromarray(view).resize((_VIEW, _VIEW), Image.Resampling.NEAREST), (x, y))
        draw.text((x, y + _VIEW + 1), f"step {time}", fill=INK, font=load_font(_TEXT - 3))
    return block


def _draw_legend(sheet: Any, top: int) -> None:
    from PIL import ImageDraw

    draw = ImageDraw.Draw(sheet)
    font = load_font(_TEXT)
    x = _GAP
    draw.text((x, top), "path: first step", fill=INK, font=font)
    x += int(draw.textlength("path: first step", font=font)) + 10
    for shift in range(200):
        draw.line([(x + shift, top + 4), (x + shift, top + _TEXT)], fill=time_color(shift / 199))
    draw.text((x + 210, top), "last step", fill=INK, font=font)
    text = "large dots: objects (grey: never a target); small white dot: the start; triangle: the end"
    draw.text((_GAP, top + _TEXT + 8), text, fill=INK, font=font)


def draw_video(trace: Trace, pixels: int = 448) -> Iterator[np.ndarray]:
    """What the agent sees, beside the map with the agent on it."""
    from PIL import Image, ImageDraw

    times = range(min(STEPS, trace.steps) + 1)
    overview = Map(trace, times[-1], pixels)
    for time, view in zip(times, trace.pictures(times), strict=True):
        frame = Image.new("RGB", (2 * pixels, pixels + 32), "white")
        frame.paste(Image.fromarray(view).resize((pixels, pixels), Image.Resampling.NEAREST), (0, 0))
        frame.paste(overview.draw(time), (pixels, 0))
        text = f"{trace.name}   step {time}   reward {trace.scores[time]:.0f}"
        ImageDraw.Draw(frame).text((8, pixels + 4), text, fill=INK, font=load_font(_TEXT))
        yield np.asarray(frame)


def draw_visits(path: Path, figures: Figures) -> None:
    """Histograms of visited cells and rewards, and how the visited share grows."""
    from matplotlib.figure import Figure

    with_style: dict[str, Any] = {"color": "#2a6f97", "edgecolor": "white"}
    figure = Figure(figsize=(15, 4.6), dpi=100, layout="constrained")
    visited, rewards, growth = figure.subplots(1, 3)
    visited.hist(100 * figures.growth[:, -1], bins=np.arange(0, 101, 5).tolist(), **with_style)
    visited.set(xlabel="free cells visited (%)", ylabel="trajectories", xlim=(0, 100))
    top = int(figures.rewards.max())
    width = max(1, -(-(top + 1) // 40))
    rewards.hist(figures.rewards, bins=(np.arange(0, top + 2 * width, width) - 0.5).tolist(), **with_style)
    rewards.set(xlabel="reward of a trajectory", ylabel="trajectories", xlim=(-0.6, max(top, 3) + 0.6))
    same = figures.lengths.min() == figures.lengths.max()
    times = np.linspace(0, figures.lengths[0] - 1 if same else 100, POINTS)
    low, middle, high = 100 * np.percentile(figures.growth, [10, 50, 90], axis=0)
    growth.fill_between(times, low, high, color="#a9cce3", label="10 % to 90 % of them")
    growth.plot(times, middle, color="#2a6f97", linewidth=2.5, label="median trajectory")
    growth.set(xlabel="step" if same else "part of the trajectory (%)", ylabel="free cells visited (%)")
    growth.set(xlim=(0, times[-1]), ylim=(0, 100))
    growth.legend(fontsize=13, loc="lower right", frameon=False)
    for axes in (visited, rewards, growth):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=13)
        for label in (axes.xaxis.label, axes.yaxis.label):
            label.set_size(15)
        axes.xaxis.labelpad = axes.yaxis.labelpad = 8
    for axis in (visited.yaxis, rewards.yaxis, rewards.xaxis):
        axis.get_major_locator().set_params(integer=True)
    figure.savefig(path, format="png")
