"""Variants by their names: what commands are given, what files record, and what people read."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from memory_maze.observation import check_minimap
from memory_maze.options import DEFAULT, Options
from memory_maze.registration import VARIANTS
from memory_maze.system.hints import did_you_mean
from memory_maze.system.overrides import override
from memory_maze.tasks import Task, parse_task


def parse_options(variant: str = "", settings: tuple[str, ...] = ()) -> Options:
    """The options of a variant, some of them changed as name=value.

    Whether the image is observed alone is left open: files and policies have the image in any case.
    """
    if variant not in VARIANTS:
        raise ValueError(f"unknown variant {variant!r}: {did_you_mean(variant, filter(None, VARIANTS))}")
    return override(_with_any_observation(Options(**VARIANTS[variant])), settings)


def check_playable(task: Task, options: Options) -> None:
    """Refuses what no policy or person can play."""
    if not options.discrete_actions:
        raise ValueError("discrete_actions must be true: policies and people use the six discrete actions")
    check_minimap(task, options)


def record_options(options: Options) -> dict[str, Any]:
    """What files record: the options that differ from the defaults."""
    default = dataclasses.asdict(DEFAULT)
    chosen = dataclasses.asdict(_with_any_observation(options))
    return {name: value for name, value in chosen.items() if value != default[name]}


def read_options(recorded: Any) -> Options:
    """Options from what `record_options` gave; `ValueError` or `TypeError` if it is anything else."""
    if not isinstance(recorded, dict):
        raise ValueError(f"options must be a dictionary: got {recorded!r:.40}")
    options = Options.from_keywords(recorded)
    for field in dataclasses.fields(Options):
        value = getattr(options, field.name)
        if isinstance(value, bool) != isinstance(field.default, bool):
            raise ValueError(f"{field.name} is {value!r:.40}")
    return options


def describe_variant(task: Task, options: Options) -> dict[str, Any]:
    """What files say of a task beside its name: nothing of the usual one."""
    usual = parse_task(task.name)
    changes = {key: value for key, value in vars(task).items() if value != getattr(usual, key)}
    recorded = record_options(options)
    return ({"task_settings": changes} if changes else {}) | ({"options": recorded} if recorded else {})


def read_variant(described: Mapping[str, Any]) -> tuple[Task, Options]:
    """The task and its variant, of plain data with its name and what `describe_variant` gave.

    Raises `ValueError`, `TypeError` or `KeyError` if it is anything else.
    """
    task = dataclasses.replace(parse_task(str(described["task"])), **described.get("task_settings", {}))
    return task, read_options(described.get("options", {}))


def choose_variant(
    own: tuple[Task, Options] | None,
    name: str | None = None,
    objects: int | None = None,
    seconds: float | None = None,
    options: Options | None = None,
) -> tuple[Task, Options]:
    """What a policy plays: what was asked for, and for the rest what is its own, or the benchmark's."""
    if own is None:
        return parse_task(name or "9x9", objects, seconds), options or DEFAULT
    task, others = own
    if name not in (None, task.name) or (objects, seconds) != (None, None):
        task = parse_task(name or task.name, objects, seconds)
    return task, others if options is None else options


@functools.cache  # boards and pictures ask for it again and again
def name_options(options: Options) -> str:
    """Like "Vis", or "HD, control_freq=8" for the nearest variant and what differs; "" for the default."""
    wanted = record_options(options)
    best, changes = "", wanted
    for name, keywords in VARIANTS.items():
        others = record_options(Options(**keywords))
        rest = {key: value for key, value in wanted.items() if others.get(key) != value}
        if others.keys() <= wanted.keys() and len(rest) < len(changes):
            best, changes = name, rest
    return ", ".join(filter(None, [best, *(f"{key}={_plain(value)}" for key, value in changes.items())]))


def name_task(task: Task, options: Options = DEFAULT) -> str:
    """Like "9x9", or "9x9, Vis, 100 steps" where it is not the usual task of that size."""
    usual = parse_task(task.name)
    words = [task.name, name_options(options)]
    for field in dataclasses.fields(Task):
        value = getattr(task, field.name)
        if value == getattr(usual, field.name):
            continue
        if field.name == "objects":
            words.append(f"{value} object{'' if value == 1 else 's'}")
        elif field.name == "seconds":
            words.append(f"{task.episode_steps(options.control_freq):,} steps")
        else:
            words.append(f"{field.name}={value}")
    return ", ".join(filter(None, words))


def is_usual(task: Task, options: Options) -> bool:
    """Whether it is the default variant of the task that goes by this name."""
    return task == parse_task(task.name) and not record_options(options)


def _with_any_observation(options: Options) -> Options:
    return dataclasses.replace(options, image_only_obs=False)


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"
