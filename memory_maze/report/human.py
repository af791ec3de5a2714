"""What people score beside the paper's human: from their recordings to tables."""

import collections
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from memory_maze import paper
from memory_maze.episodes.evaluate import BIN, RESAMPLES, bootstrap
from memory_maze.options import DEFAULT, Options
from memory_maze.play.recordings import Played, read_recordings
from memory_maze.report.cells import MISSING, Cell
from memory_maze.report.layout import fold_score, markdown, note_damaged
from memory_maze.report.markup import escape_markdown
from memory_maze.report.online import ENGINES, make_rows
from memory_maze.results.find import HUMAN, KINDS, describe_others, find_places
from memory_maze.tasks import TASKS, Task
from memory_maze.variants import name_task, record_options

NOTE = (
    "Mean score of the episodes ± its bootstrapped standard error, as in the paper; the "
    "paper's human is one person with ten episodes of each size. Practice does not count."
)
_PAPER = ("Oracle", "Human")
_PEOPLE = "People"


@dataclasses.dataclass(frozen=True)
class Found:
    """What is in folders of recordings."""

    counted: list[Played]
    """The oldest first."""
    practice: int
    """Episodes that are not counted."""
    damaged: dict[Path, str]
    """What is wrong with files; the text names them."""


@dataclasses.dataclass(frozen=True)
class Size:
    """Episodes of one variant of a task."""

    name: str
    task: Task
    episodes: list[Played]
    options: Options = DEFAULT

    @property
    def scores(self) -> np.ndarray:  # (episodes,)
        return np.array([one.score for one in self.episodes], float)

    @property
    def players(self) -> list[str]:
        """In the order of their first episodes."""
        return list(dict.fromkeys(one.player for one in self.episodes))

    @property
    def bins(self) -> np.ndarray:  # (episodes, bins)
        """Rewards in each 100 steps; what is left at the end of an episode is no bin."""
        counts = np.zeros((len(self.episodes), self.task.episode_steps(self.options.control_freq) // BIN))
        for row, one in zip(counts, self.episodes, strict=True):
            places = (np.array(one.reward_steps, int) - 1) // BIN
            np.add.at(row, places[places < len(row)], 1)
        return counts

    @property
    def is_published(self) -> bool:
        """Whether the paper's scores are of the same task."""
        return self.name in TASKS

    def of(self, player: str) -> "Size":
        return Size(
            self.name, self.task, [one for one in self.episodes if one.player == player], self.options
        )


def find_recordings(folders: Sequence[Path], *, anonymous: bool = False) -> Found:
    """The episodes of all folders; one that is in several counts once.

    Args:
        folders: As `play.recordings` describes them, those of `memory-maze serve`, and folders of either.
        anonymous: Players are P1, P2, ... in the order of their first episodes.
    """
    found: dict[str, Played] = {}
    damaged: dict[Path, str] = {}
    for folder in folders:
        if not folder.exists():
            raise FileNotFoundError(f"{folder} not found: {how_to_record(folder)}")
    for place in find_places(folders, HUMAN):
        if place.kind == HUMAN:
            for played in read_recordings(place.path, damaged):
                found.setdefault(played.id, played)
    episodes = [found[id] for id in sorted(found)]  # ids are in the order of time
    counted = [one for one in episodes if not one.practice]
    practice = len(episodes) - len(counted)
    return Found(hide_names(counted) if anonymous else counted, practice, damaged)


def how_to_record(folder: Path) -> str:
    """What to do where nothing is recorded."""
    return f"memory-maze play --out {folder} records your episodes, memory-maze serve those of others"


def hide_names(episodes: Iterable[Played]) -> list[Played]:
    """The same of P1, P2, ..."""
    names: dict[str, str] = {}
    return [
        dataclasses.replace(one, player=names.setdefault(one.player, f"P{len(names) + 1}"))
        for one in episodes
    ]


def check_found(found: Found, folders: Sequence[Path]) -> None:
    """An error that says what to do if there is nothing to report."""
    if not found.counted:
        places = find_places(folders, HUMAN)
        if not (found.practice or found.damaged) and any(place.kind in KINDS for place in places):
            raise ValueError(describe_others(folders, places, HUMAN))
        words = [f"no scored episodes in {', '.join(map(str, folders))}"]
        words += [f"{found.practice} of practice"] if found.practice else []
        words += [f"{len(found.damaged)} damaged"] if found.damaged else []
        raise ValueError(f"{', '.join(words)}: {how_to_record(folders[0])}")


def group(episodes: Iterable[Played]) -> list[Size]:
    """By task and variant, small ones first."""
    sizes: dict[str, Size] = {}
    for one in episodes:
        name = name_task(one.task, one.options)
        sizes.setdefault(name, Size(name, one.task, [], one.options)).episodes.append(one)
    return sorted(sizes.values(), key=lambda size: (size.task.size, size.name))


def make_cell(size: Size) -> Cell:
    """Of its episodes; of one there is no error."""
    scores = size.scores
    error = float(resample(scores).std()) if len(scores) > 1 else None
    return Cell(float(scores.mean()), error, None if error is None else "episodes", 1, len(scores))


def resample(values: np.ndarray) -> np.ndarray:
    """Means over (episodes, ...) that are drawn again many times."""
    count = len(values)
    draws = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), RESAMPLES)
    return draws / count @ values


def columns(sizes: Sequence[Size]) -> list[str]:
    """The tasks of the benchmark, and others that were played."""
    tasks = TASKS | {size.name: size.task for size in sizes}
    return sorted(tasks, key=lambda name: (tasks[name].size, name))


def make_lines(sizes: Sequence[Size]) -> list[list[str]]:
    """The table of sizes: what the paper's oracle and human score, and people."""
    names, found = columns(sizes), {size.name: size for size in sizes}
    lines = [
        [f"{row.name}, the paper's", *(str(row.cells.get(name, MISSING)) for name in names)]
        for row in make_rows([])
        if row.name in _PAPER
    ]

    def add(title: str, describe: Callable[[Size], str]) -> None:
        cells = [describe(found[name]) if name in found else MISSING for name in names]
        lines.append([title, *cells])

    add(_PEOPLE, lambda size: str(make_cell(size)))
    add("95 % interval", describe_interval)
    add("share of the Oracle", describe_share)
    add("episodes", lambda size: f"{len(size.episodes):,}")
    add("players", lambda size: f"{len(size.players):,}")
    return lines


def describe_interval(size: Size) -> str:
    """Like "22.4 to 25.1"."""
    if (interval := bootstrap(size.scores)) is None:
        return MISSING
    low, high = interval
    return f"{low:.1f} to {high:.1f}"


def describe_share(size: Size) -> str:
    """Of the paper's oracle, in percent."""
    if not size.is_published:
        return MISSING
    return f"{size.scores.mean() / paper.SCORES['Oracle'][size.name].mean:.0%}"


def make_player_lines(sizes: Sequence[Size]) -> list[list[str]]:
    """The table of players, in the order of their first episodes."""
    names = columns(sizes)
    first = sorted((one.id, one.player) for size in sizes for one in size.episodes)
    lines = []
    for player in dict.fromkeys(player for _, player in first):
        own = {size.name: size.of(player) for size in sizes if player in size.players}
        cells = [_with_count(own[name]) if name in own else MISSING for name in names]
        lines.append([player, f"{sum(len(size.episodes) for size in own.values()):,}", *cells])
    return lines


def _with_count(size: Size) -> str:
    return f"{make_cell(size)} (n={len(size.episodes)})"


def make_tables(sizes: Sequence[Size]) -> list[Table]:
    """Sizes and players for the terminal."""
    names = [name.replace(", ", "\n") for name in columns(sizes)]
    scores = Table("score", *names)
    players = Table("player", "episodes", *names, caption=NOTE, caption_justify="left")
    for table, lines in ((scores, make_lines(sizes)), (players, make_player_lines(sizes))):
        for column in table.columns[1:]:
            column.justify = "right"
            column.no_wrap = True
        table.columns[0].overflow = "fold"
        for name, *cells in lines:
            if table is scores and name == _PEOPLE:
                table.add_section()
            folded = (fold_score(cell, len(names) > len(TASKS)).replace(" to ", " to\n") for cell in cells)
            table.add_row(escape(name), *folded)
    return [scores, players]


def make_markdown(sizes: Sequence[Size]) -> list[str]:
    """The same in Markdown."""
    names = columns(sizes)
    lines = [[escape_markdown(name), *others] for name, *others in make_player_lines(sizes)]
    return [
        markdown(["score", *names], make_lines(sizes)),
        markdown(["player", "episodes", *names], lines),
    ]


def make_recording_table(sizes: Sequence[Size]) -> str:
    """Where the episodes of each size come from, in Markdown."""
    header = ["size", "episodes", "engine", "actions a second", "seeds", "from", "to", "made with"]
    lines = []
    for size in sizes:
        engines = collections.Counter(ENGINES.get(one.engine, one.engine) for one in size.episodes)
        paces, versions = ({getattr(one, key) for one in size.episodes} for key in ("pace", "made_with"))
        seeds = [one.seed for one in size.episodes]
        dates = [day_of(one) for one in size.episodes]
        lines.append(
            [
                size.name,
                f"{len(size.episodes):,}",
                escape_markdown(", ".join(f"{name} {count:,}" for name, count in sorted(engines.items()))),
                ", ".join(sorted(f"{pace:g}" for pace in paces)),
                str(seeds[0]) if len(set(seeds)) == 1 else f"{min(seeds)} to {max(seeds)}",
                min(dates),
                max(dates),
                escape_markdown(", ".join(sorted(map(str, versions)))),
            ]
        )
    return markdown(header, lines)


def day_of(played: Played) -> str:
    """Like 2026-11-15; ids begin with it."""
    return f"{played.id[:4]}-{played.id[4:6]}-{played.id[6:8]}"


def make_notes(found: Found) -> list[str]:
    """What is to be said below the tables."""
    notes = [NOTE]
    if found.practice:
        notes.append(f"Left out: {found.practice:,} episode{'s' * (found.practice > 1)} of practice.")
    return [*notes, *note_damaged(found.damaged)]


def describe_scores(found: Found, sizes: Sequence[Size], *, anonymous: bool) -> dict[str, Any]:
    """Everything in the tables and figures, as plain data."""
    return {
        "sizes": [_describe(size) for size in sizes],
        "players": [
            {
                "player": player,
                "scores": {
                    size.name: _describe_cell(make_cell(size.of(player)))
                    for size in sizes
                    if player in size.players
                },
            }
            for player, *_ in make_player_lines(sizes)
        ],
        "episodes": [_describe_episode(size, one, anonymous) for size in sizes for one in size.episodes],
        "practice_left_out": found.practice,
        "damaged_left_out": len(found.damaged),
    }


def _describe_cell(cell: Cell) -> dict[str, Any]:
    return {"mean": cell.mean, "std_error": cell.error, "episodes": cell.episodes}


def _describe(size: Size) -> dict[str, Any]:
    cell = make_cell(size)
    described: dict[str, Any] = {
        "size": size.name,
        "task": dataclasses.asdict(size.task),
        **_describe_cell(cell),
        "interval_95": bootstrap(size.scores),
        "players": len(size.players),
        "rewards_per_100_steps": size.bins.mean(axis=0).tolist(),
    }
    if recorded := record_options(size.options):
        described["options"] = recorded
    if size.is_published:
        described["paper"] = {name: paper.SCORES[name][size.name]._asdict() for name in _PAPER}
        described["share_of_oracle"] = cell.mean / paper.SCORES["Oracle"][size.name].mean
    return described


def _describe_episode(size: Size, one: Played, anonymous: bool) -> dict[str, Any]:
    """Ids tell when somebody played, and so who."""
    keys = ("player", "seed", "engine", "score", "pace", "made_with")
    described = {"size": size.name} | {key: getattr(one, key) for key in keys}
    described |= {"reward_steps": list(one.reward_steps)}
    return described if anonymous else {"id": one.id, "date": one.date} | described
