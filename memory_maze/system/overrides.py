"""Values of a configuration, changed by name: `learning_rate=1e-3`."""

import dataclasses
import difflib
import json
import types
from collections.abc import Iterable
from typing import Any, Literal, get_args, get_origin, get_type_hints


def override(config: Any, settings: tuple[str, ...]) -> Any:
    """A dataclass with some values changed, each given as name=value."""
    changes: dict[str, Any] = {}
    hints = get_type_hints(type(config))
    known = {field.name: hints[field.name] for field in dataclasses.fields(config)}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or name not in known:
            raise ValueError(f"no value {setting!r}: {_advise(config, name, known)}")
        changes[name] = _parse(name, text, known[name])
    return dataclasses.replace(config, **changes)


def _advise(config: Any, name: str, known: Iterable[str]) -> str:
    """What to write in place of an unknown name."""
    if former := getattr(config, "former_names", {}).get(name):
        return f"it is called {former} now"
    if near := difflib.get_close_matches(name, known, 1):
        return f"did you mean {near[0]}?"
    return f"give name=value, where names are {', '.join(known)}"


def _parse(name: str, text: str, hint: Any) -> Any:
    """A value of the type that the field has."""
    if hint is str:
        return text
    if get_origin(hint) is Literal:
        if text not in get_args(hint):
            raise ValueError(f"{name}={text}: it should be {' or '.join(get_args(hint))}")
        return text
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{name}={text} is neither a number, true, false, null nor a list") from error
    if isinstance(value, list):
        value = tuple(value)
    kinds = get_args(hint) if isinstance(hint, types.UnionType) else (get_origin(hint) or hint,)
    if float in kinds and type(value) is int:
        value = float(value)
    if type(value) not in kinds:
        words = {types.NoneType: "null", tuple: "list"}  # as they are typed
        wanted = " or ".join(words.get(kind, kind.__name__) for kind in kinds)
        raise ValueError(f"{name}={text}: it should be of type {wanted}")
    return value
