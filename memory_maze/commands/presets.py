"""Selects a preset by name, or by the available devices."""

import difflib
from typing import Any


def choose_preset(console: Any, gpu: str) -> str:
    """The preset for the available devices."""
    import jax

    if jax.default_backend() != "cpu":
        return gpu
    console.print("using preset small, as JAX finds no GPU; choose another with --preset")
    return "small"


def find_preset(agent: Any, name: str) -> Any:
    """A preset of an agent's config class; the defaults if it has none."""
    if not agent.presets:
        return agent()
    if name not in agent.presets:
        near = difflib.get_close_matches(name, agent.presets, 1)
        hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(agent.presets)}"
        raise ValueError(f"unknown preset {name!r} of {agent.title}: {hint}")
    return agent.presets[name]
