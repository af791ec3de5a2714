"""One computation in several forms, each for a kind of device."""

from collections.abc import Callable
from typing import Any

import jax
from jax import lax


def by_platform(*args: Any, cpu: Callable[..., Any], **others: Callable[..., Any]) -> Any:
    """Chosen when the program is lowered, so that one compiled for a CPU beside a GPU is right.

    To trace all takes a second for each, so that only the one for CPUs is where there is nothing else.
    """
    if jax.default_backend() == "cpu":
        return cpu(*args)
    return lax.platform_dependent(*args, cpu=cpu, **others)
