import os
import shutil
from pathlib import Path

import hypothesis
import jax
import jax.numpy as jnp
import pytest

from memory_maze.engine import observe
from memory_maze.system.cpu import return_memory
from memory_maze.system.programs import cache_programs

# No window opens during the tests; test_window.py uses a real virtual screen.
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")

# Programs of tests are compiled for longer than they run, and even small ones are needed again. The variables
# are for processes that tests start: their results are compared.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
jax.config.update("jax_disable_most_optimizations", os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] == "1")
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)

hypothesis.settings.register_profile("default", deadline=None, derandomize=True, max_examples=30)
hypothesis.settings.load_profile("default")

GOLDEN = Path(__file__).parent / "golden"
# Files that take longest begin: else the last one would run alone.
LONG = {
    "test_policies",
    "test_probing",
    "test_result",
    "test_serve",
    "test_travel",
    "test_variants",
    "test_watch",
    "test_world",
}


def pytest_collection_modifyitems(config, items):
    """Exactness is promised for the reference version of MuJoCo alone; others are tested for less."""
    import mujoco

    unwanted = "similar" if mujoco.__version__ == "3.10.0" else "exact"
    config.hook.pytest_deselected(items=[item for item in items if unwanted in item.keywords])
    items[:] = [item for item in items if unwanted not in item.keywords]
    items.sort(key=lambda item: item.path.stem not in LONG)


@pytest.fixture(autouse=True, scope="session")
def one_device():
    """Training in this process would make each core a device, and results depend on the order of tests."""
    jax.devices()


@pytest.fixture(autouse=True, scope="session")
def shared_programs(one_device):
    """Each file of tests compiles much that others do too, and hundreds of operations on their own."""
    cache_programs()


@pytest.fixture(autouse=True, scope="module")
def forget_programs():
    """Compiled programs of all files together would take ten gigabytes and more."""
    yield
    jax.clear_caches()
    return_memory()


@pytest.fixture(scope="module")
def plain_pictures():
    """Pictures that differ where states do: those of the engine take long to compile."""

    def draw(view, atlas, state):
        angles = jnp.arange(view.resolution) / 10
        rows, columns = jnp.sin(state.body.x + angles), jnp.cos(state.body.y + state.body.steer + angles)
        picture = 127 + 60 * (rows[:, None] + columns + state.target / 6)
        return jnp.stack([picture] * 3, axis=-1).astype(jnp.uint8)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observe, "render_state", draw)
        yield


@pytest.fixture
def beside_a_gpu(monkeypatch):
    """Programs are traced for all platforms, as they are where there is a GPU."""
    jax.clear_caches()  # of what was traced for CPUs alone
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    yield
    jax.clear_caches()


@pytest.fixture
def described_gpu():
    """What kernels are lowered for where there is no GPU: JAX from 0.11 on asks which one is meant."""
    gpu = jax.sharding.AbstractDevice("NVIDIA H200", 132, "gpu")
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), (), abstract_device=gpu)):
        yield gpu


@pytest.fixture
def browser():
    """A real Chromium."""
    driver = pytest.importorskip("playwright.sync_api", reason="pages are tested with playwright")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("pages are tested in Chromium, which is not here: apt-get install chromium")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()
