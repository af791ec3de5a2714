"""Collecting on a real Ray cluster of two nodes, one of which is killed half-way."""

import subprocess
import sys
import time

import pytest

from memory_maze import TASKS
from memory_maze.data.collection import make_manifest, make_missing

ray = pytest.importorskip("ray")

# What Ray and what it brings warn of is not ours.
pytestmark = pytest.mark.filterwarnings("ignore")

POLICY = """
import jax
def wander(state, key):
    return jax.random.randint(key, (), 1, 6)
"""
JOB = {"episodes": 12, "steps": 30, "shard": 2, "evaluation": 2}


@pytest.fixture
def nodes():
    """The address of a cluster, and how to kill its second node."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    yield cluster.address, lambda: cluster.remove_node(second, allow_graceful=False)
    cluster.shutdown()


def content(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def command(out, *more):
    options = [part for key, value in JOB.items() for part in (f"--{key}", str(value))]
    policy = ["--policy", "wandering:wander"]
    return [sys.executable, "-m", "memory_maze", "collect", "--out", str(out), *options, *policy, *more]


@pytest.mark.timeout(600)
def test_a_cluster_that_loses_a_node_makes_the_same_files(nodes, tmp_path, monkeypatch):
    address, kill_second = nodes
    (tmp_path / "wandering.py").write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    manifest = make_manifest(TASKS["9x9"], policy="wandering:wander", **JOB)
    make_missing(tmp_path / "alone", manifest)  # first, so that workers find its programs compiled
    out = tmp_path / "ray"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = subprocess.Popen(command(out, "--ray", address), **pipes)
    killed = False
    while process.poll() is None:
        if not killed and list(out.glob("*.npz")):
            kill_second()
            killed = True
        time.sleep(0.05)
    assert process.returncode == 0, process.stdout.read().decode()
    assert killed
    assert content(out) == content(tmp_path / "alone")
    assert len(content(out)) == 7  # six shards and the manifest
