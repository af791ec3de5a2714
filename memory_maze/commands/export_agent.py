"""Write the agent of a run to a folder of its own: weights of half the size, and how it was trained."""

import dataclasses
import json
from pathlib import Path

import tyro

from memory_maze.system.extras import missing


@dataclasses.dataclass(frozen=True)
class Command:
    """Its options."""

    run_folder: tyro.conf.Positional[Path]
    """The folder of a run."""
    out: tyro.conf.Positional[Path]
    """Folder for agent.safetensors and config.json; `memory-maze evaluate OUT` plays it."""

    def run(self) -> None:
        from rich.console import Console

        size = export_agent(self.run_folder, self.out)
        Console().print(f"written: {self.out} ({size / 1e6:.1f} MB)", soft_wrap=True)


def export_agent(source: Path, out: Path) -> int:
    """Writes an agent with weights as float16, which are float32 again when read; tells its bytes."""
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
        raise ValueError(f"{out}: choose another folder, for a run needs its own weights")
    config = read_config(source)
    try:
        check_regular(source / WEIGHTS)
        arrays = load_file(source / WEIGHTS)
    except SafetensorError as error:
        raise ValueError(f"{source / WEIGHTS}: no weights, or damaged ones: {error}") from error
    for name, array in arrays.items():
        if array.dtype != np.float32:
            continue
        if not np.abs(array).max(initial=0) <= np.finfo(np.float16).max:
            raise ValueError(f"{source / WEIGHTS}: {name} is too large for half the size, or no number")
        arrays[name] = array.astype(np.float16)
    with replacing(out / WEIGHTS) as path:
        save_file(arrays, path)
    with replacing(out / CONFIG) as path:
        path.write_text(json.dumps(config, indent=2) + "\n")
    return (out / WEIGHTS).stat().st_size
