"""An episode that a person plays, one action after another."""

import dataclasses
from collections.abc import Iterable

import numpy as np

from memory_maze.adapters.simulation import Simulation
from memory_maze.data.scenes import Scenes, from_recording
from memory_maze.episodes.rollout import Recording
from memory_maze.options import ACTION_NAMES, DEFAULT, Options
from memory_maze.palette import OBJECTS, Color
from memory_maze.scenario import Scenario, layout_of
from memory_maze.tasks import Task
from memory_maze.variants import check_playable


def check_for_people(task: Task, options: Options) -> None:
    """Refuses variants that people cannot play."""
    check_playable(task, options)
    if not options.target_color_in_image:
        raise ValueError("target_color_in_image must be true for people, who see the target by the border")


def choose_action(forward: bool, left: bool, right: bool) -> int:
    """The action of the keys that are held; left and right together are neither."""
    turn = "" if left == right else "left" if left else "right"
    name = "_".join(word for word in ("forward" if forward else "", turn) if word)
    return ACTION_NAMES.index(name or "noop")


class Game:
    """One episode, with everything that is recorded of it.

    Args:
        task: The task.
        seed: Of the maze; the maze is the first of that seed, as in evaluations.
        engine: "jax" or "mujoco".
        resolution: Of the pictures, which are larger than an agent's for people.
        options: Which variant, and how large an agent's pictures are.
        actions: Made at once, to go on with an episode that was begun before.
    """

    def __init__(
        self,
        task: Task,
        seed: int,
        *,
        engine: str = "jax",
        resolution: int = 256,
        options: Options = DEFAULT,
        actions: Iterable[int] = (),
    ) -> None:
        self.task, self.seed, self.engine, self.options = task, seed, engine, options
        seen = dataclasses.replace(options, image_only_obs=True, camera_resolution=resolution)
        self._simulation = Simulation(
            task, seed=seed, engine=engine, render_resolution=resolution, **vars(seen)
        )
        self.image = np.asarray(self._simulation.reset())
        self._actions: list[int] = []
        self._rewards: list[float] = []
        self._targets, self._poses = [self.target], [self._simulation.engine.pose]
        for action in actions:
            self.step(action)

    def step(self, action: int) -> float:
        """Makes an action and returns the reward."""
        image, reward, _ = self._simulation.step(action)
        self.image = np.asarray(image)
        self._actions.append(int(action))
        self._rewards.append(reward)
        self._targets.append(self.target)
        self._poses.append(self._simulation.engine.pose)
        return reward

    @property
    def scenario(self) -> Scenario:
        return self._simulation.scenario

    @property
    def target(self) -> int:
        """The object that is asked for."""
        return self._simulation.engine.target

    @property
    def color(self) -> Color:
        """Of that object."""
        return OBJECTS[self.scenario.colors[self.target]]

    @property
    def actions(self) -> list[int]:
        return list(self._actions)

    @property
    def steps(self) -> int:
        """Actions so far."""
        return len(self._actions)

    @property
    def steps_left(self) -> int:
        return self._simulation.episode_steps - self.steps

    @property
    def over(self) -> bool:
        return self._simulation.episode_over

    @property
    def score(self) -> float:
        score = sum(self._rewards)
        return int(score) if score == int(score) else score

    @property
    def reward_steps(self) -> list[int]:
        """Numbers of the actions that were rewarded, from 1."""
        return [step for step, reward in enumerate(self._rewards, 1) if reward]

    def picture(self, resolution: int) -> np.ndarray:
        """What is seen now, at another resolution; a minimap as large a part of it as agents see."""
        scale = max(1, resolution // self.options.camera_resolution)
        shows_map = self.options.show_path
        if resolution == len(self.image) and not (shows_map and scale > 1):
            return self.image
        picture = self._simulation.render(resolution)
        return self._add_minimap(picture, scale) if shows_map else picture

    def _add_minimap(self, picture: np.ndarray, scale: int) -> np.ndarray:
        """Pictures at other resolutions have none, and that of the engine has two pixels for a cell."""
        from memory_maze.engine.picture.minimap import draw_alone

        seen = self._simulation.engine.observe(("agent_pos", "agent_dir", "maze_layout"))
        minimap = draw_alone(seen["maze_layout"], seen["agent_pos"], seen["agent_dir"])
        minimap = minimap.repeat(scale, axis=0).repeat(scale, axis=1)
        corner = picture[: len(minimap), -len(minimap) :]
        corner[:] = corner // 2 + minimap
        return picture

    def observe(self) -> dict[str, np.ndarray]:
        """Where everything is, in cells, for maps: without the path that some variants mark."""
        seen = self._simulation.engine.observe(("agent_pos", "agent_dir", "targets_pos"))
        return {name: array.astype(float) for name, array in seen.items()} | {
            "maze_layout": layout_of(self.scenario)
        }

    def recording(self) -> Recording:
        """What happened so far."""
        return Recording(
            np.array([self._actions], np.uint8),
            np.array([self._rewards], np.float32),
            np.array([self._targets], np.uint8),
            np.array([self._poses]),
        )

    def scenes(self) -> Scenes:
        """The same with its maze: the data set of this trajectory alone."""
        return from_recording([self.scenario], [self.seed], self.recording())

    def close(self) -> None:
        """Frees the graphics."""
        self._simulation.close()
