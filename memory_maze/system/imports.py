"""Things of the user's own, named as package.module:Name: policies, agents, memories, sequence models."""

import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any, TypeVar

from memory_maze.system.hints import did_you_mean

Base = TypeVar("Base")


def import_name(name: str, kind: str) -> Any:
    """What a name stands for; modules of the present folder are found too.

    Args:
        name: Like package.module:Name.
        kind: What it should be, for the error: "policy".
    """
    module, colon, attribute = name.partition(":")
    if module.endswith(".py") and os.sep not in module:
        raise ValueError(f"unknown {kind} {name!r}: write the module without .py: {module[:-3]}:{attribute}")
    if not colon:
        raise ValueError(f"unknown {kind} {name!r}: give package.module:Name")
    sys.path.insert(0, "")  # a command's path lacks the folder that it is called in
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        unfound = isinstance(error, ModuleNotFoundError) and error.name == module
        where = f"; expected {module}.py in the current directory, or an installed package" if unfound else ""
        raise ValueError(f"unknown {kind} {name!r}: {error}{where}") from error
    finally:
        sys.path.remove("")
    if not hasattr(found, attribute):
        raise ValueError(f"unknown {kind} {name!r}: {module} has no {attribute}")
    return getattr(found, attribute)


def find_class(name: str, kind: str, base: type[Base], places: Mapping[str, str]) -> type[Base]:
    """A config class by its name, or one of the user's own by package.module:Name.

    Args:
        name: Of either.
        kind: What it configures, for the error: "agent".
        base: What it is a subclass of.
        places: Those of the package by name, as package.module:Name.
    """
    if name not in places and ":" not in name:
        others = ", or your own as package.module:Name"
        raise ValueError(f"unknown {kind} {name!r}: {did_you_mean(name, places, others)}")
    found = import_name(places.get(name, name), kind)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise ValueError(f"{name} is not a subclass of {base.__name__}: see {base.__module__}")
    return found


def name_class(found: type, places: Mapping[str, str]) -> str:
    """The name by which `find_class` finds it."""
    own = f"{found.__module__}:{found.__qualname__}"
    return next((name for name, place in places.items() if place == own), own)
