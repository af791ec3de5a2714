"""Pictures of a data set: trajectories with maps and views, diagrams, and a video."""

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from memory_maze.data.frames import Reader
from memory_maze.data.inspect import Inspection, read_part
from memory_maze.data.npz import Opener
from memory_maze.data.scenes import Scenes
from memory_maze.data.tracks import POINTS, Figures, Tracks, measure, tracks_of_arrays, tracks_of_scenes
from memory_maze.engine.single import cache_programs
from memory_maze.files import replacing
from memory_maze.scenario import COLORS
from memory_maze.video import write_video

TRAJECTORIES, VIEWS = 6, 8  # on the sheet; a program draws as many views at once
STEPS, FPS = 200, 8  # of the video
_MAP, _VIEW, _TEXT, _GAP = 304, 128, 20, 16
_FINE = 3  # maps are drawn so many times larger, for smooth lines
_WALL, _FLOOR, _INK, _UNKNOWN = (66, 72, 84), (246, 246, 243), (20, 22, 26), (160, 160, 160)
# From the first to the last step: dark blue, blue green, orange; light enough to see, and no object's colour.
_TIME = np.array([(40, 30, 120), (0, 150, 160), (255, 150, 0)], float)


@dataclasses.dataclass(frozen=True)
class Clip:
    """A trajectory to be drawn."""

    name: str
    tracks: Tracks  # of it alone
    colors: list[tuple[int, int, int]]
    """Of the objects; grey where the data does not tell, for an object that was never asked for."""
    source: Any
    """Its scene or arrays, which `views` reads."""

    @property
    def positions(self) -> np.ndarray:
        return self.tracks.positions[0]

    def views(self, times: Sequence[int]) -> Iterator[np.ndarray]:
        """First-person pictures, (64, 64, 3) uint8."""
        if isinstance(self.source, dict):
            yield from (self.source["image"][time] for time in times)
            return
        reader = Reader(self.source)
        for start in range(0, len(times), VIEWS):
            some = np.array(times[start : start + VIEWS])
            padded = np.pad(some, (0, VIEWS - len(some)), mode="edge")[None]
            images = jax.device_get(reader.read(np.zeros_like(padded), padded, ("image",)))["image"][0]
            yield from images[: len(some)]


def write_pictures(out: Path, found: Inspection) -> list[Path]:
    """Writes sheet.png, visits.png and video.mp4; returns where they are."""
    import imageio.v2 as imageio

    assert found.figures is not None
    cache_programs()
    chosen = np.unique(np.linspace(0, len(found.places) - 1, TRAJECTORIES).astype(int))
    clips = [read_clip(found, int(index)) for index in chosen]
    sheet, visits, video = (out / name for name in ("sheet.png", "visits.png", "video.mp4"))
    with replacing(sheet) as path:
        imageio.imwrite(path, draw_sheet(clips))
    with replacing(visits) as path:
        draw_visits(path, found.figures)
    write_video(video, draw_video(clips[0]), FPS)
    return [sheet, visits, video]


def read_clip(found: Inspection, index: int) -> Clip:
    """A trajectory, read again. Scenes are drawn by the JAX engine, whatever recorded them."""
    part, number = found.places[index]
    source = read_part(part, Opener())
    name = part.member.inner or (
        part.member.path.relative_to(found.path).as_posix() if found.path.is_dir() else found.path.name
    )
    if not isinstance(source, Scenes):
        return Clip(name, tracks_of_arrays(source), _find_colors(source), source)
    scene = jax.tree.map(lambda leaf: leaf[number : number + 1], source)
    colors = [_to_rgb(COLORS[color]) for color in scene.colors[0]]
    return Clip(f"{name}, trajectory {number}", tracks_of_scenes(scene), colors, scene)


def _find_colors(arrays: dict[str, np.ndarray]) -> list[tuple[int, int, int]]:
    away = np.abs(arrays["targets_pos"] - arrays["target_pos"][:, None]).max(axis=2)
    asked = away.argmin(axis=1)
    return [
        _to_rgb(arrays["target_color"][np.argmax(asked == index)]) if (asked == index).any() else _UNKNOWN
        for index in range(away.shape[1])
    ]


def _to_rgb(color: np.ndarray) -> tuple[int, int, int]:
    red, green, blue = np.rint(255 * color.astype(float)).astype(int).tolist()
    return red, green, blue


def draw_sheet(clips: Sequence[Clip]) -> np.ndarray:
    """Two trajectories beside each other: map and views."""
    from PIL import Image

    blocks = [_draw_block(clip) for clip in clips]
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


def _draw_block(clip: Clip) -> Any:
    """A map, and eight views in two lines beside it."""
    from PIL import Image, ImageDraw

    line = _VIEW + _TEXT + 8
    block = Image.new("RGB", (_MAP + _GAP + 4 * (_VIEW + 8) - 8, 2 * line + _TEXT + 10), "white")
    draw = ImageDraw.Draw(block)
    figures = measure(clip.tracks)
    facts = f"reward {figures.rewards[0]:.0f}, {100 * figures.growth[0, -1]:.0f} % of the cells visited"
    draw.text((0, 0), f"{clip.name}: {facts}", fill=_INK, font=_font(_TEXT))
    top = _TEXT + 10
    end = len(clip.positions) - 1
    block.paste(draw_map(clip, end, end, _MAP), (0, top))
    times = np.linspace(0, end, VIEWS).astype(int)
    for index, (time, view) in enumerate(zip(times, clip.views(times.tolist()), strict=True)):
        row, column = divmod(index, 4)
        x, y = _MAP + _GAP + column * (_VIEW + 8), top + row * line
        block.paste(Image.fromarray(view).resize((_VIEW, _VIEW), Image.Resampling.NEAREST), (x, y))
        draw.text((x, y + _VIEW + 1), f"step {time}", fill=_INK, font=_font(_TEXT - 3))
    return block


def _draw_legend(sheet: Any, top: int) -> None:
    from PIL import ImageDraw

    draw = ImageDraw.Draw(sheet)
    font = _font(_TEXT)
    x = _GAP
    draw.text((x, top), "path: first step", fill=_INK, font=font)
    x += int(draw.textlength("path: first step", font=font)) + 10
    for shift in range(200):
        draw.line([(x + shift, top + 4), (x + shift, top + _TEXT)], fill=_time_color(shift / 199))
    draw.text((x + 210, top), "last step", fill=_INK, font=font)
    text = "large dots: objects (grey: never asked for); small white dot: the start; triangle: the end"
    draw.text((_GAP, top + _TEXT + 8), text, fill=_INK, font=font)


def draw_map(clip: Clip, time: int, end: int, pixels: int) -> Any:
    """The maze from above, with the way until `time` and the agent there; colours reach until `end`."""
    from PIL import Image, ImageDraw

    size = clip.tracks.layouts.shape[1]
    cell = pixels * _FINE / (size + 2)
    mark = max(cell, pixels * _FINE / 12)  # lines and the agent are as thick in large mazes
    image = Image.new("RGB", (pixels * _FINE, pixels * _FINE), _WALL)
    draw = ImageDraw.Draw(image)
    place = lambda x, y: ((x + 1) * cell, (size + 1 - y) * cell)  # noqa: E731
    for row, column in np.argwhere(clip.tracks.layouts[0]):
        draw.rectangle([place(column, row + 1), place(column + 1, row)], fill=_FLOOR)
    for (x, y), color in zip(clip.tracks.objects[0], clip.colors, strict=True):
        _draw_dot(draw, place(x, y), 0.36 * cell, color)
    points = [place(x, y) for x, y in clip.positions[: time + 1]]
    for index in range(time):
        color = _time_color(index / max(end - 1, 1))
        draw.line(points[index : index + 2], fill=color, width=int(0.11 * mark))
    _draw_dot(draw, points[0], 0.14 * mark, (255, 255, 255))
    _draw_agent(draw, points[time], clip.tracks.directions[0, time], 0.3 * mark)
    return image.resize((pixels, pixels), Image.Resampling.BOX)


def _draw_dot(draw: Any, center: tuple[float, float], radius: float, color: tuple[int, int, int]) -> None:
    x, y = center
    box = [x - radius, y - radius, x + radius, y + radius]
    draw.ellipse(box, fill=color, outline=_INK, width=max(int(radius / 6), 2))


def _draw_agent(draw: Any, center: tuple[float, float], direction: np.ndarray, radius: float) -> None:
    ahead = np.array([direction[0], -direction[1]], float)
    aside = np.array([-ahead[1], ahead[0]])
    corners = [1.2 * ahead, -0.8 * ahead + 0.8 * aside, -0.8 * ahead - 0.8 * aside]
    points = [tuple(np.array(center) + radius * corner) for corner in corners]
    draw.polygon(points, fill=(255, 255, 255), outline=_INK, width=max(int(radius / 5), 2))


def _time_color(part: float) -> tuple[int, int, int]:
    places = np.linspace(0, 1, len(_TIME))
    red, green, blue = (int(np.interp(part, places, channel)) for channel in _TIME.T)
    return red, green, blue


def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size=size)


def draw_video(clip: Clip, pixels: int = 448) -> Iterator[np.ndarray]:
    """What the agent sees, beside the map with the agent on it."""
    from PIL import Image, ImageDraw

    times = range(min(STEPS + 1, len(clip.positions)))
    rewards = np.concatenate([[0], np.cumsum(clip.tracks.rewards[0])])
    for time, view in zip(times, clip.views(times), strict=True):
        frame = Image.new("RGB", (2 * pixels, pixels + 32), "white")
        frame.paste(Image.fromarray(view).resize((pixels, pixels), Image.Resampling.NEAREST), (0, 0))
        frame.paste(draw_map(clip, time, times[-1], pixels), (pixels, 0))
        text = f"{clip.name}   step {time}   reward {rewards[time]:.0f}"
        ImageDraw.Draw(frame).text((8, pixels + 4), text, fill=_INK, font=_font(_TEXT))
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
