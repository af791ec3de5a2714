"""From a user's word to episodes to look at. Listing them is quick: they are read or played at first use.

    recordings            a folder of episodes that people played
    data/9x9              a data set: scenes, NPZ files, a zip file, or hub:owner/name
    oracle, impala-9x9    a policy, a trained agent by its name or folder, or your own as module:name
    runs/probe            a run of memory-maze probe, with a data set beside it

WORD#12 is one of them: the episode, the trajectory, or the seed of the maze that an agent plays in.
"""

import dataclasses
import functools
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from memory_maze.agents.folder import CONFIG, agent_names, find_environment
from memory_maze.agents.load import check_agent, load_policy
from memory_maze.data import hub
from memory_maze.data.archive import Archive
from memory_maze.data.inspect import Part, find_parts, read_part
from memory_maze.data.npz import Opener
from memory_maze.data.scenes import UNKNOWN_SEED, Scenes, from_recording, read_scenes, to_scenario
from memory_maze.data.schema import DataError
from memory_maze.episodes.rollout import Advance
from memory_maze.options import DEFAULT, Options
from memory_maze.play.recordings import (
    EPISODES,
    Played,
    RecordingError,
    find_episodes,
    read_played,
    read_recordings,
)
from memory_maze.policies import POLICIES
from memory_maze.results.schema import PROBING, find_kind_of_config
from memory_maze.sampler import check_seed, make_sampler
from memory_maze.scenario import Scenario
from memory_maze.system.extras import missing
from memory_maze.system.files import read_small
from memory_maze.system.provenance import short_name
from memory_maze.tasks import Task, parse_task
from memory_maze.variants import check_playable, choose_variant, name_options, name_task, record_options
from memory_maze.watch.trace import Trace, trace_of_arrays, trace_of_scene

LISTED = 100  # trajectories of a data set; others are reached as PATH#NUMBER
_SCENE_BYTES, _STEP_BYTES = 1 << 20, 256  # that a recorded episode takes at most
_MOST_PICTURES = 20_000  # of a recorded episode that are held in memory
log = logging.getLogger("memory_maze.watch")


class SourceError(ValueError):
    """A word that names nothing to look at."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """What agents play in, and what else is needed to make episodes."""

    task: str | None = None
    """Of agents; by default the one that they were trained in, and 9x9 for other policies."""
    seed: int = 0
    """Of the maze of agents, which is one that no agent is trained in."""
    engine: str = "jax"
    """What agents play on."""
    steps: int | None = None
    """Actions of agents; by default a whole episode."""
    data: str | None = None
    """The data set of runs of probing."""
    scenario: Scenario | None = None
    """The maze that agents play in, in place of the seed's."""
    objects: int | None = None
    """Of the mazes of agents; by default those of the task."""
    seconds: float | None = None
    """Of their episodes; likewise."""
    options: Options | None = None
    """Which variant agents play; by default the one that they were trained in."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """An episode that can be looked at, before it is read or played."""

    key: str
    """Tells it apart from others, the same each time."""
    name: str
    kind: str
    """One of person, data, agent and probe."""
    make: Callable[[Advance], Trace]
    """Reads or plays it; told of progress, in steps."""
    task: str | None = None
    score: float | None = None
    """None if that is not known before it is made; likewise the others."""
    steps: int | None = None
    maze: str | None = None
    """The same for episodes in the same maze."""
    find_scenario: Callable[[], Scenario | None] = lambda: None
    """The maze, for agents to play in."""
    options: Options = DEFAULT
    """The variant."""

    def load(self, advance: Advance = lambda steps: None) -> Trace:
        """The episode."""
        return self.make(advance)


def find_entries(word: str, settings: Settings | None = None) -> list[Entry]:
    """The episodes that a word names."""
    settings = settings or Settings()
    base, number = _split(word)
    finder = _find_kind(base)
    entries = finder(base, number, settings)
    if not entries:
        raise SourceError(f"{word}: no episodes found")
    return entries


def find_all(words: Sequence[str], settings: Settings | None = None) -> list[Entry]:
    """The episodes of several words; agents play in the same maze, of the task of the first trained one."""
    settings = _with_task(words, settings or Settings())
    return [entry for word in words for entry in find_entries(word, settings)]


def find_pair(words: Sequence[str], settings: Settings | None = None) -> list[Entry]:
    """The first episode of each word. An agent plays in the maze of an episode that was recorded."""
    asked = settings or Settings()
    settings = _with_task(words, asked)
    entries = [find_entries(word, settings)[0] for word in words]
    recorded = next((entry for entry in entries if entry.kind != "agent"), None)
    if recorded is None or all(entry.kind != "agent" for entry in entries):
        return entries
    scenario = recorded.find_scenario()
    if scenario is None:
        raise SourceError(f"{recorded.name}: agents can only play in mazes of recordings and scenes")
    lengths = [steps for steps in (settings.steps, recorded.steps) if steps is not None]
    if asked.options is not None:
        raise SourceError(f"agents play the variant of {recorded.name}: omit --variant")
    steps = min(lengths, default=None)
    settings = dataclasses.replace(settings, scenario=scenario, steps=steps, options=recorded.options)
    pairs = zip(words, entries, strict=True)
    return [find_entries(word, settings)[0] if entry.kind == "agent" else entry for word, entry in pairs]


def _with_task(words: Sequence[str], settings: Settings) -> Settings:
    """Agents are compared in one task: the one that is given, or that of the first trained agent."""
    if settings.task is not None:
        return settings
    for base in (_split(word)[0] for word in words):
        if _find_kind(base) is find_agents and (own := find_environment(base)) is not None:
            task, options = _choose_variant(own, settings)
            return dataclasses.replace(
                settings, task=task.name, objects=task.objects, seconds=task.seconds, options=options
            )
    return settings


def _split(word: str) -> tuple[str, int | None]:
    base, mark, number = word.rpartition("#")
    if not mark or Path(word).exists():
        return word, None
    if not number.isdecimal():
        raise SourceError(f"{word}: expected a number from 0 after #")
    return base, int(number)


def _find_kind(word: str) -> Callable[[str, int | None, Settings], list[Entry]]:
    path = Path(word)
    if word in POLICIES:
        return find_agents
    if hub.is_name(word):
        return find_trajectories
    if path.is_dir() and (path / EPISODES).is_dir():
        return find_recordings
    if (path / CONFIG).exists():
        kind = find_kind_of_config(_read_config(path))
        return find_probes if kind == PROBING else find_agents
    if path.exists():
        return find_trajectories
    if word in agent_names() or ":" in word:
        return find_agents
    raise SourceError(
        f"unknown source {word!r}: give a directory of recordings, a data set, a run of training "
        f"or probing, one of {', '.join([*POLICIES, *agent_names()])}, or your own policy as module:name"
    )


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        config = json.loads(read_small(folder / CONFIG))
    except (OSError, ValueError) as error:
        raise SourceError(f"{folder / CONFIG}: missing or damaged run: {error}") from error
    return config if isinstance(config, dict) else {}


def _choose(entries: list[Any], number: int | None, word: str) -> list[Any]:
    if number is not None and number >= len(entries):
        raise SourceError(
            f"{word}: episode {number} is out of range: there are {len(entries)}, counted from 0"
        )
    return entries if number is None else entries[number : number + 1]


# People


def find_recordings(word: str, number: int | None, settings: Settings) -> list[Entry]:
    """Episodes that people played, the oldest first."""
    folder = Path(word)
    if number is not None:
        (path,) = _choose(list(find_episodes(folder)), number, word)
        return [recording_entry(folder, read_played(path))]
    damaged: dict[Path, str] = {}
    entries = [recording_entry(folder, played) for played in read_recordings(folder, damaged)]
    if damaged and not entries:
        raise RecordingError(next(iter(damaged.values())))
    for problem in damaged.values():
        log.warning("left out: %s", problem)
    return entries


def recording_entry(folder: Path, played: Played) -> Entry:
    """A recorded episode of a folder. Pictures are those that were recorded."""
    where = ", ".join(filter(None, [played.task.name, name_options(played.options)]))
    title = f"{played.player}, {where}, seed {played.seed}"
    return Entry(
        key=f"person:{played.id}",
        name=title + (", practice" if played.practice else ""),
        kind="person",
        make=lambda advance: _read_recording(folder, played, title),
        task=played.task.name,
        score=played.score,
        steps=played.steps,
        maze=_name_maze(played.task, played.seed),
        find_scenario=lambda: make_sampler(played.task, played.seed, played.options).sample(),
        options=played.options,
    )


def _read_recording(folder: Path, played: Played, title: str) -> Trace:
    place = folder / played.places["scenes"]
    limit = _SCENE_BYTES + _STEP_BYTES * played.steps
    trace = trace_of_scene(read_scenes(place, limit=limit), 0, title, played.engine, played.options)
    if (trace.steps, trace.scores[-1]) != (played.steps, played.score):
        raise RecordingError(f"{place}: not the episode of {played.id}.json")
    stored = folder / played.places["npz"]
    if not stored.is_file() or trace.steps > _MOST_PICTURES:  # then they are drawn again
        return trace
    with Archive(stored, str(stored)) as archive:
        shape, dtype = archive.headers().get("image", ((), None))
        side = played.options.camera_resolution
        if shape != (trace.steps + 1, side, side, 3) or dtype != "uint8":
            raise RecordingError(f"{stored}: its images have shape {shape}, which no recording has")
        return dataclasses.replace(trace, source={"image": archive.read("image")})


def _name_maze(task: Task, seed: int) -> str:
    return f"{task.name}, {task.objects} objects, seed {seed}"


# Data sets


def find_trajectories(word: str, number: int | None, settings: Settings) -> list[Entry]:
    """Trajectories of a data set, numbered as `memory_maze.data.load` does; the first `LISTED` ones."""
    path = hub.fetch(word) if hub.is_name(word) else Path(word)
    found = find_parts(path)
    if not found.parts:
        raise DataError(found.problems[0] if found.problems else f"{path}: no trajectories found")
    parts = sorted(found.parts, key=lambda part: part.split == "eval")
    opener = Opener()
    entries: list[Entry] = []
    for index, (part, inside) in enumerate(_places(parts, opener)):
        if index == number or (number is None and index < LISTED):
            entries.append(_trajectory_entry(word, index, part, inside, opener))
        if index >= (LISTED - 1 if number is None else number):
            break
    if number is not None and not entries:
        raise SourceError(
            f"{word}: trajectory {number} is out of range: there are {index + 1}, counted from 0"
        )
    return entries


def _places(parts: list[Part], opener: Opener) -> Iterator[tuple[Part, int]]:
    for part in parts:
        for inside in range(part.count if part.manifest else _count(part, opener)):
            yield part, inside


def _count(part: Part, opener: Opener) -> int:
    with opener.open(part.member) as archive:
        headers = archive.headers()
    return headers["seeds"][0][0] if "poses" in headers and headers.get("seeds", ((),))[0] else 1


def _trajectory_entry(word: str, index: int, part: Part, inside: int, opener: Opener) -> Entry:
    name = f"{short_name(word)}, trajectory {index}"
    read = functools.partial(_read_trajectory, part, inside, opener, name)
    manifest = part.manifest
    return Entry(
        key=f"data:{word}#{index}",
        name=name,
        kind="data",
        make=lambda advance: read(),
        task=manifest.task.name if manifest else None,
        steps=manifest.steps if manifest else None,
        find_scenario=lambda: _find_maze(part, inside, opener),
    )


def _read_trajectory(part: Part, inside: int, opener: Opener, name: str) -> Trace:
    source = read_part(part, opener)
    if not isinstance(source, Scenes):
        return trace_of_arrays(source, name)
    if inside >= len(source):
        raise DataError(f"{part.member.name}: trajectory {inside} is out of range: there are {len(source)}")
    if part.manifest is None:
        return trace_of_scene(source, inside, name)
    return trace_of_scene(source, inside, name, part.manifest.engine, part.manifest.options)


def _find_maze(part: Part, inside: int, opener: Opener) -> Scenario | None:
    """As it was drawn where the seed tells, and as it was played otherwise; NPZ files do not tell enough."""
    source = read_part(part, opener)
    if not isinstance(source, Scenes):
        return None
    seed = int(source.seeds[inside])
    played = to_scenario(source, inside)
    if part.manifest is not None and seed != UNKNOWN_SEED:
        drawn = make_sampler(part.manifest.task, seed, part.manifest.options).sample()
        if (drawn.walls, drawn.objects) == (played.walls, played.objects):
            return drawn
    return played


# Agents


def find_agents(word: str, number: int | None, settings: Settings) -> list[Entry]:
    """An agent in a maze that no agent is trained in, which is the same for all agents."""
    from memory_maze.splits import draw_scenario

    task, options = _choose_variant(find_environment(word), settings)
    check_agent(word, options)
    seed = settings.seed if number is None else number
    check_seed(seed)
    scenario, maze = settings.scenario, None
    if scenario is not None:
        size = len(scenario.walls) - 2
        task = parse_task(f"{size}x{size}", len(scenario.objects))
        title = f"{short_name(word)} in the same maze"
    else:
        drawn, scenario = draw_scenario(task, seed, True, options)
        maze = _name_maze(task, drawn)
        title = f"{short_name(word)}, {name_task(task, options)}, seed {seed}"
    check_playable(task, options)
    steps = task.episode_steps(options.control_freq)
    steps = steps if settings.steps is None else min(settings.steps, steps)
    make = functools.partial(_play, word, title, scenario, seed, steps, settings.engine, options)
    variant = repr(record_options(options)) if record_options(options) else ""
    return [
        Entry(
            key=f"agent:{word}:{seed}:{steps}:{settings.engine}:{scenario.to_text()}{variant}",
            name=title,
            kind="agent",
            make=make,
            task=task.name,
            steps=steps,
            maze=maze,
            find_scenario=lambda: scenario,
            options=options,
        )
    ]


def _choose_variant(own: tuple[Task, Options] | None, settings: Settings) -> tuple[Task, Options]:
    return choose_variant(own, settings.task, settings.objects, settings.seconds, settings.options)


def _play(
    word: str,
    title: str,
    scenario: Scenario,
    seed: int,
    steps: int,
    engine: str,
    options: Options,
    advance: Advance,
) -> Trace:
    from memory_maze.episodes.rollout import play
    from memory_maze.system.programs import cache_programs

    cache_programs()
    policy = load_policy(word)
    recording = play(
        policy, [scenario], steps, engine=engine, seed=seed, width=1, options=options, advance=advance
    )
    return trace_of_scene(from_recording([scenario], [seed], recording), 0, title, engine, options)


# Probes


def find_probes(word: str, number: int | None, settings: Settings) -> list[Entry]:
    """What the probes of a run answer along an evaluation trajectory; the first one by default."""
    if settings.data is None:
        raise SourceError(f"{word}: a probing run needs a data set: give --data PATH")
    model = str(_read_config(Path(word)).get("model"))
    asked = functools.partial(_ask, Path(word), settings.data)
    index = number or 0
    name = f"{model}, trajectory {index}"
    return [
        Entry(
            key=f"probe:{word}:{settings.data}#{index}",
            name=name,
            kind="probe",
            make=lambda advance: asked(index, name),
            maze=f"{settings.data}#{index}",
        )
    ]


def _ask(folder: Path, place: str, index: int, name: str) -> Trace:
    from memory_maze import data

    try:
        from memory_maze.probing.predictions import load_run, predict
    except ModuleNotFoundError as error:
        raise missing(f"probing needs {error.name}", error.name, "train") from error
    dataset = data.load(place, "eval")
    predicted = predict(*load_run(folder, dataset), dataset, index)
    if dataset.scenes is None:
        trace = trace_of_arrays(dataset[index], name)
    else:
        engine = dataset.manifest.engine if dataset.manifest else "jax"
        trace = trace_of_scene(dataset.scenes, index, name, engine, dataset.options)
    return dataclasses.replace(
        trace, source={"image": predicted.images}, walls=predicted.walls, places=predicted.places
    )
