"""Policies by name: scripted ones, trained agents, and your own."""

import inspect
from pathlib import Path

from memory_maze.agents.folder import agent_names, find_folder
from memory_maze.options import Options
from memory_maze.policies import POLICIES
from memory_maze.policies.protocol import Function, Policy
from memory_maze.system.extras import missing
from memory_maze.system.imports import import_name

AGENT_PIXELS = 64  # of each side of the pictures that agents are trained in


def load_policy(name: str) -> Policy:
    """A policy by its name, a trained agent by its name or folder, or one of your own as "module:name".

    Your own is a policy, its class, or f(state, key).
    """
    if name == "oracle":
        from memory_maze.policies.oracle import Oracle

        return Oracle()
    if name == "explorer":
        from memory_maze.policies.explorer import Explorer

        return Explorer()
    if name == "random":
        from memory_maze.policies.random import Random

        return Random()
    if (folder := find_folder(name)) is not None:
        return _load_agent(folder)
    if ":" not in name:
        raise ValueError(
            f"unknown policy {name!r}: choose from {', '.join([*POLICIES, *agent_names()])}, your own as "
            "module:name, or the directory of a trained agent"
        )
    policy = import_name(name, "policy")
    if inspect.isfunction(policy):
        return Function(policy)
    policy = policy() if isinstance(policy, type) else policy
    if not (hasattr(policy, "start") and hasattr(policy, "act")):
        raise ValueError(
            f"{name} is not a policy: it must be a function of (state, key), or have "
            "start(state) and act(memory, state, key)"
        )
    return policy


def check_agent(name: str, options: Options) -> None:
    """Refuses pictures of another size than those that a trained agent was trained in."""
    if find_folder(name) is not None:
        check_pictures(name, options)


def check_pictures(name: str, options: Options) -> None:
    """Refuses pictures that no agent's network is made for."""
    if (side := options.camera_resolution) != AGENT_PIXELS:
        raise ValueError(
            f"{name} needs {AGENT_PIXELS}x{AGENT_PIXELS} images, not {side}x{side}: choose another "
            f"variant, or --options camera_resolution={AGENT_PIXELS}"
        )
    if not options.target_color_in_image:
        raise ValueError(f"target_color_in_image must be true: {name} sees the target only by the border")


def _load_agent(folder: Path) -> Policy:
    try:
        from safetensors import SafetensorError

        from memory_maze.agents.network import load_network
        from memory_maze.agents.protocol import Actor
    except ModuleNotFoundError as error:
        raise missing(f"trained agents need {error.name}", error.name, "train") from error
    try:
        return Actor(load_network(folder)[0])
    except (SafetensorError, KeyError, TypeError) as error:
        raise ValueError(f"{folder}: missing or damaged agent: {error}") from error
