"""The agents that can be trained, by name. Needs no extra."""

import difflib

from memory_maze.agents.config import AgentConfig
from memory_maze.system.imports import import_name

AGENTS = {"impala": "memory_maze.agents.impala.config:Config"}


def find_config(name: str) -> type[AgentConfig]:
    """The config class of an agent by its name, or of your own by package.module:Name."""
    if name not in AGENTS and ":" not in name:
        near = difflib.get_close_matches(name, AGENTS, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(AGENTS)}"
        raise ValueError(f"no agent {name!r}: {hint}, and your own as package.module:Name")
    found = import_name(AGENTS.get(name, name), "agent")
    if not (isinstance(found, type) and issubclass(found, AgentConfig)):
        raise ValueError(f"{name} is no agent's config class: see memory_maze.agents.config")
    return found


def name_agent(config: type[AgentConfig]) -> str:
    """The name by which `find_config` finds it."""
    own = f"{config.__module__}:{config.__qualname__}"
    return next((name for name, place in AGENTS.items() if place == own), own)
