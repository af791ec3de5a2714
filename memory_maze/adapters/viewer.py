"""A window that displays images at the speed of the environment."""

import os
import sys
import warnings

import numpy as np

from memory_maze.system.extras import missing

WINDOW_PIXELS = 768


class Window:
    """A pygame window. Closing it by hand only hides the images."""

    def __init__(self, fps: float) -> None:
        try:
            import pygame
        except ModuleNotFoundError as error:
            raise missing('render_mode="human" needs pygame', "pygame", "play") from error
        self._pygame = pygame
        if not _has_screen():
            warnings.warn("no display found: the window is not shown", stacklevel=2)
            # Not SDL's own choice, which would close the EGL display that MuJoCo draws on.
            os.environ["SDL_VIDEODRIVER"] = "dummy"
        # An SDL window that draws through OpenGL would take this thread's context from MuJoCo.
        os.environ.setdefault("SDL_FRAMEBUFFER_ACCELERATION", "0")
        pygame.display.init()
        self._screen = pygame.display.set_mode((WINDOW_PIXELS, WINDOW_PIXELS))
        pygame.display.set_caption("Memory Maze")
        self._clock = pygame.time.Clock()
        self._fps = fps

    def show(self, image: np.ndarray) -> None:
        """Displays an (H, W, 3) image, limited to `fps` images per second."""
        pygame = self._pygame
        pygame.event.pump()
        surface = pygame.surfarray.make_surface(image.swapaxes(0, 1))
        self._screen.blit(pygame.transform.scale(surface, self._screen.get_size()), (0, 0))
        pygame.display.flip()
        self._clock.tick(self._fps)

    def close(self) -> None:
        self._pygame.display.quit()


def _has_screen() -> bool:
    variables = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
    return not sys.platform.startswith("linux") or any(os.environ.get(name) for name in variables)
