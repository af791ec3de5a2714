"""The window that a person plays in."""

import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from memory_maze.palette import FLOOR, OBJECTS, WALL
from memory_maze.play.recordings import Played
from memory_maze.play.session import AGENT_PIXELS, Settings, Sitting, Stage
from memory_maze.system.extras import missing
from memory_maze.variants import name_options
from memory_maze.world import COLOR_NAMES

SIZE, MIN_SIZE = (960, 640), (600, 400)  # pixels; the picture is two thirds of the width
_REFRESH = 0.1  # seconds until the window is drawn again without a reason
_BACK, _INK, _DIM, _LINE, _MARK = (22, 24, 30), (238, 238, 232), (150, 156, 168), (62, 66, 78), (255, 196, 84)

RULES = (
    "The border of the image has the colour of an object.",
    "Find that object and touch it: one point.",
    "Then another one is the target, in the same maze.",
    "Remember where they are, and find as many as you can.",
)
KEYS = (
    ("arrows, WASD", "walk and turn"),
    ("space, P", "pause"),
    ("R", "new maze"),
    ("+  -", "speed"),
    ("H", "agent's pixels"),
    ("M", "map (practice)"),
    ("F, F11", "full screen"),
    ("Esc", "quit"),
)
QUESTIONS = {"restart": "R again: to a new maze", "quit": "Esc again: quit"}
NO_SCREEN = (
    "no display to open a window on: play on a desktop, or from another machine in a browser "
    "with memory-maze serve"
)


def play(
    settings: Settings, *, full_screen: bool = False, say: Callable[[str], None] = print
) -> list[Played]:
    """Opens a window and lets a person play until the end; returns what was recorded."""
    window = PlayWindow(full_screen)
    sitting = Sitting(settings, say)
    try:
        window.run(sitting)
    except KeyboardInterrupt:  # as if the window was closed
        sitting.quit()
    finally:
        window.close()
        sitting.finish()
    return sitting.played


class PlayWindow:
    """Passes keys and time on to a `Sitting`, and draws it."""

    def __init__(self, full_screen: bool = False) -> None:
        self._pygame = pygame = _import_pygame()
        _check_screen()
        # As in memory_maze.adapters.viewer: SDL must leave OpenGL to MuJoCo.
        os.environ.setdefault("SDL_FRAMEBUFFER_ACCELERATION", "0")
        try:
            pygame.display.init()  # not pygame.init, which wants a sound card
            # What SDL falls back to when the screen cannot be opened.
            if pygame.display.get_driver() == "offscreen" and not os.environ.get("SDL_VIDEODRIVER"):
                raise pygame.error("only an invisible screen")
            self._window = pygame.Window("Memory Maze", SIZE, resizable=True)
        except pygame.error as error:
            pygame.display.quit()
            raise RuntimeError(NO_SCREEN) from error
        pygame.font.init()
        self._window.minimum_size = MIN_SIZE
        self._full_screen = False
        if full_screen:
            self._switch_full_screen()
        self._fonts: dict[int, Any] = {}

    def run(self, sitting: Sitting) -> None:
        """Until the sitting has ended."""
        pygame = self._pygame
        drawn, stale = -math.inf, True
        while sitting.stage is not Stage.ENDED:
            now = time.perf_counter()
            stale |= sitting.tick(now)
            if stale or now - drawn > _REFRESH:
                self.draw(sitting, now)
                drawn = now
            seconds = min(sitting.wait(time.perf_counter()), _REFRESH / 4)
            # Waits for an event, so that a key is never late; a step is late by a millisecond at most.
            events = [pygame.event.wait(max(1, int(1000 * seconds))), *pygame.event.get()]
            now = time.perf_counter()
            stale = any([self._handle(sitting, event, now) for event in events])

    def close(self) -> None:
        self._window.destroy()
        self._pygame.quit()

    def _switch_full_screen(self) -> None:
        self._full_screen = not self._full_screen
        if self._full_screen:
            self._window.set_fullscreen(desktop=True)
        else:
            self._window.set_windowed()

    def _handle(self, sitting: Sitting, event: Any, now: float) -> bool:
        """Returns whether something may look different."""
        pygame = self._pygame
        if event.type == pygame.KEYDOWN and event.key in (pygame.K_f, pygame.K_F11):
            self._switch_full_screen()
        elif event.type == pygame.KEYDOWN:
            sitting.press(pygame.key.name(event.key), now)
        elif event.type == pygame.KEYUP:
            sitting.release(pygame.key.name(event.key))
        elif event.type == pygame.QUIT:
            sitting.quit()
        elif event.type == pygame.WINDOWFOCUSLOST:
            sitting.pause(now)
        return event.type not in (pygame.NOEVENT, pygame.MOUSEMOTION)

    def draw(self, sitting: Sitting, now: float) -> None:
        """The whole window."""
        pygame = self._pygame
        self._screen = self._window.get_surface()
        width, height = self._screen.get_size()
        side = int(min(height, width * 2 / 3))
        self._unit = side / SIZE[1]
        left, top = (width - side * 3 // 2) // 2, (height - side) // 2
        picture = pygame.Rect(left, top, side, side)
        gap = int(24 * self._unit)
        pygame.mouse.set_visible(sitting.stage is not Stage.PLAYING)
        self._screen.fill(_BACK)
        self._draw_picture(sitting, picture, now)
        if sitting.stage is not Stage.PLAYING:
            self._shade(picture, 190 if sitting.stage is Stage.PAUSED else 255)
            {Stage.PAUSED: self._draw_paused, Stage.OVER: self._draw_end}.get(
                sitting.stage, self._draw_start
            )(sitting, picture, now)
        self._draw_panel(
            sitting, pygame.Rect(left + side + gap, top + gap, side // 2 - 2 * gap, side - 2 * gap)
        )
        self._window.flip()

    def _draw_picture(self, sitting: Sitting, box: Any, now: float) -> None:
        pygame, game = self._pygame, sitting.game
        if game is None:
            return
        image = game.picture(sitting.settings.resolution if sitting.hd else AGENT_PIXELS)
        surface = pygame.surfarray.make_surface(image.swapaxes(0, 1))
        if sitting.hd:
            self._screen.blit(pygame.transform.smoothscale(surface, box.size), box)
        else:
            side = max(box.width // len(image), 1) * len(image)  # every pixel as large
            place = pygame.Rect(0, 0, side, side)
            place.center = box.center
            self._screen.blit(pygame.transform.scale(surface, place.size), place)
        if sitting.flashing(now):
            pygame.draw.rect(self._screen, _INK, box, width=int(22 * self._unit))
            self._text("+1", box.centerx, box.top + 60 * self._unit, 90, centered=True)

    def _draw_start(self, sitting: Sitting, box: Any, now: float) -> None:
        y = box.top + 120 * self._unit
        y = self._text(f"Memory Maze {_title(sitting)}", box.centerx, y, 60, centered=True)
        for line in RULES:
            y = self._text(line, box.centerx, y + 22 * self._unit, 27, centered=True)
        if sitting.game is None:
            dots = "." * (1 + int(2 * now) % 3)
            text, color = f"loading {dots} (some seconds the first time)", _DIM
        else:
            text, color = "press space to begin", _MARK
        self._text(text, box.centerx, y + 70 * self._unit, 36, color, centered=True)

    def _draw_paused(self, sitting: Sitting, box: Any, now: float) -> None:
        lines = [("paused", 60, _INK), ("press space to continue", 34, _MARK)]
        if sitting.question is not None:
            lines += [
                (QUESTIONS[sitting.question], 34, _INK),
                ("this episode would not be recorded", 27, _DIM),
            ]
        y = box.top + 220 * self._unit
        for text, size, color in lines:
            y = self._text(text, box.centerx, y, size, color, centered=True) + 22 * self._unit

    def _draw_end(self, sitting: Sitting, box: Any, now: float) -> None:
        assert sitting.game is not None
        score, unit = sitting.game.score, self._unit
        y = self._text("the time is up", box.centerx, box.top + 90 * unit, 36, _DIM, centered=True)
        y = self._text(f"score {score}", box.centerx, y + 16 * unit, 84, centered=True) + 34 * unit
        scores = {"you": score} | {f"{name} (paper)": value for name, value in sitting.rivals.items()}
        if len(scores) > 1:
            for name, value in scores.items():
                y = self._draw_score(name, value, max(*scores.values(), 1), box, y)
        y += 30 * unit
        for text, size, color in _end_lines(sitting):
            y = (
                self._text(text, box.centerx, y, size, color, centered=True, room=0.92 * box.width)
                + 16 * unit
            )

    def _draw_score(self, name: str, value: float, most: float, box: Any, y: float) -> float:
        unit, left = self._unit, box.left + 0.4 * box.width
        room = 0.4 * box.width
        bar = (left, y, max(room * value / most, 2), 24 * unit)
        self._pygame.draw.rect(self._screen, _MARK if name == "you" else _DIM, bar)
        self._text(name, box.left + 0.09 * box.width, y + 2 * unit, 27, room=0.29 * box.width)
        self._text(f"{value:g}", bar[0] + bar[2] + 10 * unit, y + 2 * unit, 27)
        return y + 38 * unit

    def _draw_panel(self, sitting: Sitting, box: Any) -> None:
        game, unit, y = sitting.game, self._unit, box.top
        self._text("score", box.left, y, 24, _DIM)
        y = self._text(str(game.score if game else 0), box.left, y + 22 * unit, 80) + 8 * unit
        minutes, seconds = divmod(math.ceil(sitting.seconds_left), 60)
        y = self._text(f"time left  {minutes}:{seconds:02}", box.left, y, 24, _DIM) + 6 * unit
        self._bar(box, y, 12 * unit, sitting.part_left)
        y += 34 * unit
        shown = game if sitting.stage in (Stage.PLAYING, Stage.PAUSED) else None
        self._text("find", box.left, y, 24, _DIM)
        y = self._draw_target(shown, box, y + 22 * unit) + 14 * unit
        for text, color in _facts(sitting):
            y = self._text(text, box.left, y, 22, color, room=box.width) + 5 * unit
        if sitting.map and shown is not None:
            side = min(box.width, box.bottom - y)
            self._draw_map(shown, self._pygame.Rect(box.left, box.bottom - side, side, side))
        else:
            self._draw_keys(box)

    def _draw_target(self, game: Any, box: Any, y: float) -> float:
        swatch = self._pygame.Rect(box.left, y, 54 * self._unit, 54 * self._unit)
        self._pygame.draw.rect(self._screen, game.color if game else _LINE, swatch, border_radius=6)
        name = COLOR_NAMES[game.scenario.colors[game.target]] if game else "-"
        self._text(name, swatch.right + 14 * self._unit, y + 13 * self._unit, 40)
        return swatch.bottom

    def _draw_keys(self, box: Any) -> None:
        y = box.bottom - 23 * len(KEYS) * self._unit
        for keys, meaning in KEYS:
            self._text(keys, box.left, y, 21, room=0.46 * box.width)
            self._text(meaning, box.left + 0.5 * box.width, y, 21, _DIM, room=0.5 * box.width)
            y += 23 * self._unit

    def _draw_map(self, game: Any, box: Any) -> None:
        pygame, seen = self._pygame, game.observe()
        size = len(seen["maze_layout"])
        cell = box.width / (size + 2)
        place = lambda x, y: (box.left + (x + 1) * cell, box.top + (size + 1 - y) * cell)  # noqa: E731
        pygame.draw.rect(self._screen, WALL, box)
        for row, column in np.argwhere(seen["maze_layout"]):
            x, y = place(column, row + 1)
            rest = math.ceil(x + cell) - int(x), math.ceil(y + cell) - int(y)
            pygame.draw.rect(self._screen, FLOOR, (int(x), int(y), *rest))
        for index, (x, y) in enumerate(seen["targets_pos"]):
            color = OBJECTS[game.scenario.colors[index]]
            if index == game.target:
                pygame.draw.circle(self._screen, _BACK, place(x, y), 0.46 * cell)
            pygame.draw.circle(self._screen, color, place(x, y), 0.34 * cell)
        ahead = seen["agent_dir"] * (1, -1)
        aside = np.array([-ahead[1], ahead[0]])
        corners = (0.5 * ahead, 0.34 * (aside - ahead), -0.34 * (aside + ahead))
        points = [np.array(place(*seen["agent_pos"])) + cell * corner for corner in corners]
        pygame.draw.polygon(self._screen, _BACK, points)

    def _bar(self, box: Any, y: float, height: float, part: float) -> None:
        for color, width in ((_LINE, box.width), (_MARK, box.width * part)):
            self._pygame.draw.rect(self._screen, color, (box.left, y, width, height), border_radius=4)

    def _shade(self, box: Any, alpha: int) -> None:
        shade = self._pygame.Surface(box.size)
        shade.fill(_BACK)
        shade.set_alpha(alpha)
        self._screen.blit(shade, box)
        self._pygame.draw.rect(self._screen, _LINE, box, width=1)

    def _text(
        self,
        text: str,
        x: float,
        y: float,
        size: float,
        color: tuple[int, int, int] = _INK,
        *,
        centered: bool = False,
        room: float = math.inf,
    ) -> float:
        """Writes a line, smaller if there is no room for it; returns where the next one may begin."""
        pixels = max(int(size * self._unit), 8)
        while self._font(pixels).size(text)[0] > room and pixels > 8:
            pixels -= 1
        surface = self._font(pixels).render(text, True, color)
        self._screen.blit(surface, (x - surface.get_width() / 2 if centered else x, y))
        return y + surface.get_height()

    def _font(self, pixels: int) -> Any:
        if pixels not in self._fonts:
            self._fonts[pixels] = self._pygame.font.Font(None, pixels)
        return self._fonts[pixels]


def _facts(sitting: Sitting) -> list[tuple[str, tuple[int, int, int]]]:
    settings, game = sitting.settings, sitting.game
    seed = "-" if game is None else game.seed
    practice = " (practice)" if sitting.practice else ""
    return [
        (f"{_title(sitting)}   seed {seed}", _DIM),
        (f"{sitting.pace:g} steps a second", _DIM),
        (f"{settings.player}{practice}", _MARK if practice else _DIM),
    ]


def _title(sitting: Sitting) -> str:
    settings = sitting.settings
    return " ".join(filter(None, [settings.task.name, name_options(settings.options)]))


def _end_lines(sitting: Sitting) -> list[tuple[str, int, tuple[int, int, int]]]:
    if sitting.saving:
        return [("saving ...", 36, _DIM)]
    if sitting.failure is not None:
        return [(f"not recorded: {sitting.failure}", 26, _INK), ("press space to try again", 36, _MARK)]
    played = sitting.played[-1]
    recorded = "recorded as practice" if played.practice else "recorded"
    go_on = "press space to close" if sitting.last else "press space for the next maze"
    return [(f"{recorded}: {sitting.place(played)}", 24, _DIM), (go_on, 36, _MARK)]


def _import_pygame() -> Any:
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        import pygame
    except ModuleNotFoundError as error:
        raise missing("playing in a window needs pygame", "pygame", "play") from error
    return pygame


def _check_screen() -> None:
    variables = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in variables):
        raise RuntimeError(NO_SCREEN)
