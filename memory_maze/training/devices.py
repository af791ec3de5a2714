"""Several devices and hosts: mazes are shared out among them, and the weights are the same on all."""

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "devices"
SAME: Any = PartitionSpec()
"""On every device."""
SHARED_OUT: Any = PartitionSpec(AXIS)
"""Along the first axis of arrays."""


def connect(coordinator: str | None = None, hosts: int | None = None, host: int | None = None) -> None:
    """Makes this process one of several hosts. It is called before anything else of JAX.

    Args:
        coordinator: Address and port of the first host, "HOST:PORT"; by default JAX asks the cluster.
        hosts: How many there are.
        host: Which of them this is, from 0.
    """
    given = [value is not None for value in (coordinator, hosts, host)]
    if any(given) and not all(given):
        raise ValueError("several hosts need the coordinator, the number of hosts, and which this one is")
    if coordinator is not None and not re.fullmatch(r".+:\d+", coordinator):
        raise ValueError(f"the coordinator is HOST:PORT, for example 10.0.0.1:1234: got {coordinator!r}")
    if hosts is not None and host is not None and not 0 <= host < hosts:
        raise ValueError(f"of {hosts} hosts each is one from 0 to {hosts - 1}: got {host}")
    # It would keep SIGTERM from us; hosts agree on stopping by themselves.
    jax.config.update("jax_enable_preemption_service", False)
    jax.distributed.initialize(coordinator, hosts, host)


def is_first() -> bool:
    """Whether this is the host that writes and shows things."""
    return jax.process_index() == 0


def check_same_on_all(what: str, value: Any) -> None:
    """Refuses on all hosts if they differ in a value, for they would wait for each other for ever."""
    text = json.dumps(value, sort_keys=True)
    digest = np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint8)
    digests = multihost_utils.process_allgather(digest)
    if others := [host for host, theirs in enumerate(digests) if (theirs != digests[0]).any()]:
        raise ValueError(f"hosts differ in {what}: host {others[0]} and host 0 do; this one has {text}")


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
    return Mesh(np.array(jax.devices() if devices is None else devices), AXIS)


def check_divides(number: int, what: str, mesh: Mesh) -> None:
    """Refuses what cannot be shared out evenly."""
    if number % mesh.size:
        raise ValueError(
            f"{number} {what} do not divide over {mesh.size} devices: choose a multiple, or fewer devices "
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

    def tell(spec: PartitionSpec, shape: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape.shape, shape.dtype, sharding=NamedSharding(mesh, spec))

    return jax.tree.map(lambda spec, part: jax.tree.map(lambda leaf: tell(spec, leaf), part), layout, shapes)


def local_copy(tree: Any) -> Any:
    """Arrays that are the same everywhere, as arrays of one device of this host."""
    return jax.tree.map(lambda leaf: leaf.addressable_data(0), tree)
