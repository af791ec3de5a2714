"""The agents that can be trained, by name. Needs no extra."""

from memory_maze.agents.config import AgentConfig
from memory_maze.system.imports import find_class, name_class

AGENTS = {
    "impala": "memory_maze.agents.impala.config:Config",
    "dreamer": "memory_maze.agents.dreamer.config:Config",
    "dreamer-tbtt": "memory_maze.agents.dreamer.config:TBTTConfig",
    "dreamer-tbtt-probe": "memory_maze.agents.dreamer.config:ProbeConfig",
}


def find_config(name: str) -> type[AgentConfig]:
    """The config class of an agent by its name, or of your own by package.module:Name."""
    return find_class(name, "agent", AgentConfig, AGENTS)


def name_agent(config: type[AgentConfig]) -> str:
    """The name by which `find_config` finds it."""
    return name_class(config, AGENTS)
