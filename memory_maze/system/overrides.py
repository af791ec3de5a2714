"""Values of a configuration, changed by name: `learning_rate=1e-3`, `core=gru`, `core.size=128`."""

import dataclasses
import json
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

from memory_maze.system.choices import Choice, find_choices, nest
from memory_maze.system.hints import did_you_mean


def override(config: Any, settings: Iterable[str]) -> Any:
    """A dataclass with some values changed, each given as name=value.

    Values of a config that is itself chosen by name, as in core=gru, are called core.size; they are changed
    after it is chosen.
    """
    texts: dict[str, str] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"unknown hyperparameter {setting!r}: {_advise(config, name)}")
        texts[name] = text
    return _change(config, nest(texts))


def _change(config: Any, texts: Mapping[str, Any], outer: str = "") -> Any:
    """A dataclass with values from nested texts; `outer` is what stands before their names, like "core."."""
    choices, hints = find_choices(type(config)), get_type_hints(type(config))
    known = {field.name for field in dataclasses.fields(config)}
    changes: dict[str, Any] = {}
    for name, text in texts.items():
        if name in choices:
            changes[name] = _choose(getattr(config, name), choices[name], text, f"{outer}{name}")
        elif name in known and isinstance(text, str):
            changes[name] = _parse(f"{outer}{name}", text, hints[name])
        else:
            unknown = name if isinstance(text, str) else f"{name}.{min(text)}"
            where = f" of {outer.removesuffix('.')}={config.describe()['name']}" if outer else ""
            raise ValueError(f"unknown hyperparameter {unknown!r}{where}: {_advise(config, unknown)}")
    try:
        return dataclasses.replace(config, **changes)
    except ValueError as error:
        raise ValueError(f"{outer}{error}") from error


def _choose(before: Choice, base: type[Choice], text: Any, name: str) -> Choice:
    """What is chosen by a name, with values of its own."""
    texts = {"name": text} if isinstance(text, str) else dict(text)
    if "name" in texts:
        before = before.replace_by(base.find(texts.pop("name")))
    return _change(before, texts, f"{name}.")


def _advise(config: Any, name: str) -> str:
    """What to write in place of an unknown name."""
    if former := getattr(config, "former_names", {}).get(name):
        return f"it is now called {former}"
    if name in (names := list(_names(config))):
        return f"give {name}=value"
    return did_you_mean(name, names)


def _names(config: Any) -> Iterator[str]:
    """All that can be changed, also in what was chosen."""
    choices = find_choices(type(config))
    for field in dataclasses.fields(config):
        yield field.name
        if field.name in choices:
            yield from (f"{field.name}.{name}" for name in _names(getattr(config, field.name)))


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
