"""Several devices and hosts: mazes are shared out among them, and the weights are the same on all."""

import contextlib
import hashlib
import json
import math
import os
import re
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from memory_maze.system.cpu import num_cores
from memory_maze.system.files import sole_writer
from memory_maze.system.limits import check_least

AXIS = "devices"
SAME: Any = PartitionSpec()
"""On every device."""
SHARED_OUT: Any = PartitionSpec(AXIS)
"""Along the first axis of arrays."""
_PATIENCE = 60  # seconds
_CPU_DEVICES = "xla_force_host_platform_device_count"
_MOST_CPU_DEVICES = 8  # each has its own layouts and textures, some hundred megabytes


def use_cores(*counts: int, devices: int | None = None) -> None:
    """XLA runs a program for CPUs on one core: makes each core a device, as far as these counts divide.

    It is called before anything else of JAX, and does nothing to other devices. Where `devices` are given, it
    makes as many, whatever there is.
    """
    if _CPU_DEVICES in os.environ.get("XLA_FLAGS", ""):
        return
    most = min(num_cores(), _MOST_CPU_DEVICES)
    count = devices or max(number for number in range(1, most + 1) if math.gcd(*counts) % number == 0)
    with contextlib.suppress(RuntimeError):  # JAX is running already
        jax.config.update("jax_num_cpu_devices", count)


@contextlib.contextmanager
def connected(
    distributed: bool = False,
    coordinator: str | None = None,
    hosts: int | None = None,
    host: int | None = None,
) -> Generator[None]:
    """Makes this process one of several hosts, if it is told so. It is called before anything else of JAX.

    Args:
        distributed: Whether JAX finds the hosts by itself, as it can on most clusters.
        coordinator: Or: address and port of the first host, "HOST:PORT".
        hosts: How many there are.
        host: Which of them this is, from 0.
    """
    given = [value is not None for value in (coordinator, hosts, host)]
    if not distributed and not any(given):
        yield
        return
    check_least(1, hosts=hosts)
    check_least(0, host=host)
    if any(given) and not all(given):
        raise ValueError("give all three: coordinator, hosts and host")
    if coordinator is not None and not re.fullmatch(r".+:\d+", coordinator):
        raise ValueError(f"the coordinator is HOST:PORT, for example 10.0.0.1:1234: got {coordinator!r}")
    if hosts is not None and host is not None and not 0 <= host < hosts:
        raise ValueError(f"host must be from 0 to {hosts - 1}: got {host}")
    # It would keep SIGTERM from us; hosts agree on stopping by themselves.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(coordinator, hosts, host, shutdown_timeout_seconds=60)
    except ValueError as error:
        remedy = "give coordinator, hosts and host"
        raise ValueError(f"JAX cannot detect the hosts: {remedy} ({error})") from error
    yield
    # After an error this is left to the end of the process: it may abort, and the error must be seen.
    jax.distributed.shutdown()


def is_first() -> bool:
    """Whether this is the host that writes and shows things."""
    return jax.process_index() == 0


def check_same_on_all(values: dict[str, Any]) -> None:
    """Refuses, on all hosts, if they differ in a value: they would wait for each other for ever."""
    for name, value in values.items():
        text = json.dumps(value, sort_keys=True)
        digest = np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint8)
        digests = multihost_utils.process_allgather(digest)
        if others := [host for host, other in enumerate(digests) if (other != digests[0]).any()]:
            raise ValueError(f"{name} differs between host 0 and host {others[0]}: here it is {text}")


def check_shared(folder: Path) -> None:
    """Refuses, on all hosts, if the first one's folder is not that of the others."""
    if jax.process_count() == 1:
        return
    token = multihost_utils.broadcast_one_to_all(np.frombuffer(os.urandom(8), np.uint8))
    mark = folder / f".shared-{token.tobytes().hex()}"
    if is_first():
        folder.mkdir(parents=True, exist_ok=True)
        mark.touch()
    multihost_utils.sync_global_devices("marked")
    seen = multihost_utils.process_allgather(np.array(_appears(mark)))
    if is_first():
        mark.unlink()
    if not seen.all():
        raise ValueError(f"{folder} is not shared by all hosts: host {seen.argmin()} has another")


@contextlib.contextmanager
def sole_writers(folder: Path) -> Generator[None]:
    """`sole_writer` for all hosts: the first one takes the folder for them, or they refuse together."""
    with contextlib.ExitStack() as stack:
        on_first(lambda: stack.enter_context(sole_writer(folder)))
        yield


def on_first(function: Callable[[], Any]) -> None:
    """Calls a function on the first host. What it refuses, all refuse."""
    refused: Exception | None = None
    if is_first():
        try:
            function()
        except (OSError, RuntimeError, ValueError) as error:
            refused = error
    if multihost_utils.broadcast_one_to_all(np.array(refused is not None)):
        raise refused or RuntimeError("the first host cannot go on, and says why")


def _appears(path: Path) -> bool:
    """Whether a file is there, or comes: folders of a network may be seen as they were a minute ago."""
    for _ in range(_PATIENCE):
        if path.exists():
            return True
        time.sleep(1)
    return path.exists()


class Agreement:
    """Wishes of each host, granted to all of them in the same call.

    Several hosts are answered what was wished in the call before. So nobody waits: the answer was computed
    behind the program of that call, and a newer program is on its way. What is still due is wished again.
    """

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self._any = jax.jit(lambda wishes: wishes.any(axis=0), out_shardings=NamedSharding(mesh, SAME))
        self._before: jax.Array | None = None

    def __call__(self, wishes: Sequence[bool]) -> Sequence[bool]:
        """What any host wishes, by place."""
        if jax.process_count() == 1:
            return wishes
        mine = np.tile(np.array(wishes), (len(self._mesh.local_devices), 1))
        sharding = NamedSharding(self._mesh, SHARED_OUT)
        before, self._before = self._before, self._any(jax.make_array_from_process_local_data(sharding, mine))
        granted = [False] * len(wishes) if before is None else np.asarray(before).tolist()
        if any(granted):
            self._before = None  # wished before it was granted
        return granted


def make_mesh(devices: Sequence[Any] | None = None) -> Mesh:
    """Some devices, or all of all hosts."""
    if jax.device_count() != jax.process_count() * jax.local_device_count():
        raise ValueError(
            f"all hosts must have the same number of devices: this one has {jax.local_devices()}"
        )
    return Mesh(np.array(jax.devices() if devices is None else devices), AXIS)


def check_divides(number: int, what: str, mesh: Mesh) -> None:
    """Refuses what cannot be shared out evenly."""
    if number % mesh.size:
        raise ValueError(
            f"{what}={number} is not divisible by {mesh.size} devices: choose a multiple, or fewer devices "
            "with CUDA_VISIBLE_DEVICES"
        )


def put_on_all(mesh: Mesh, tree: Any) -> Any:
    """Arrays, on every device. All hosts give the same."""
    sharding = NamedSharding(mesh, SAME)

    def put(leaf: Any) -> jax.Array:
        if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.device_put(leaf, sharding)
        return jax.random.wrap_key_data(jax.device_put(jax.random.key_data(leaf), sharding))

    return jax.tree.map(put, tree)


def place(mesh: Mesh, layout: Any, shapes: Any) -> Any:
    """Descriptions of arrays that also tell where they are.

    The layout is a tree of SAME and SHARED_OUT that ends where all further branches are alike.
    """

    def tell(spec: PartitionSpec, array: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=NamedSharding(mesh, spec))

    return jax.tree.map(lambda spec, part: jax.tree.map(lambda leaf: tell(spec, leaf), part), layout, shapes)


def on_all(function: Callable[..., Any], mesh: Mesh, inputs: Any, outputs: Any, **options: Any) -> Any:
    """A program in which each device calls a function on its share, with layouts of arguments and results."""
    # Unchecked, for JAX would sum gradients over the devices by itself, in each step of each recurrence.
    shares = jax.shard_map(function, mesh=mesh, in_specs=inputs, out_specs=outputs, check_vma=False)
    # Told how to place its results, lest it is compiled again for them.
    shardings = jax.tree.map(lambda spec: NamedSharding(mesh, spec), outputs)
    return jax.jit(shares, out_shardings=shardings, **options)


def launch_options() -> dict[str, Any]:
    """Of a compiler, for programs of many small kernels.

    On GPUs XLA would record these as CUDA graphs and write each address into them at every call, since it has
    changed: this takes the host longer than to launch them.
    """
    return {"xla_gpu_enable_command_buffer": ""} if jax.default_backend() == "gpu" else {}


def local_copy(tree: Any) -> Any:
    """Arrays that are the same everywhere, as arrays of one device of this host."""
    return jax.tree.map(lambda leaf: leaf.addressable_data(0), tree)
