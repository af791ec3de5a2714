"""What benchmarks wrote, as Markdown: a table and a line below it that says where it was measured."""

from collections.abc import Callable

from memory_maze.episodes.evaluate import PAPER
from memory_maze.tasks import TASKS

ROWS = (
    ("steps a second", "steps_per_second", "{:.0f}"),
    ("reset, ms", "reset_ms", "{:.0f}"),
    ("start to first reset, s", "first_reset_seconds", "{:.1f}"),
    ("memory, MB", "resident_mb", "{:.0f}"),
)


def reference_table(report: dict) -> str:
    """This package beside the published one."""
    lines = ["| | | this package | published | ratio |", "|---|---|---|---|---|"]
    for task, result in report["results"].items():
        for label, key, form in ROWS:
            ours, theirs = (form.format(result[side][key]) for side in ("ours", "theirs"))
            lines.append(f"| {task} | {label} | {ours} | {theirs} | {result['times_better'][key]:.1f} |")
    hardware = report["hardware"]
    where = f"{hardware['cores']} cores ({hardware['cpu']}), {hardware['gl_renderer']}"
    return (
        "\n".join(lines)
        + f"\n\nMedians on {where}, {report['date'][:10]}; all figures: results/reference.json."
    )


def throughput_table(report: dict) -> str:
    """Steps a second: one environment and batches, wherever they were measured."""
    names = {"published": "published package", "mujoco": "MuJoCo engine", "jax": "JAX engine"}
    results = report["results"]
    first = next(iter(results.values()))
    # One maze runs on the CPU wherever batches run.
    on_cpu = report["device"].startswith("cpu")
    singles = [name for name in names if on_cpu and name in first["engines"]]
    titles = [names[name] for name in singles]
    titles += [f"{int(num):,} at once" if int(num) > 1 else "in a program" for num in first["batches"]]
    lines = [f"| steps a second | {' | '.join(titles)} |", "|---" * (1 + len(titles)) + "|"]
    for task, result in results.items():
        values = [result["engines"][name] for name in singles]
        values += [batch["steps_per_second"] for batch in result["batches"].values()]
        lines.append(f"| {task} | {' | '.join(f'{value:,.0f}' for value in values)} |")
    hardware = report["hardware"]
    where = f"{hardware['cores']} cores ({hardware['cpu']})"
    if not on_cpu:
        where = "one " + report["device"].partition(" ")[2]
    note = f"On {where}, {report['date'][:10]}; every pixel is consumed. "
    return "\n".join(lines) + "\n\n" + note + describe_parts(*next(iter(results.items())))


def describe_parts(task: str, result: dict) -> str:
    """Where the time of the largest batch goes."""
    num, batch = list(result["batches"].items())[-1]
    parts = batch["parts"]
    return (
        f"A step of {int(num):,} environments of {task} takes {batch['step_us']:,.0f} us; timed alone, "
        f"physics takes {parts['physics_us']:,.0f} and rendering {parts['picture_us']:,.0f}."
    )


def start_table(report: dict) -> str:
    """From a new process to the first step."""
    lines = ["| | first run | later runs |", "|---|---|---|"]
    for task, result in report["results"].items():
        cold, warm = (result[kind]["total_seconds"] for kind in ("cold", "warm"))
        lines.append(f"| {task} | {cold:.1f} s | {warm:.1f} s |")
    hardware = report["hardware"]
    return (
        "\n".join(lines)
        + f"\n\nMedians on {hardware['cores']} cores ({hardware['cpu']}),"
        + (f" {report['date'][:10]}.")
    )


def generator_table(report: dict) -> str:
    """Our maze generator beside labmaze's."""
    mazes, banks = report["mazes"], report["banks"]
    rows = [
        ("layout, ms: ours", [f"{figures['ours_ms']:.3f}" for figures in mazes.values()]),
        ("labmaze", [f"{figures['labmaze_ms']:.3f}" for figures in mazes.values()]),
        ("ratio", [f"{figures['times_longer']:.2f}" for figures in mazes.values()]),
        ("default bank, s: ours", [_bank_cell(banks, name, "ours_seconds") for name in mazes]),
        ("from labmaze's text", [_bank_cell(banks, name, "labmaze_seconds") for name in mazes]),
    ]
    lines = [f"| | {' | '.join(mazes)} |", "|---" * (1 + len(mazes)) + "|"]
    lines += [f"| {label} | {' | '.join(cells)} |" for label, cells in rows]
    hardware = report["hardware"]
    counts = ", ".join(f"{figures['layouts']:,} ({name})" for name, figures in banks.items())
    return (
        "\n".join(lines)
        + f"\n\nLayouts alternately in one process on one core; banks of {counts} layouts on "
        + f"{hardware['cores']} cores ({hardware['cpu']}); labmaze "
        + f"{report['versions']['labmaze']}, {report['date'][:10]}."
    )


def _bank_cell(banks: dict, name: str, key: str) -> str:
    return f"{banks[name][key]:.1f}" if name in banks else ""


def equivalence_table(report: dict) -> str:
    """Every figure of the JAX engine against MuJoCo beside its limit."""
    tasks = list(report["figures"])
    lines = ["| | limit | " + " | ".join(tasks) + " |", "|---" * (2 + len(tasks)) + "|"]
    for check in report["checks"]:
        cells = [check["form"].format(value) for value in check["values"].values()]
        failed = [task for task, passed in check["passed"].items() if not passed]
        what = check["what"] + (f" (fails on {', '.join(failed)})" if failed else "")
        lines.append("| " + " | ".join([what, check["limit"], *cells]) + " |")
    kinds = {
        "images": ("pictures",),
        "actions": ("free_actions", "wall_actions"),
        "touches": ("touches", "touches_Vis"),
    }
    found = report["figures"].values()
    counts = [
        f"{sum(figures[key] for figures in found for key in keys):,} {kind}" for kind, keys in kinds.items()
    ]
    return (
        "\n".join(lines)
        + f"\n\n{', '.join(counts)}; MuJoCo {report['versions']['mujoco']}, {report['date'][:10]}; "
        + "all figures: results/equivalence.json."
    )


def policy_table(report: dict) -> str:
    """Mean scores of policies on both engines."""
    columns = [
        (policy, engine) for policy in ("oracle", "explorer", "random") for engine in ("jax", "mujoco")
    ]
    columns = [column for column in columns if any(_key(column, task) in report for task in TASKS)]
    titles = [f"{policy}, {engine}" for policy, engine in columns]
    lines = [f"| mean score | paper's oracle | {' | '.join(titles)} |", "|---" * (2 + len(titles)) + "|"]
    for task in TASKS:
        cells = [str(PAPER[task]["oracle"])]
        for column in columns:
            figures = report.get(_key(column, task))
            cells.append("" if figures is None else f"{figures['mean']:.2f} ± {figures['std_error']:.2f}")
        lines.append(f"| {task} | {' | '.join(cells)} |")
    figures = next(iter(report.values()))
    note = (
        f"{figures['episodes']} episodes each, the same mazes on both engines; ± is the standard error, "
        f"{figures['date'][:10]}. The paper's oracle is a trained agent that sees the map; ours plans."
    )
    return "\n".join(lines) + "\n\n" + note


def _key(column: tuple[str, str], task: str) -> str:
    policy, engine = column
    return f"{policy} {task} {engine}"


def explorer_table(report: dict) -> str:
    """What is in the explorer's data, beside the paper's."""
    tasks = report["tasks"]
    lines = [f"| | {' | '.join(tasks)} |", "|---" * (1 + len(tasks)) + "|"]

    def add(title: str, cell: Callable[[dict], str]) -> None:
        lines.append(f"| {title} | {' | '.join(cell(figures) for figures in tasks.values())} |")

    def baseline(key: str, form: str) -> Callable[[dict], str]:
        def cell(figures: dict) -> str:
            found = figures["constant_baseline"]
            paper = f" ({form.format(found['paper'][key])})" if "paper" in found else ""
            return form.format(found[key]) + paper

        return cell

    add("constant baseline, walls (paper)", baseline("walls_percent", "{:.1f} %"))
    add("constant baseline, objects (paper)", baseline("objects_squared_error", "{:.1f}"))
    add("reward of a trajectory", lambda figures: f"{figures['reward']['mean']:.2f}")
    add("free cells visited", lambda figures: f"{100 * figures['visited_share']['mean']:.0f} %")
    add("cells revisited", lambda figures: f"{figures['revisits']['mean']:.0f}")
    add("cells walked", lambda figures: f"{figures['distance_cells']['mean']:.0f}")
    some = next(iter(tasks.values()))["constant_baseline"]
    counts = f"{some['trained_on']:,} trajectories for training, {some['scored_on']:,} for evaluation"
    return "\n".join(lines) + f"\n\n{counts}, 1,000 steps each, {report['date'][:10]}."


def data_table(report: dict) -> str:
    """Collecting and reading data sets."""
    config = report["config"]
    rows: list[tuple[str, Callable[[dict], float], str]] = [
        (
            f"scenes of {config['episodes']:,} x {config['steps']:,} steps: s",
            lambda f: f["scenes"]["seconds"],
            ",.0f",
        ),
        ("steps/s", lambda f: f["scenes"]["steps_per_second"], ",.0f"),
        ("MB", lambda f: f["scenes"]["bytes"] / 1e6, ",.0f"),
        ("NPZ files: steps/s", lambda f: f["npz"]["steps_per_second"], ",.0f"),
        ("bytes a step", lambda f: f["npz"]["bytes_per_step"], ",.0f"),
        ("random windows from scenes: frames/s", lambda f: f["scenes"]["windows_per_second"], ",.0f"),
        ("random windows from NPZ files", lambda f: f["npz"]["windows_per_second"], ",.0f"),
        ("random windows by plain `np.load`", lambda f: f["npz"]["np_load_windows_per_second"], ",.0f"),
        ("replay from scenes: frames/s", lambda f: f["scenes"]["replay_per_second"], ",.0f"),
        ("replay from NPZ files", lambda f: f["npz"]["replay_per_second"], ",.0f"),
    ]
    tasks = report["tasks"]
    lines = [f"| | {' | '.join(tasks)} |", "|---" * (1 + len(tasks)) + "|"]
    for title, figure, form in rows:
        lines.append(f"| {title} | {' | '.join(format(figure(f), form) for f in tasks.values())} |")
    hardware = report["hardware"]
    where = f"{hardware['cores']} cores ({hardware['cpu']})"
    if report["device"] != "cpu":
        where = f"one {report['device']}"
    batch = f"{config['batch']} x {config['time']}"
    return "\n".join(lines) + f"\n\nOn {where}, {report['date'][:10]}; batches of {batch} frames."


def training_note(report: dict) -> str:
    """How fast agents train where nothing else runs."""
    speeds = [
        f"`{preset}` {figures['steps_per_second']:,.0f} steps a second in {task}"
        for preset, tasks in report["results"].items()
        for task, figures in tasks.items()
    ]
    return (
        f"The first {report['settings']['seconds']:.0f} seconds of training on {report['devices']} "
        f"({report['date'][:10]}, results/training-gpu.json): {', '.join(speeds)}."
    )


def probing_speed_table(report: dict) -> str:
    """How fast sequence models learn where nothing else runs, and what takes the time."""
    lines = [
        "| model | steps a second | 1M steps take | step, ms | kernels | images | loss | gradient |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for model, figures in report["results"].items():
        parts = [figures["parts"][f"{part}_ms"] for part in ("pictures", "forward", "gradient")]
        times = [figures["step_ms"], figures["kernels_ms"].get("all"), *parts]
        speed, hours = figures["steps_per_second"], figures["hours_for_a_million"]
        lines.append(f"| {model} | {speed:.1f} | {hours:,.1f} h | {_in_ms(times)} |")
    note = (
        "Batches of 32 x 48 steps, models and probes of the paper's size. Kernels: GPU time per "
        "step. Rendering the images, the model's loss, and the loss with its gradient are timed alone."
    )
    when = f"{report['date'][:10]}, commit {(report['commit'] or 'unknown')[:8]}"
    where = f"On {report['devices']}, {when}, on an otherwise idle machine."
    return "\n\n".join(["\n".join(lines), f"{where} {note}", *_kernel_table(report)])


def _kernel_table(report: dict) -> list[str]:
    """What the GPU computes in a step, if kernels were counted."""
    counted = {model: figures for model, figures in report["results"].items() if figures["kinds_ms"]}
    if not counted:
        return []
    kinds = ("convolutions", "products", "moves", "sums", "others")
    lines = [f"| model | kernels in a step | {' | '.join(f'{kind}, ms' for kind in kinds)} |"]
    lines.append("|---" * (2 + len(kinds)) + "|")
    for model, figures in counted.items():
        times = [figures["kinds_ms"].get(kind) for kind in kinds]
        lines.append(f"| {model} | {figures['kernels']:,} | {_in_ms(times)} |")
    return [
        "\n".join(lines),
        "Products: matrix products. Moves: copies, padding and other data movement. Sums: reductions. "
        "Others: elementwise operations.",
    ]


def _in_ms(times: list[float | None]) -> str:
    return " | ".join("-" if time is None else f"{time:.1f}" for time in times)


def soak_note(report: dict) -> str:
    """Whether anything was ever wrong in millions of steps."""
    counts = report["counts"]
    wrong = sum(value for name, value in counts.items() if name.startswith("bad_"))
    return (
        f"{report['steps']:,} random steps of {report['mazes']:,} environments of {report['task']}, "
        f"{counts['episodes']:,.0f} episodes, every step checked: {wrong:,.0f} errors."
    )


def resume_note(report: dict) -> str:
    """Whether a run that was killed comes to the same."""
    found = report["results"]
    metrics = max(found["largest_difference"].values())
    weights = found["largest_difference_of_weights"]
    return (
        f"Training killed after {found['killed_after']:,} of {report['settings']['steps']:,} steps and "
        f"resumed, compared with an uninterrupted run: metrics differ by at most {metrics:.1g}, weights by "
        f"{weights:.1g}."
    )


def serve_table(report: dict) -> str:
    """How late pictures are when many play at once."""
    lines = [
        "| concurrent players | images/s per player | median delay, ms | 95th percentile, ms | busy cores |",
        "|---|---|---|---|---|",
    ]
    for count, figures in report["results"].items():
        rate, cores = (f"{figures[key]:.1f}" for key in ("pictures_per_second", "cores"))
        median, most = (f"{figures[key]:.0f}" for key in ("median_ms", "p95_ms"))
        lines.append(f"| {count} | {rate} | {median} | {most} | {cores} |")
    hardware = report["hardware"]
    where = f"{hardware['cores']} cores ({hardware['cpu']}), {report['date'][:10]}"
    note = (
        "Delay from when a step is due until its 256x256 image has arrived, in "
        f"{report['settings']['task']}, with players on the same machine: {where}."
    )
    return "\n".join(lines) + "\n\n" + note
