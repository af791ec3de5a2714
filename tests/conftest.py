import os
from pathlib import Path

import hypothesis
import jax
import pytest

# No window opens during the tests; test_window.py uses a real virtual screen.
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")

hypothesis.settings.register_profile("default", deadline=None, derandomize=True, max_examples=30)
hypothesis.settings.load_profile("default")

GOLDEN = Path(__file__).parent / "golden"


def pytest_collection_modifyitems(config, items):
    """Exactness is promised for the reference version of MuJoCo alone."""
    import mujoco

    if mujoco.__version__ != "3.10.0":
        skip = pytest.mark.skip(reason=f"exact only with mujoco 3.10.0, this is {mujoco.__version__}")
        for item in items:
            if "exact" in item.keywords:
                item.add_marker(skip)


@pytest.fixture(autouse=True, scope="session")
def one_device():
    """Training in this process would make each core a device, and results depend on the order of tests."""
    jax.devices()
