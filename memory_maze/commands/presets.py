"""Which preset a command takes when none is named."""

from typing import Any


def choose_preset(console: Any, gpu: str) -> str:
    """The one that is made for the devices at hand."""
    import jax

    if jax.default_backend() != "cpu":
        return gpu
    console.print("preset small, as JAX finds no GPU here; --preset chooses another")
    return "small"
