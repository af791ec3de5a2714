"""Show versions and devices. Include the output in bug reports."""

import dataclasses
import platform
from importlib import metadata

from rich.console import Console
from rich.table import Table

console = Console()
REFERENCE_MUJOCO = "3.10.0"
_MISSING = "not installed"


@dataclasses.dataclass(frozen=True)
class Command:
    """Its options."""

    def run(self) -> None:
        table = Table(show_header=False)
        for package in ("memory-maze", "jax", "gymnasium", "dm-env", "numpy"):
            table.add_row(package, _version(package))
        table.add_row("python", platform.python_version())
        table.add_row("JAX devices", _devices())
        table.add_section()
        mujoco = _version("mujoco")
        table.add_row("mujoco (optional)", mujoco)
        if mujoco != _MISSING:
            table.add_row("OpenGL backend", _opengl())
            exact = "yes" if mujoco == REFERENCE_MUJOCO else f"no: requires mujoco {REFERENCE_MUJOCO}"
            table.add_row("identical to published episodes", exact)
        console.print(table)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return _MISSING


def _devices() -> str:
    """The devices of JAX, or the error if there are none."""
    from memory_maze.system.provenance import describe_devices

    try:
        return describe_devices()
    except (ImportError, RuntimeError) as error:
        return f"none: {error}"


def _opengl() -> str:
    """The backend that renders, or the error if none does."""
    try:
        from memory_maze.adapters.simulation import Simulation

        simulation = Simulation("9x9", seed=0, engine="mujoco")
        simulation.reset()
        backend = simulation.engine.backend or "none"
        simulation.close()
    except (ImportError, RuntimeError) as error:
        return f"none: {error}"
    return backend
