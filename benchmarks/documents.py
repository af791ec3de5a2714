"""Writes the figures of `results/` into the README and the documents: `python benchmarks/documents.py`."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import laptop_tables

from memory_maze import paper
from memory_maze.episodes.evaluate import describe_few_layouts
from memory_maze.report import benchmarks, online, online_tables, probing, probing_tables
from memory_maze.report.layout import markdown
from memory_maze.results.find import find_places, read_places
from memory_maze.system.files import replacing

ROOT = Path(__file__).resolve().parent.parent
# What a page says nothing of until it was measured.
OPTIONAL = ("results/laptop-smoke", "results/laptop", "results/laptop/forget.json")
LAPTOP_CURVES = "docs/images/laptop-minutes.png"


def speed_table(reports: list[dict]) -> str:
    """One environment on every engine, and the largest batch of each device."""
    (cpu,), (gpu,) = ([one for one in reports if one["device"].startswith(kind)] for kind in ("cpu", "gpu"))
    engines = {"published": "published package", "mujoco": "MuJoCo engine", "jax": "JAX engine"}
    titles = list(engines.values())
    for report, where in ((cpu, "CPU"), (gpu, "GPU")):
        (num,) = {list(result["batches"])[-1] for result in report["results"].values()}
        titles.append(f"JAX, {int(num):,} at once, {where}")
    lines = [f"| steps per second | {' | '.join(titles)} |", "|---" * (1 + len(titles)) + "|"]
    for task, result in cpu["results"].items():
        values = [result["engines"][name] for name in engines]
        for batches in (result["batches"], gpu["results"][task]["batches"]):
            values.append(list(batches.values())[-1]["steps_per_second"])
        lines.append(f"| {task} | {' | '.join(f'{value:,.0f}' for value in values)} |")
    places = (
        f"{cpu['hardware']['cores']} cores ({cpu['hardware']['cpu']}), {cpu['date'][:10]}",
        f"one {gpu['device'].partition(' ')[2]}, {gpu['date'][:10]}",
    )
    note = f"Every step is rendered. Single environments and CPU: {places[0]}. GPU: {places[1]}."
    return join("\n".join(lines), note)


def online_table(results: list[dict]) -> str:
    """Trained agents beside the paper's."""
    groups = online.group(results)
    policies = read_policies()
    random = f"{policies['random 9x9 jax']['mean']:.2f}"
    notes = [*online_tables.make_notes(groups), f"A random policy has {random} in 9x9."]
    return join(
        online_tables.make_markdown(online.make_rows(groups), online.columns(groups)), " ".join(notes)
    )


def online_runs(results: list[dict]) -> str:
    """How both engines score them, and how long each took."""
    groups = online.group(results)
    return join(online_tables.make_engine_table(groups), online_tables.make_run_table(groups))


def trials_table(results: list[dict]) -> str:
    """Agents with other values, those that were evaluated."""
    groups = online.group(results)
    rows = [row for row in online.make_rows(groups) if row.source == "ours" and row.cells]
    return online_tables.make_markdown(rows, online.columns(groups)).rstrip()


def probing_table(results: list[dict]) -> str:
    """Sequence models beside the paper's, and how long each took."""
    groups = probing.group(results)
    rows = probing.make_rows(groups)
    table = probing_tables.make_markdown(rows, probing.columns(groups))
    notes = probing_tables.make_notes(rows)
    return join(table, *notes, probing.describe_order(groups), probing_tables.make_run_table(groups))


def probing_small(results: list[dict]) -> str:
    """Small sequence models, and how long each took."""
    groups = probing.group(results)
    rows = [row for row in probing.make_rows(groups) if row.source == "ours"]
    table = probing_tables.make_markdown(rows, probing.columns(groups))
    return join(table, *probing_tables.make_notes(rows)[1:], probing_tables.make_run_table(groups))


def laptop_table(results: list[dict]) -> str:
    """Small agents above a random policy and the oracle."""
    results = [result for result in results if result["evaluations"]]
    if not results:
        return "Not measured yet."
    reports = [result["evaluations"][0] for result in results]
    notes = [f"Preset `small`, {describe_machines(results)}. Each line of an agent is one run."]
    notes.append(f"± is the standard error over {reports[0]['episodes']} episodes in held-out layouts,")
    notes.append("of the random policy and the oracle over those of `results/policies.json` in all layouts.")
    if any(result["title"] == paper.TOLD for result in results):
        told = paper.mark(paper.TOLD)
        notes.append(f"{told} is given the object positions during training and is not a baseline.")
    notes += (f"{text}." for text in dict.fromkeys(filter(None, map(describe_few_layouts, reports))))
    return join(markdown(*laptop_tables.list_scores(results, read_policies())), " ".join(notes))


def laptop_table_and_curves(results: list[dict]) -> str:
    """The same, with the figure if somebody has plotted it."""
    shown = results and (ROOT / LAPTOP_CURVES).exists()
    picture = f"![Returns over minutes of training]({LAPTOP_CURVES.removeprefix('docs/')})" if shown else None
    return join(laptop_table(results), picture)


def laptop_note(results: list[dict]) -> str:
    """Scores of small agents in a sentence."""
    if not any(result["evaluations"] for result in results):
        return "Not measured yet."
    return laptop_tables.describe_scores(results, read_policies())


def forget_table(report: dict) -> str:
    """Agents with their memory and without."""
    if not report:
        return "Not measured yet."
    episodes = max(one["episodes"] for one in report.values())
    note = (
        f"{episodes} episodes with each memory, in the same held-out mazes; intervals of the difference are "
        f"bootstrapped over mazes. Measured {describe_machines(list(report.values()))}."
    )
    return join(markdown(*laptop_tables.list_forgetful(report)), note)


def describe_machines(results: list[dict]) -> str:
    """Where and when something was measured, as far as that is known."""
    cpus = dict.fromkeys(one["hardware"]["cpu"] for one in results if one["hardware"])
    dates = sorted({one["date"][:10] for one in results if one["date"]})
    where = ["on " + " and ".join(cpus)] if cpus else []
    return ", ".join([*where, " to ".join(dict.fromkeys([*dates[:1], *dates[-1:]]))])


def read_policies() -> dict:
    """Scores of policies that need no training."""
    return json.loads((ROOT / "results/policies.json").read_text())


def join(*parts: str | None) -> str:
    """Paragraphs and tables, of which some may be missing."""
    return "\n\n".join(part.rstrip() for part in parts if part)


PAGES: dict[str, dict[str, Callable[[Any], str]]] = {
    "README.md": {"results/throughput-*.json": speed_table, "results/online": online_table},
    "docs/data.md": {
        "results/explorer.json": benchmarks.explorer_table,
        "results/data-cpu.json": benchmarks.data_table,
        "results/data-gpu.json": benchmarks.data_table,
    },
    "docs/dreamer.md": {
        "results/laptop-smoke": laptop_table,
        "results/laptop": laptop_table_and_curves,
        "results/laptop/forget.json": forget_table,
    },
    "docs/engines.md": {
        "results/equivalence.json": benchmarks.equivalence_table,
        "results/reference.json": benchmarks.reference_table,
        "results/throughput-cpu.json": benchmarks.throughput_table,
        "results/throughput-gpu.json": benchmarks.throughput_table,
        "results/start.json": benchmarks.start_table,
    },
    "docs/mazes.md": {"results/generator.json": benchmarks.generator_table},
    "docs/people.md": {"results/serve-cpu.json": benchmarks.serve_table},
    "docs/probing.md": {
        "results/probing": probing_table,
        "results/probing-small": probing_small,
        "results/probing-speed-gpu.json": benchmarks.probing_speed_table,
    },
    "docs/training.md": {
        "results/laptop": laptop_note,
        "results/online": online_runs,
        "results/trials": trials_table,
        "results/training-gpu.json": benchmarks.training_note,
        "results/policies.json": benchmarks.policy_table,
    },
}


def read(path: Path) -> Any:
    """A file of figures, all that match a pattern, or the results in a folder."""
    optional = str(path.relative_to(ROOT)) in OPTIONAL
    if optional and not path.exists():
        return {} if path.suffix else []
    if "*" in path.name:
        return [json.loads(one.read_text()) for one in sorted(path.parent.glob(path.name))]
    if path.is_dir():
        kind = "probing" if path.name.startswith("probing") else "online"
        found = read_places(find_places([path], kind), kind)
        assert found.results or optional, f"{path} has no results"
        assert not found.left_out, list(found.left_out.values())
        return found.results
    return json.loads(path.read_text())


def fill(page: str) -> str:
    """A page with every table between its markers drawn anew."""
    text = (ROOT / page).read_text()
    for name, draw in PAGES[page].items():
        table = draw(read(ROOT / name))
        pattern = rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)"
        text, count = re.subn(pattern, lambda m, t=table: f"{m[1]}{t}\n{m[2]}", text, flags=re.DOTALL)
        assert count == 1, f"{page} lacks the markers for {name}"
    return text


if __name__ == "__main__":
    for page in PAGES:
        filled = fill(page)
        with replacing(ROOT / page) as path:
            path.write_text(filled)
