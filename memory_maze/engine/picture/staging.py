"""Keeps the stages of a picture apart, in the way that suits each kind of device.

XLA likes to fuse: it would trace a ray again for every pixel that looks at it. A stage's result is
stored before the next one starts. CPUs also draw few lanes at a time, so that results stay in the cache.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from memory_maze.engine.platforms import by_platform

FEW = 2  # sizes of a stage that are compiled one by one on CPUs; above it only the largest


class Stage:
    """Calls functions so that XLA stores what they return."""

    def __call__(self, function: Callable[..., Any], *args: Any) -> Any:
        return lax.optimization_barrier(function(*args))

    def switch(self, count: jax.Array, function: Callable[..., Any], *args: Any) -> Any:
        """`function(n, *args)`, whose last argument has M spheres in its second axis, with n >= count."""
        return self(function, args[-1][0].shape[1], *args)


class CpuStage(Stage):
    """XLA for CPUs drops barriers but keeps conditionals: each stage is one on a scalar that is true."""

    def __init__(self, scene: Any) -> None:
        # XLA cannot know that no position is the largest number.
        self._true = scene.x[0] != np.finfo(np.float32).max
        zeros = (leaf.reshape(-1)[0].astype(jnp.int32) * 0 for leaf in jax.tree.leaves(scene))
        self._zero = functools.reduce(jnp.add, zeros)

    def __call__(self, function: Callable[..., Any], *args: Any) -> Any:
        shapes = jax.eval_shape(function, *args)

        def empty(*_: Any) -> Any:
            return jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)

        return lax.cond(self._true, self._vary(function), self._vary(empty), *args)

    def switch(self, count: jax.Array, function: Callable[..., Any], *args: Any) -> Any:
        most = args[-1][0].shape[1]
        sizes = [*range(min(FEW, most - 1) + 1), most]
        branches = [self._vary(functools.partial(function, size)) for size in sizes]
        return lax.switch(jnp.minimum(count, len(sizes) - 1), branches, *args)

    def _vary(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Adds a zero to the results, which XLA takes out again.

        Under `shard_map` JAX tracks what differs between devices, and the branches of a conditional
        must agree on that. The zero was made from the whole scene, so it differs if anything does.
        """

        def add_zero(leaf: jax.Array) -> jax.Array:
            assert leaf.dtype != bool, "stages pass numbers"
            return leaf + self._zero.astype(leaf.dtype)

        return lambda *args: jax.tree.map(add_zero, function(*args))


def run_staged(
    draw: Callable[..., jax.Array],
    draw_in_kernels: Callable[..., jax.Array] | None,
    atlas: Any,
    scene: Any,
    cpu_lanes: int,
) -> jax.Array:
    """`draw(stage, atlas, scene)` for lanes, with the stages of the device that it is compiled for.

    NVIDIA GPUs run `draw_in_kernels(atlas, scene)` instead, where there is one.
    """

    def on_cpu(atlas: Any, scene: Any) -> jax.Array:
        return _in_chunks(lambda part: draw(CpuStage(part), atlas, part), scene, cpu_lanes)

    def on_gpu(atlas: Any, scene: Any) -> jax.Array:
        return draw(Stage(), atlas, scene)

    special = {} if draw_in_kernels is None else {"cuda": draw_in_kernels}
    return by_platform(atlas, scene, cpu=on_cpu, default=on_gpu, **special)


def _in_chunks(draw: Callable[[Any], jax.Array], scene: Any, size: int) -> jax.Array:
    """Draws `size` lanes at a time; the last chunk is filled up by repeating lanes."""
    lanes = jax.tree.leaves(scene)[0].shape[0]
    if lanes <= size:
        return draw(scene)
    chunks = -(-lanes // size)
    index = np.minimum(np.arange(chunks * size), lanes - 1)
    if lanes % size:
        scene = jax.tree.map(lambda array: array[index], scene)
    parts = jax.tree.map(lambda array: array.reshape(chunks, size, *array.shape[1:]), scene)
    images = lax.map(draw, parts)
    return images.reshape(chunks * size, *images.shape[2:])[:lanes]
