"""The `memory-maze` command: which commands there are, and how each one ends."""

import ast
import difflib
import importlib
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

COMMANDS = {
    "play and watch": ("demo", "play", "serve", "video"),
    "environments": ("tasks", "scenario", "compare-engines", "info"),
    "agents": ("evaluate", "train", "export-agent"),
    "data sets": ("collect", "inspect", "convert", "export"),
    "probing": ("probe", "probe-pictures"),
    "reports": ("report",),
}
_SIGPIPE = 13  # which Windows lacks
_DESCRIPTION = "Memory Maze: 3D mazes that measure how well an agent remembers."


def main(arguments: list[str] | None = None) -> None:
    """Memory Maze: 3D mazes that measure how well an agent remembers."""
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if name in ("-h", "--help"):
        print(describe_commands())
    elif name == "--version":
        from memory_maze.version import __version__

        print(f"memory-maze {__version__}")
    elif name in _names():
        _run(name, rest)
    else:
        _refuse(name)


def _run(name: str, arguments: list[str]) -> None:
    import tyro

    from memory_maze.system.files import explain
    from memory_maze.training.stopping import RunStoppedError, is_computing

    module = importlib.import_module(f"memory_maze.commands.{_module(name)}")
    prog = f"memory-maze {name}"
    try:
        tyro.cli(module.Command, prog=prog, description=module.__doc__, args=arguments).run()
    except RunStoppedError as stopped:
        _print(f"stopped: {stopped}")
        sys.exit(stopped.exit_code)
    except BrokenPipeError:  # who read has seen enough, as head has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python fails once more at its end
        sys.exit(128 + _SIGPIPE)
    except (ValueError, OSError, RuntimeError, ImportError) as error:
        _print(f"error: {explain(error)}", style="red")
        sys.exit(1)
    except KeyboardInterrupt:
        _print("interrupted")
        if is_computing():
            os._exit(128 + signal.SIGINT)
        sys.exit(128 + signal.SIGINT)


def describe_commands() -> str:
    """All commands with a line each."""
    lines = [
        "usage: memory-maze COMMAND [OPTIONS]",
        "       memory-maze COMMAND --help | --help | --version",
        "",
        _DESCRIPTION,
    ]
    width = max(map(len, _names()))
    for group, names in COMMANDS.items():
        lines += ["", f"{group}:", *(f"  {name:{width}}  {_summary(name)}" for name in names)]
    return "\n".join(lines)


def _names() -> list[str]:
    return [name for names in COMMANDS.values() for name in names]


def _module(name: str) -> str:
    return name.replace("-", "_")


def _summary(name: str) -> str:
    """The first sentence of its help, read without what it imports."""
    source = (Path(__file__).parent / "commands" / f"{_module(name)}.py").read_text()
    help = " ".join((ast.get_docstring(ast.parse(source)) or "").split())
    return help.partition(". ")[0].partition(";")[0].removesuffix(".")


def _refuse(name: str) -> NoReturn:
    near = difflib.get_close_matches(name, _names(), 1)
    hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(_names())}"
    _print(f"error: unknown command {name!r}: {hint}", style="red")
    sys.exit(2)


def _print(text: str, style: str | None = None) -> None:
    from rich.console import Console

    Console(stderr=True).print(text, style=style, soft_wrap=True, markup=False)


if __name__ == "__main__":
    main()
