"""Export the agent of a run to a separate directory: float16 weights and the config."""

import dataclasses
import json
from pathlib import Path

import tyro

from memory_maze.system.extras import missing


@dataclasses.dataclass(frozen=True)
class Command:
    """Its options."""

    run_folder: tyro.conf.Positional[Path]
    """Run directory."""
    out: tyro.conf.Positional[Path]
    """Output directory for agent.safetensors and config.json; play it with `memory-maze evaluate OUT`."""

    def run(self) -> None:
        from rich.console import Console

        size = export_agent(self.run_folder, self.out)
        Console().print(f"written: {self.out} ({size / 1e6:.1f} MB)", soft_wrap=True)


def export_agent(source: Path, out: Path) -> int:
    """Writes an agent with float16 weights, loaded as float32; returns its size in bytes."""
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file, save_file

        from memory_maze.agents.folder import read_config
    except ModuleNotFoundError as error:
        raise missing(f"agents need {error.name}", error.name, "train") from error
    import numpy as np

    from memory_maze.agents.folder import CONFIG, WEIGHTS
    from memory_maze.results.online import is_run
    from memory_maze.system.files import check_regular, replacing

    if is_run(out):
        raise ValueError(f"{out}: this is a run directory, which needs its own weights: choose another")
    config = read_config(source)
    try:
        check_regular(source / WEIGHTS)
        arrays = load_file(source / WEIGHTS)
    except SafetensorError as error:
        raise ValueError(f"{source / WEIGHTS}: missing or damaged weights: {error}") from error
    for name, array in arrays.items():
        if array.dtype != np.float32:
            continue
        if not np.abs(array).max(initial=0) <= np.finfo(np.float16).max:
            raise ValueError(f"{source / WEIGHTS}: {name} has values that are NaN or too large for float16")
        arrays[name] = array.astype(np.float16)
    with replacing(out / WEIGHTS) as path:
        save_file(arrays, path)
    with replacing(out / CONFIG) as path:
        path.write_text(json.dumps(config, indent=2) + "\n")
    return (out / WEIGHTS).stat().st_size
