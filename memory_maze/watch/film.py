"""Videos of episodes: what was seen, the map with the trail, and a time line; one or two side by side."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from memory_maze.palette import INK, Color
from memory_maze.system.files import replacing
from memory_maze.system.video import import_video, write_video
from memory_maze.watch.episode import FPS
from memory_maze.watch.maps import Map, load_font
from memory_maze.watch.trace import DRAWN, Trace

ENDINGS = (".mp4", ".gif")
GIF_STEPS, GIF_EVERY = 200, 2  # by default: GIFs are for pages, and large
# Pixels of a picture, by how many stand in a row; best multiples of the 64 of what agents see.
_SIDES = {2: 448, 3: 384, 4: 320, 5: 256, 6: 256}
_GIF_SIDES = {2: 256, 3: 256, 4: 192, 5: 192, 6: 192}
_GAP, _CAPTION, _LINE = 16, 32, 48  # pixels; multiples of 16, as codecs want it
_PAPER, _SOFT, _PALE, _ACCENT = (255, 255, 255), (93, 100, 114), (217, 221, 228), (11, 110, 127)
_COLORS, _SAMPLES = 256, 8  # of a GIF's palette, and how many frames it is made of

Note = Callable[[int], None]  # called with how many frames were drawn


@dataclasses.dataclass(frozen=True)
class Cut:
    """Which steps are shown, and how fast."""

    first: int = 0
    last: int | None = None
    """By default the last step."""
    every: int = 1
    fps: int = FPS

    def steps(self, traces: Sequence[Trace]) -> range:
        """The steps of the frames: until the longest episode ends."""
        longest = max(trace.steps for trace in traces)
        last = longest if self.last is None else min(self.last, longest)
        if self.first > last:
            raise ValueError(f"steps from {self.first}: the last step is {last}")
        return range(self.first, last + 1, self.every)


def parse_steps(text: str) -> tuple[int, int]:
    """The first and the last step of "120:240", or of a count from the start."""
    first, colon, last = text.rpartition(":")
    if not last.isdecimal() or (colon and not first.isdecimal()) or int(first or 0) > int(last):
        raise ValueError(f"steps must be a number like 200, or a range like 120:240: got {text!r}")
    return int(first or 0), int(last)


def write_film(path: Path, traces: Sequence[Trace], cut: Cut, note: Note = lambda frames: None) -> None:
    """Writes a .mp4 or .gif file of one or two episodes."""
    sides = _GIF_SIDES if path.suffix == ".gif" else _SIDES
    frames = _noted(draw_frames(traces, cut.steps(traces), sides), note)
    if path.suffix == ".gif":
        write_gif(path, frames, cut.fps)
    else:
        write_video(path, frames, cut.fps)


def _noted(frames: Iterable[np.ndarray], note: Note) -> Iterator[np.ndarray]:
    for frame in frames:
        yield frame
        note(1)


def draw_frames(traces: Sequence[Trace], steps: range, sides: dict[int, int]) -> Iterator[np.ndarray]:
    """(H, W, 3) uint8 pictures; an episode that is over stays at its last step."""
    from PIL import Image

    side = sides[sum(2 + trace.has_answers for trace in traces)]
    panels = [Panel(trace, steps[0], steps[-1], side) for trace in traces]
    width = sum(panel.width for panel in panels) + _GAP * (len(panels) + 1)
    for start in range(0, len(steps), DRAWN):
        part = steps[start : start + DRAWN]
        views = [panel.read(part) for panel in panels]
        for index, step in enumerate(part):
            frame = Image.new("RGB", (width, panels[0].height), _PAPER)
            left = _GAP
            for panel, seen in zip(panels, views, strict=True):
                frame.paste(panel.draw(step, seen[index]), (left, 0))
                left += panel.width + _GAP
            yield np.asarray(frame)


class Panel:
    """One episode in a frame: its name and score, pictures beside each other, and the time line."""

    def __init__(self, trace: Trace, first: int, last: int, side: int) -> None:
        self._trace, self._first, self._last, self._side = trace, first, last, side
        self._map = Map(trace, min(last, trace.steps), side)
        self._font = load_font(18 if side > 256 else 15)
        count = 2 + trace.has_answers
        self.width, self.height = count * side + (count - 1) * _GAP, _CAPTION + side + _LINE

    def read(self, steps: Sequence[int]) -> np.ndarray:
        """What was seen, (n, R, R, 3) uint8."""
        return self._trace.pictures(np.minimum(steps, self._trace.steps))

    def draw(self, step: int, seen: np.ndarray) -> Any:
        """A picture of a step."""
        from PIL import Image, ImageDraw

        step = min(step, self._trace.steps)
        panel = Image.new("RGB", (self.width, self.height), _PAPER)
        canvas = ImageDraw.Draw(panel)
        view = Image.fromarray(seen).resize((self._side, self._side), Image.Resampling.NEAREST)
        pictures = [view, self._map.draw(step, target=True)]
        if self._trace.has_answers:
            pictures.append(self._map.draw_answers(step))
        for index, picture in enumerate(pictures):
            panel.paste(picture, (index * (self._side + _GAP), _CAPTION))
        score = f"score {self._trace.scores[step]:g}"
        self._write(canvas, 6, score, right=True)
        self._write(canvas, 6, _shorten(canvas, self._trace.name, self._font, self.width - 110))
        self._draw_line(canvas, step)
        return panel

    def _write(self, canvas: Any, top: int, text: str, color: Color = INK, right: bool = False) -> None:
        left = self.width - canvas.textlength(text, font=self._font) if right else 0
        canvas.text((left, top), text, fill=color, font=self._font)

    def _draw_line(self, canvas: Any, step: int) -> None:
        """Time goes to the right; each reward is a mark with the colour of what was found."""
        trace, middle = self._trace, _CAPTION + self._side + 14
        span = max(self._last - self._first, 1)
        place = lambda step: 6 + (self.width - 12) * (step - self._first) / span  # noqa: E731
        canvas.rectangle((0, middle - 2, self.width, middle + 2), fill=_PALE)
        canvas.rectangle((0, middle - 2, place(step), middle + 2), fill=_ACCENT)
        for found in np.flatnonzero(trace.rewards) + 1:
            if self._first <= found <= self._last:
                x = place(found)
                color = trace.colors[trace.targets[found - 1]]
                canvas.rectangle((x - 3, middle - 8, x + 3, middle + 8), fill=color, outline=INK)
        x = place(step)
        canvas.ellipse((x - 6, middle - 6, x + 6, middle + 6), fill=_PAPER, outline=INK, width=2)
        self._write(canvas, middle + 10, f"step {step}", _SOFT)


def _shorten(canvas: Any, text: str, font: Any, width: int) -> str:
    if canvas.textlength(text, font=font) <= width:
        return text
    while text and canvas.textlength(text + "...", font=font) > width:
        text = text[:-1]
    return text + "..."


def write_gif(path: Path, frames: Iterable[np.ndarray], fps: int) -> None:
    """Writes a GIF that repeats for ever, whole or not at all; one palette for all frames keeps it small."""
    import_video()
    from PIL import Image

    # The palette is of frames from all parts of the episode, so all have to be there before.
    pictures = [Image.fromarray(frame) for frame in frames]
    palette = _find_palette(pictures)
    plain = (picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures)
    with replacing(path) as temporary:
        next(plain).save(
            temporary,
            format="GIF",
            save_all=True,
            append_images=plain,
            duration=round(100 / fps) * 10,  # GIFs count hundredths of a second
            loop=0,
            optimize=False,
            disposal=1,
        )


def _find_palette(pictures: Sequence[Any]) -> Any:
    """A picture with the palette."""
    from PIL import Image

    chosen = [pictures[index] for index in np.linspace(0, len(pictures) - 1, _SAMPLES).astype(int)]
    sample = Image.fromarray(np.concatenate([np.asarray(picture)[::2, ::2] for picture in chosen]))
    return sample.quantize(_COLORS, method=Image.Quantize.MEDIANCUT)
