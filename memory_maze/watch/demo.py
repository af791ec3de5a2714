"""Random walks through all four sizes, as pictures and a video."""

from pathlib import Path

import gymnasium
import numpy as np
from rich.progress import Progress

from memory_maze.adapters.simulation import Simulation
from memory_maze.registration import VARIANTS, env_id
from memory_maze.system.files import replacing
from memory_maze.system.video import import_video, write_video
from memory_maze.tasks import TASKS

PICTURE, THUMBNAIL = 256, 128
_PROBABILITIES = (0.02, 0.6, 0.06, 0.06, 0.13, 0.13)


class Wanderer:
    """A random walk, mostly forward, that turns away when it is stuck at a wall."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.RandomState(seed)
        self._held, self._action = 0, 1
        self._before = np.full(2, np.inf)

    def __call__(self, position: np.ndarray) -> int:
        stuck = self._action not in (2, 3) and np.abs(position - self._before).max() < 0.2
        self._before = position
        if stuck:
            self._action, self._held = int(self._rng.randint(2, 4)), self._rng.randint(3, 9)
        elif self._held == 0:
            self._action, self._held = int(self._rng.choice(6, p=_PROBABILITIES)), self._rng.randint(1, 5)
        self._held -= 1
        return self._action


def run_demo(out: Path, steps: int, seed: int, fps: int, engine: str = "jax") -> dict[str, Path]:
    """Walks through each size with an engine; writes a contact sheet, one of all variants, and a video."""
    imageio = import_video()
    out.mkdir(parents=True, exist_ok=True)
    paths = {
        "contact sheet": out / "contact_sheet.png",
        "variants": out / "variants.png",
        "video": out / "walk.mp4",
    }
    with Progress() as progress:
        bar = progress.add_task("walking", total=len(TASKS) * steps)
        walks = {name: walk(name, steps, seed, engine, lambda: progress.advance(bar)) for name in TASKS}
        bar = progress.add_task("variants", total=len(VARIANTS))
        variants = {
            variant or "base": variant_picture(variant, seed, engine, lambda: progress.advance(bar))
            for variant in VARIANTS
        }
    chosen = np.linspace(0, steps, 6, dtype=int)
    cells = []
    for name, frames in walks.items():
        cells.append((f"{name} from above", frames[0][:, PICTURE:]))
        cells += [(f"step {t}", frames[t][:, :PICTURE]) for t in chosen]
    with replacing(paths["contact sheet"]) as path:
        imageio.imwrite(path, label_sheet(cells, columns=1 + len(chosen)))
    with replacing(paths["variants"]) as path:
        imageio.imwrite(path, label_sheet(list(variants.items()), columns=8))
    frames = (_tile([walks[name][t] for name in TASKS], 2) for t in range(steps + 1))
    write_video(paths["video"], frames, fps)
    return paths


def walk(task: str, steps: int, seed: int, engine: str, tick) -> list[np.ndarray]:
    """First-person and top view side by side, for the start and every step."""
    # Observed at the size that is shown, so that one program does both.
    simulation = Simulation(
        task,
        seed=seed,
        engine=engine,
        image_only_obs=True,
        camera_resolution=PICTURE,
        render_resolution=PICTURE,
    )
    policy = Wanderer(seed)
    simulation.reset()
    frames = []
    for t in range(steps + 1):
        views = [simulation.render(PICTURE, top=False), simulation.render(PICTURE, top=True)]
        frames.append(np.concatenate(views, axis=1))
        if t < steps:
            simulation.step(policy(simulation.engine.pose[:2]))
            tick()
    simulation.close()
    return frames


def variant_picture(variant: str, seed: int, engine: str, tick) -> np.ndarray:
    """What a variant of 9x9 observes at the start, enlarged."""
    env = gymnasium.make(env_id("9x9", variant), engine=engine)
    observation, _ = env.reset(seed=seed)
    env.close()
    tick()
    image = observation["image"] if isinstance(observation, dict) else observation
    return image.repeat(PICTURE // len(image), axis=0).repeat(PICTURE // len(image), axis=1)


def label_sheet(pictures: list[tuple[str, np.ndarray]], columns: int) -> np.ndarray:
    """Pictures at a smaller size with a caption above each, `columns` to a row."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(size=14)
    cells = []
    for caption, picture in pictures:
        cell = Image.new("RGB", (THUMBNAIL + 8, THUMBNAIL + 28), "white")
        ImageDraw.Draw(cell).text((5, 5), caption, fill="black", font=font)
        cell.paste(Image.fromarray(picture).resize((THUMBNAIL, THUMBNAIL), Image.Resampling.BOX), (4, 24))
        cells.append(np.asarray(cell))
    return _tile(cells, columns)


def _tile(pictures: list[np.ndarray], columns: int) -> np.ndarray:
    rows = [pictures[i : i + columns] for i in range(0, len(pictures), columns)]
    return np.concatenate([np.concatenate(row, axis=1) for row in rows], axis=0)
