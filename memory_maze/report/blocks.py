"""What reports consist of: tables, notes and figures, for Markdown files and for the web page."""

import json
from collections.abc import Sequence
from pathlib import Path

from memory_maze.report import human, online, online_tables, probing, probing_tables
from memory_maze.report.markup import Block, Picture
from memory_maze.report.online import Policies


def online_blocks(groups: Sequence[online.Group], policies: Policies) -> list[Block]:
    """Of trained agents."""
    from memory_maze.report import figures

    blocks: list[Block] = [
        online_tables.make_markdown(online.make_rows(groups), online.columns(groups)),
        *online_tables.make_notes(groups),
        Picture(
            "curves.png",
            "Episode returns during training; bands show the range over runs.",
            figures.draw_curves(groups),
        ),
        Picture(
            "minutes.png",
            "Episode returns over the time of training, on the device that each run was on.",
            figures.draw_minutes(groups, policies),
        ),
        Picture(
            "episode.png",
            "Rewards over the episode: agents that remember the maze get faster.",
            figures.draw_episodes(groups, policies["oracle"]),
        ),
    ]
    if engines := online_tables.make_engine_table(groups):
        blocks += ["## The same mazes on both engines", engines]
    return [*blocks, "## Runs", online_tables.make_run_table(groups)]


def probing_blocks(groups: Sequence[probing.Group]) -> list[Block]:
    """Of probed models."""
    from memory_maze.report import probing_figures

    rows = probing.make_rows(groups)
    return [
        probing_tables.make_markdown(rows, probing.columns(groups)),
        *probing_tables.make_notes(rows),
        *filter(None, [probing.describe_order(groups)]),
        Picture(
            "bars.png",
            "Scores of the models: the paper's hatched, ours filled.",
            probing_figures.draw_bars(rows),
        ),
        Picture(
            "steps.png",
            "Scores over the episode: models that remember the maze improve over time.",
            probing_figures.draw_steps(groups),
        ),
        Picture(
            "curves.png",
            "Scores during training; bands show the range over runs.",
            probing_figures.draw_curves(groups),
        ),
        Picture(
            "depths.png",
            "Scores by the depth of the probe; uninformed baselines are dashed.",
            probing_figures.draw_depths(groups),
        ),
        "## Runs",
        probing_tables.make_run_table(groups),
    ]


def human_blocks(found: human.Found, sizes: Sequence[human.Size], policies: Policies) -> list[Block]:
    """Of people."""
    from memory_maze.report import human_figures

    scored, players = human.make_markdown(sizes)
    return [
        scored,
        *human.make_notes(found),
        Picture(
            "episode.png",
            "Rewards over the episode: people get faster as they come to know the maze. Bands are "
            "bootstrapped 95 % intervals of the mean.",
            human_figures.draw_episodes(sizes, policies["oracle"]),
        ),
        Picture(
            "scores.png",
            "Scores of people with the paper's oracle, human and agents (hatched). Errors of "
            "people are standard errors over episodes, those of agents standard deviations over five runs.",
            human_figures.draw_scores(sizes),
        ),
        "## Players",
        players,
        "## Recordings",
        human.make_recording_table(sizes),
    ]


def read_policies(path: Path) -> Policies:
    """Of the oracle and a random policy, as benchmarks/policies.py wrote them; nothing without the file."""
    found: Policies = {"oracle": {}, "random": {}}
    if not path.exists():
        return found
    try:
        for one in json.loads(path.read_text()).values():
            if one["policy"] in found and one["engine"] == "jax":
                found[one["policy"]][one["task"]] = one["rewards_per_100_steps"]
        return found
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path}: not what benchmarks/policies.py writes: {error}") from error
