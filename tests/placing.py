"""Puts the ball of an engine where a test wants it: nothing else needs that."""

import dataclasses

import jax
import mujoco
import numpy as np

from memory_maze.engine.env import begin_scenario
from memory_maze.engine.single import JaxEngine
from memory_maze.reference.engine import MujocoEngine


def teleport(engine: JaxEngine | MujocoEngine, position, heading=None) -> None:
    """At rest, in metres; by default with the heading of the start."""
    if isinstance(engine, MujocoEngine):
        mujoco.mj_resetData(engine._model, engine._data)
        engine._spawn(position, engine.scenario.heading if heading is None else heading)
        return
    x, y = np.asarray(position, np.float32)
    body = dataclasses.replace(begin_scenario(engine.scenario).body, x=x, y=y)
    if heading is not None:
        body = dataclasses.replace(body, steer=np.float32(-heading))
    engine._state = jax.device_put(dataclasses.replace(engine._state, body=body), engine._device)
