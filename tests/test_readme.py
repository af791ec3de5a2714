"""The README's examples run, and its figures are those of the result files."""

import dataclasses
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from memory_maze.agents.impala.config import Config
from memory_maze.probing import baselines

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)

# The examples of the published package's README, with gym replaced by gymnasium.
PUBLISHED = """
import gymnasium as gym
env = gym.make('memory_maze:MemoryMaze-9x9-v0')
env = gym.make('memory_maze:MemoryMaze-11x11-v0')
env = gym.make('memory_maze:MemoryMaze-13x13-v0')
env = gym.make('memory_maze:MemoryMaze-15x15-v0')
assert str(env.observation_space) == 'Box(0, 255, (64, 64, 3), uint8)'
assert str(env.action_space) == 'Discrete(6)'
env = gym.make('memory_maze:MemoryMaze-9x9-ExtraObs-v0')
assert env.observation_space['maze_layout'].shape == (9, 9)
from memory_maze import tasks
env = tasks.memory_maze_9x9()
env = tasks.memory_maze_11x11()
env = tasks.memory_maze_13x13()
env = tasks.memory_maze_15x15()
assert env.observation_spec()['image'].shape == (64, 64, 3)
env = tasks.memory_maze_9x9(
    global_observables=True,
    image_only_obs=False,
    top_camera=False,
    camera_resolution=64,
    control_freq=4.0,
    discrete_actions=True,
)
env.reset()
"""


def test_there_are_examples():
    assert len(SNIPPETS) == 5


@pytest.mark.parametrize(
    "code",
    [*SNIPPETS, PUBLISHED],
    ids=["gymnasium", "vector", "functional", "dm_env", "scenario", "published"],
)
def test_examples_run(code, tmp_path):
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=240
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""


@pytest.mark.slow
def test_examples_of_data_sets_run(tmp_path):
    text = (ROOT / "docs" / "data.md").read_text()
    snippets = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(snippets) == 3
    make = 'from memory_maze import data\ndata.collect("data/9x9", "9x9", 32, steps=60, evaluation=0)\n'
    test_examples_run(make + "\n".join(snippets), tmp_path)


@pytest.mark.parametrize("page", [pytest.param("environment", marks=pytest.mark.slow), "mazes", "training"])
def test_examples_of_pages_run(page, tmp_path):
    snippets = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(), re.DOTALL)
    assert snippets
    test_examples_run("\n".join(snippets), tmp_path)


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 220


def find_anchors(page):
    """Of its headings, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return [re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-") for title in titles]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_pictures_and_anchors_exist(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        linked = page.parent / path if path else page
        assert linked.exists(), target
        assert not anchor or anchor in find_anchors(linked), target


def test_every_page_is_linked_from_the_readme():
    for page in (ROOT / "docs").glob("*.md"):
        assert f"](docs/{page.name})" in README, page.name


def test_every_picture_is_shown():
    shown = "".join(page.read_text() for page in PAGES)
    for picture in (ROOT / "docs" / "images").iterdir():
        assert f"images/{picture.name}" in shown, picture.name


def test_every_make_target_exists():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"make ([a-z-]+)", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_figures_are_those_of_the_result_files(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from documents import PAGES, fill  # ty: ignore[unresolved-import]

    for page in PAGES:
        assert fill(page) == (ROOT / page).read_text(), "run: python benchmarks/documents.py"


def read_means(folder, target, task):
    """By model."""
    files = [json.loads(path.read_text()) for path in (ROOT / "results" / folder).glob("*.json")]
    return {
        one["title"]: one["evaluation"][target]["mean"]
        for one in files
        if one["task"] == task and target in one["evaluation"]
    }


def test_what_pages_say_of_results_is_so():
    """Sentences of docs/probing.md that rank results."""
    walls = read_means("probing", "walls", "15x15")
    assert max(walls.values()) < walls["Constant baseline"] + 0.2, (
        "in 15x15 no model learns anything about walls"
    )
    small = read_means("probing-small", "objects", "15x15")
    assert min(small, key=small.get) == "Supervised oracle", "by far"
    remembering = [small[name] for name in ("RSSM", "RSSM (TBTT)", "VAE+GRU (TBTT)")]
    assert small["Supervised oracle"] + 10 < min(remembering)
    assert max(remembering) < small["VAE (no memory)"] < small["Constant baseline"]
    assert max(remembering) - min(remembering) < 2, "too small to rank them"
    small_walls = read_means("probing-small", "walls", "15x15")
    constant = small_walls["Constant baseline"]
    assert min(small_walls, key=small_walls.get) == "Supervised oracle", "and the supervised one worse"
    assert all(
        abs(mean - constant) < 0.1 for name, mean in small_walls.items() if name != "Supervised oracle"
    )


def read_run(name):
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def find_return(name, begin, end):
    """The mean return of a run in 13x13 from one number of millions of steps to another."""
    folder = "online" if name == "fast-13x13-0" else "trials"
    curve = read_run(f"{folder}/{name}")["curve"]
    points = [one for one in curve if one["return"] is not None and begin <= one["steps"] / 1e6 <= end]
    return statistics.fmean(one["return"] for one in points)


def test_what_docs_training_says_of_trials_is_so():
    for begin, end in ((20, 25), (35, 42)):
        short, long = (find_return(f"13x13-512-mazes-{length}", begin, end) for length in ("short", "long"))
        assert long > short + 3, "sequences of twice the length"
    seed_rl = find_return("13x13-512-mazes-short-seed-rl", 20, 25)
    assert seed_rl > find_return("13x13-512-mazes-short", 20, 25) + 3, "starting and stepping as SEED RL"
    fast, thirty_two = (find_return(name, 35, 42) for name in ("fast-13x13-0", "13x13-groups-of-32"))
    assert fast > thirty_two + 1.5, "groups of 16 sequences"
    for name, part in (("13x13-groups-of-32-twice", (30, 34.6)), ("13x13-groups-of-64-twice", (50, 56))):
        assert abs(find_return(name, *part) - find_return("fast-13x13-0", *part)) < 1.5, "about as much"
    names = ("trials/13x13-no-clipping", "trials/13x13-groups-of-64-short", "online/fast-13x13-0")
    unclipped, clipped, best = (read_run(name)["evaluations"][0]["mean"] for name in names)
    assert clipped - unclipped > best - clipped, "clipping, with less entropy, makes most"
    text = " ".join((ROOT / "docs" / "training.md").read_text().split())
    for kind in ("before", "after"):
        runs = (read_run(f"trials/9x9-small-{kind}-{seed}") for seed in range(3))
        one, two, three = (f"{run['evaluations'][0]['mean']:.2f}" for run in runs)
        assert f"{one}, {two} and {three} {kind}" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_hyperparameters_have_the_names_of_now(page):
    known = {field.name for config in (Config, baselines.Config) for field in dataclasses.fields(config)}
    known.add("name")  # of any
    settings = re.findall(r"--set ((?:[a-z_]+=\S+ ?)+)", page.read_text())
    named = re.findall(r"`([a-z_]+)=[^`]*`", page.read_text()) if page.stem == "training" else []
    for name in [*named, *re.findall(r"([a-z_]+)=", " ".join(settings))]:
        assert name in known, name
