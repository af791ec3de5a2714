"""The package as it is installed: light to import, typed, with remedies for what is missing."""

import importlib.resources
import re
import subprocess
import sys
from pathlib import Path

import pytest

import memory_maze
from memory_maze.system.extras import install_command

pytestmark = pytest.mark.pythons

ROOT = Path(__file__).parent.parent


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


def test_importing_loads_no_extra():
    extras = {"mujoco", "jax", "pygame", "imageio", "PIL", "OpenGL", "tyro"}
    result = run(f"import sys, memory_maze; print(sorted({extras} & set(sys.modules)))")
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("module", "code", "remedy"),
    [
        ("pygame", "from memory_maze.adapters.viewer import Window; Window(4)", "[play]"),
        ("imageio", "from memory_maze.watch.demo import run_demo; run_demo(None, 1, 1, 1)", "[video]"),
        (
            "mujoco",
            "from memory_maze.adapters.simulation import Simulation; Simulation(engine='mujoco')",
            f'engine="mujoco" needs MuJoCo: {install_command("mujoco")}, or',
        ),
        ("mujoco", "import memory_maze.compare.report", "[mujoco]"),
        ("equinox", "from memory_maze.cli import main; main(['train', 'impala', '--out', 'x'])", "[train]"),
        ("safetensors", "from memory_maze.cli import main; main(['export-agent', 'x', 'y'])", "[train]"),
        (
            "imageio",
            "from memory_maze.cli import main; main(['evaluate', 'x', '--video', 'y.mp4'])",
            "[video]",
        ),
        ("huggingface_hub", "from memory_maze import data; data.load('hub:a/b')", install_command("hub")),
    ],
)
def test_missing_extras_name_the_remedy(module, code, remedy):
    result = run(f"import sys; sys.modules[{module!r}] = None\n{code}")
    assert result.returncode == 1
    assert remedy in result.stderr.splitlines()[-1]


def test_the_default_needs_neither_mujoco_nor_opengl():
    result = run("""
import sys
for name in ("mujoco", "OpenGL", "glfw", "pygame", "imageio", "PIL"):
    sys.modules[name] = None
import gymnasium, memory_maze
env = gymnasium.make("memory_maze:MemoryMaze-9x9-v0", render_mode="rgb_array")
env.reset(seed=1)
print(env.step(1)[0].shape, env.render().shape)
env.close()
print([name for name in sys.modules if name.startswith("memory_maze.reference")])
""")
    assert result.stdout == "(64, 64, 3) (256, 256, 3)\n[]\n"
    assert result.stderr == ""


def test_commands_without_mujoco():
    block = "import sys; sys.modules['mujoco'] = None\nfrom memory_maze.cli import main\n"
    result = run(f"{block}main(['compare-engines'])")
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert install_command("mujoco") in result.stderr
    result = run(f"{block}main(['info'])")
    assert result.returncode == 0, result.stderr


def test_types_are_shipped():
    assert importlib.resources.files(memory_maze).joinpath("py.typed").is_file()


def test_the_newest_version_is_in_the_changelog():
    assert memory_maze.__version__.split(".dev")[0] in (ROOT / "CHANGELOG.md").read_text()


def test_nothing_reads_pickles():
    for path in (ROOT / "memory_maze").rglob("*.py"):
        assert not re.search(r"import pickle|allow_pickle=True", path.read_text()), path


def test_nothing_of_unix_is_needed_to_start(tmp_path):
    """Windows has neither these locks nor these calls. What stands for them there is not tested."""
    result = run(f"""
import os, sys
import jax, orbax.checkpoint  # what others do there is their own affair
sys.modules["fcntl"] = None
del os.sched_getaffinity, os.sysconf
import importlib, pkgutil, memory_maze
for module in pkgutil.walk_packages(memory_maze.__path__, "memory_maze."):
    if module.name != "memory_maze.__main__":
        importlib.import_module(module.name)
from memory_maze.cli import main
main(["info"])
from memory_maze.system.files import replacing
with replacing({str(tmp_path / "file")!r}) as path:
    path.write_text("whole")
""")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "file").read_text() == "whole"
