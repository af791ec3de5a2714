"""Configs that are chosen by name, and are values of other configs.

As plain data they are `{"core": {"name": "gru", "size": 128}}`; people write `core=gru core.size=128`.
"""

import dataclasses
import inspect
import json
from collections.abc import Mapping
from typing import Any, ClassVar, Self, get_type_hints

from memory_maze.system.imports import find_class, name_class


@dataclasses.dataclass(frozen=True)
class Choice:
    """The base of all that can be chosen in one place: dataclasses whose fields have defaults."""

    kind: ClassVar[str]
    """What is chosen, for errors: "core"."""
    places: ClassVar[Mapping[str, str]]
    """Those of the package by name, as package.module:Name."""

    @classmethod
    def find(cls, name: str) -> type[Self]:
        """One of them by its name, or your own by package.module:Name."""
        found = find_class(name, cls.kind, cls, cls.places)
        if inspect.isabstract(found):
            raise ValueError(f"{name} lacks methods of a {cls.kind}: see {cls.__module__}")
        for field in dataclasses.fields(found):
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                raise ValueError(f"{name}: its field {field.name} needs a default")
            if field.name == "name":
                raise ValueError(f"{name}: the field name is reserved")
        return found

    @classmethod
    def read(cls, values: Any) -> Self:
        """From plain data."""
        values = {"name": values} if isinstance(values, str) else values
        if not isinstance(values, dict) or not isinstance(values.get("name"), str):
            raise ValueError(f"{values!r:.40} is not a {cls.kind}")
        found = cls.find(values["name"])
        return found(**read_fields(found, {key: one for key, one in values.items() if key != "name"}))

    def describe(self) -> dict[str, Any]:
        """Plain data."""
        return {"name": name_class(type(self), self.places), **describe_fields(self)}

    def replace_by(self, found: type[Self]) -> Self:
        """Another one: it keeps the values of fields that both inherit from the same class."""
        own = {field.name: field for field in dataclasses.fields(self)}
        shared = [field.name for field in dataclasses.fields(found) if own.get(field.name) is field]
        return found(**{name: getattr(self, name) for name in shared})


def find_choices(config_class: type[Any]) -> dict[str, type[Choice]]:
    """The fields of a dataclass whose values are chosen by name, each with the base of what can be chosen."""
    hints = get_type_hints(config_class)
    found = {field.name: hints[field.name] for field in dataclasses.fields(config_class)}
    return {name: hint for name, hint in found.items() if isinstance(hint, type) and issubclass(hint, Choice)}


def describe_fields(config: Any) -> dict[str, Any]:
    """A dataclass as plain data."""
    plain = json.loads(json.dumps(dataclasses.asdict(config)))
    return plain | {name: getattr(config, name).describe() for name in find_choices(type(config))}


def read_fields(config_class: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a dataclass, from plain data."""
    known = {field.name for field in dataclasses.fields(config_class)}
    if unknown := values.keys() - known:
        raise ValueError(f"unknown field {min(unknown)}: written by a newer version of the package")
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    choices = find_choices(config_class)
    return plain | {name: choices[name].read(values[name]) for name in choices.keys() & values.keys()}


def flatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data by the names that people give: core=gru core.size=128."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict) and "name" in value:
            inner = flatten({key: one for key, one in value.items() if key != "name"})
            flat |= {name: value["name"], **{f"{name}.{key}": one for key, one in inner.items()}}
        else:
            flat[name] = value
    return flat


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The way back."""
    groups: dict[str, dict[str, Any]] = {}
    for name, value in flat.items():
        outer, _, inner = name.partition(".")
        groups.setdefault(outer, {})[inner or "name"] = value
    return {
        name: group["name"] if group.keys() == {"name"} else nest(group) for name, group in groups.items()
    }
