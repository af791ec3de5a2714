"""Results of every kind: one schema, and one folder that all reports read."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_report_human import record
from test_report_page import Page

from memory_maze.cli import main
from memory_maze.report import online, probing
from memory_maze.results import schema
from memory_maze.results.find import KINDS, find_places, find_results

RESULTS = Path(__file__).parent.parent / "results"
AGENT = RESULTS / "online" / "fast-9x9-0.json"
MODEL = RESULTS / "probing" / "paper-rssm-tbtt-9x9-0.json"
LINES = [{"steps": n, "seconds": n / 9, "steps_per_second": 9.0} for n in (100, 200)]
EPISODES = [line | {"episodes": 2, "return": 1.5} for line in LINES]


def read(path):
    return json.loads(path.read_text())


def make_run(folder, result=None, *, lines=None, config=None, weights=b"w", like=AGENT):
    """The folder of a run, with a result or interrupted before there was one."""
    folder.mkdir(parents=True)
    config = read(like)["config"] if config is None else config
    (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    if weights:
        (folder / "agent.safetensors").write_bytes(weights)
    if lines is not None:
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if result is not None:
        (folder / "result.json").write_text(result if isinstance(result, str) else json.dumps(result))
    return folder


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Runs of both kinds, whole and interrupted, recordings of people, and what is none of these."""
    monkeypatch.chdir(tmp_path)
    runs = Path("runs")
    make_run(runs / "impala", read(AGENT), lines=EPISODES)
    make_run(runs / "deeper" / "rssm", read(MODEL), lines=LINES, like=MODEL)
    make_run(runs / "killed-impala", lines=EPISODES, weights=b"others")
    make_run(runs / "killed-rssm", lines=LINES, like=MODEL, weights=None)
    make_run(runs / "agent-alone", config=read(AGENT)["config"] | {"kind": "online"})
    record(runs / "people", "Ann", score=30)
    (runs / "copy.json").write_text(AGENT.read_text())
    (runs / "manifest.json").write_text('{"format": 1, "kind": "scenes"}')
    (runs / "plan.json").write_text("[1, 2]")
    (runs / "notes.txt").write_text("{")
    (runs / ".result-partial.json").write_text("{")
    (runs / "again").symlink_to(runs.absolute())
    return runs


def find(kind, *paths):
    found = find_results(paths, kind)
    return sorted(result["file"] for result in found.results), found


def test_every_kind_is_found_in_one_folder(runs):
    files, found = find("online", runs)
    assert files == ["runs/impala", "runs/killed-impala"], "a run and a copy of its file count once"
    assert not found.left_out
    (killed,) = (one for one in found.results if one["file"] == "runs/killed-impala")
    assert (killed["kind"], killed["title"], killed["loss_version"]) == ("online", "IMPALA", 1)
    assert (killed["training"]["steps"], killed["curve"][-1]["return"]) == (200, 1.5)
    files, found = find("probing", runs)
    assert files == ["runs/deeper/rssm"]
    assert found.unfinished == {
        runs / "killed-rssm": "runs/killed-rssm: not evaluated yet, after 200 gradient steps: "
        "run memory-maze probe again to resume"
    }
    assert not found.damaged


@pytest.mark.parametrize(
    ("kind", "told", "left_out"),
    [
        ("online", ["IMPALA, preset fast", "26.6 ± 0.8"], []),
        ("probing", ["RSSM (TBTT), preset paper", "85.0 ± 0.1"], ["runs/killed-rssm: not evaluated yet"]),
        ("human", ["Ann", "30.0"], []),
    ],
)
def test_each_report_reads_the_same_folder(runs, kind, told, left_out, capsys):
    main(["report", kind, "runs", "--out", "report"])
    page = (Path("report") / f"{kind}.md").read_text()
    assert all(words in page for words in told), page
    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if line.startswith("left out: ")]
    assert [line.partition(", ")[0] for line in lines] == [f"left out: {text}" for text in left_out]


def test_named_one_by_one_others_are_passed_over_as_well(runs):
    files, _ = find("probing", *sorted(runs.iterdir()))
    assert files == ["runs/deeper/rssm"]
    files, _ = find("online", runs / "killed-rssm", runs / "copy.json")
    assert files == ["runs/copy.json"]


def test_one_page_shows_them_all(runs, capsys):
    main(["report", "page", "runs", "--out", "site"])
    page = Page(Path("site/index.html").read_text())
    titles = [attributes["id"] for tag, attributes in page.tags if tag == "section"]
    assert titles == ["online-benchmark", "offline-probing-benchmarks", "people"]
    for words in ("IMPALA, preset fast", "RSSM (TBTT), preset paper", "Ann"):
        assert words in page.text
    assert "left out: runs/killed-rssm: not evaluated yet" in capsys.readouterr().out
    main(["report", "page", "runs/impala", "--out", "site"])
    page = Page(Path("site/index.html").read_text())
    assert [attributes["id"] for tag, attributes in page.tags if tag == "section"] == ["online-benchmark"]


@pytest.mark.parametrize(
    ("kind", "kept", "message"),
    [
        (
            "online",
            ["deeper", "killed-rssm", "people"],
            "runs: no online runs, but 2 probing runs (memory-maze report probing runs) and recordings of "
            "people (memory-maze report human runs)",
        ),
        (
            "probing",
            ["impala"],
            "runs: no probing runs, but 1 online run (memory-maze report online runs)",
        ),
        (
            "human",
            ["impala", "deeper"],
            "runs: no recordings of people, but 1 online run (memory-maze report online runs) and 1 probing "
            "run (memory-maze report probing runs)",
        ),
        ("probing", ["killed-rssm"], "runs/killed-rssm: not evaluated yet, after 200 gradient steps"),
        ("online", ["agent-alone", "plan.json"], "runs: neither online runs nor their result files"),
        ("human", ["agent-alone"], "no scored episodes in runs: memory-maze play --out runs"),
    ],
)
def test_what_is_there_instead_is_told(runs, kind, kept, message, capsys):
    for path in runs.iterdir():
        if path.name not in kept:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    with pytest.raises(SystemExit):
        main(["report", kind, "runs"])
    assert message in capsys.readouterr().err


def cut(path):
    """Damages a file."""
    path.write_text(path.read_text()[:-50])


def test_a_damaged_file_is_named_by_its_own_report_alone(runs, capsys):
    whole = read(AGENT) | {"weights": "others"}
    make_run(runs / "broken", whole, lines=EPISODES)
    cut(runs / "broken" / "result.json")
    main(["report", "online", "runs", "--out", "report"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "26.6 ± 0.8" in printed, "the others are reported"
    assert "left out: runs/broken/result.json: not a valid result of an online run: " in printed
    assert ": remove it, and recreate it with memory-maze evaluate runs/broken" in printed
    assert "Left out because they are damaged: broken." in Path("report/online.md").read_text()
    main(["report", "probing", "runs"])
    assert "broken" not in capsys.readouterr().out
    main(["report", "page", "runs", "--out", "site"])
    assert "Left out because they are damaged: broken." in Page(Path("site/index.html").read_text()).text
    # As the remedy says: what the run logged is still there.
    (runs / "broken" / "result.json").unlink()
    files, found = find("online", runs)
    assert "runs/broken" in files
    assert not found.damaged


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"for'])
def test_the_kind_of_a_damaged_result_is_that_of_its_run(runs, content):
    make_run(runs / "broken", content, lines=LINES, like=MODEL)
    assert find("probing", runs)[1].damaged.keys() == {runs / "broken"}
    assert not find("online", runs)[1].damaged


@pytest.mark.parametrize(("like", "kind"), [(AGENT, "online"), (MODEL, "probing")])
def test_the_kind_of_a_damaged_copy_is_read_from_what_is_left(runs, like, kind):
    for content in (read(like), {"kind": kind} | read(like)):
        (runs / "broken.json").write_text(json.dumps(content)[:-50])
        for each in KINDS:
            assert (runs / "broken.json" in find(each, runs)[1].damaged) == (each == kind)


def test_a_damaged_copy_that_tells_nothing_is_named_by_both(runs):
    (runs / "broken.json").write_text("")
    for kind in KINDS:
        (text,) = find(kind, runs)[1].damaged.values()
        assert text.startswith("runs/broken.json: not a valid result of a")
        assert text.endswith("copy it again from its run, or remove it")


def test_a_damaged_run_without_a_result_is_named(runs):
    make_run(runs / "broken", lines=EPISODES, config="{")
    make_run(runs / "bare", lines=EPISODES, config={"algorithm": "impala"})
    make_run(runs / "light", lines=EPISODES, weights=None)
    damaged = find("online", runs)[1].damaged
    assert sorted(map(str, damaged)) == ["runs/bare", "runs/broken/config.json", "runs/light"]
    assert all(text.startswith(str(path)) for path, text in damaged.items())


def test_results_of_a_newer_version_are_no_damage_that_is_mended(runs):
    (runs / "newer.json").write_text(json.dumps(read(AGENT) | {"format": 2}))
    (text,) = find("online", runs)[1].damaged.values()
    assert "its format is 2 and not 1: a newer version may have written it" in text


def test_files_from_before_there_were_kinds_are_recognised():
    places = {place.path: place.kind for place in find_places([RESULTS], "online")}
    for path in RESULTS.glob("*/*.json"):
        assert places[path] == ("probing" if path.parent.name.startswith("probing") else "online"), path
    assert {places[path] for path in RESULTS.glob("*.json")} == {""}


@pytest.mark.parametrize("kind", KINDS)
def test_results_of_every_kind_have_the_common_part(kind):
    for result in find_results([RESULTS], kind).results:
        assert result["kind"] == kind
        assert result["title"]
        assert schema.find_difference(result, schema.COMMON, "it") is None
        assert set(schema.ORIGIN) <= result.keys()
        assert "loss_version" in result


def name_online(**changes):
    (one,) = online.group([schema_of("online", AGENT, **changes)])
    return one.name


def name_probing(**changes):
    (one,) = probing.group([schema_of("probing", MODEL, **changes)])
    return one.name


def schema_of(kind, like, **changes):
    """A result as it is read."""
    content = read(like) | changes
    assert schema.find_difference(content, schema.COMMON, "it") is None
    return KINDS[kind].complete(content)


def test_runs_of_other_losses_and_variants_have_names_of_their_own():
    present = read(AGENT)["config"]
    present["agent"] |= {"time_limit": "bootstrap"}
    assert name_online() == "IMPALA, preset fast, former V-trace, 100M steps"
    assert name_online(config=present) == "IMPALA, preset fast, 100M steps"
    assert name_online(config=present, loss_version=7) == "IMPALA, preset fast, loss version 7, 100M steps"
    told = present | {"loss_version": 7}
    assert name_online(config=told) == "IMPALA, preset fast, loss version 7, 100M steps"
    large = {"target_color_in_image": False}
    assert name_online(config=present, options=large).startswith("IMPALA, preset fast, variant ")
    name = "RSSM (TBTT), preset paper, 20,000 steps"
    assert name_probing() == name_probing(loss_version=2) == name
    assert name_probing(loss_version=1) == "RSSM (TBTT), preset paper, loss version 1, 20,000 steps"


def test_agents_of_different_authors_with_one_title_are_told_apart(tmp_path):
    made = [schema_of("online", AGENT, agent=f"{name}:Config", title="Mine") for name in ("ann", "ben")]
    assert [one.name for one in online.group(made[:1])] == ["Mine, preset fast, 100M steps"]
    names = [f"Mine, preset fast, 100M steps, {name}:Config" for name in ("ann", "ben")]
    assert [one.name for one in online.group(made)] == names


def test_scores_of_joined_runs_tell_their_seeds_and_all_episodes(tmp_path):
    made = [
        read(AGENT) | {"seed": seed, "weights": f"{seed} {date}", "date": date}
        for seed, date in ((0, "2026-11-01"), (0, "2026-11-02"), (3, "2026-11-01"))
    ]
    for number, result in enumerate(made):
        (tmp_path / f"{number}.json").write_text(json.dumps(result))
    main(["report", "online", str(tmp_path), "--out", str(tmp_path / "report")])
    scores = read(tmp_path / "report" / "online.json")
    cells = [row["scores"]["9x9"] for row in scores["rows"] if row["source"] == "ours"]
    assert [cell["seeds"] for cell in cells] == [[0, 3]] * 2, "a seed that was repeated counts once"
    assert [(cell["runs"], cell["episodes"]) for cell in cells] == [(2, 100), (2, 100)]
    assert len(scores["runs"]) == 3


def test_reading_needs_neither_jax_nor_an_extra():
    names = ("jax", "equinox", "safetensors", "mujoco", "matplotlib")
    code = f"import sys\nfor name in {names}: sys.modules[name] = None\n"
    code += "from pathlib import Path\nfrom memory_maze.results.find import find_results\n"
    code += f"print([len(find_results([Path({str(RESULTS)!r})], kind).results) for kind in {list(KINDS)}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    counts = [len(find_results([RESULTS], kind).results) for kind in KINDS]
    assert done.stdout.strip() == str(counts), done.stderr
    assert min(counts) > 20
