"""Things of the user's own, named as package.module:Name: policies, agents, sequence models."""

import importlib
import os
import sys
from typing import Any


def import_name(name: str, kind: str) -> Any:
    """What a name stands for; modules of the present folder are found too.

    Args:
        name: Like package.module:Name.
        kind: What it should be, for the error: "policy".
    """
    module, colon, attribute = name.partition(":")
    if module.endswith(".py") and os.sep not in module:
        raise ValueError(f"no {kind} {name!r}: name the module without .py: {module[:-3]}:{attribute}")
    if not colon:
        raise ValueError(f"no {kind} {name!r}: give package.module:Name")
    sys.path.insert(0, "")  # a command's path lacks the folder that it is called in
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        unfound = isinstance(error, ModuleNotFoundError) and error.name == module
        where = f"; it should be {module}.py in this folder, or installed" if unfound else ""
        raise ValueError(f"no {kind} {name!r}: {error}{where}") from error
    finally:
        sys.path.remove("")
    if not hasattr(found, attribute):
        raise ValueError(f"no {kind} {name!r}: {module} has no {attribute}")
    return getattr(found, attribute)
