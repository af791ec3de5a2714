"""Reciprocals and inverse roots, which bound the time of the contact solvers.

Inside a GPU kernel a division is one instruction of the hardware between several that save denormals
and the last bit. The solvers' numbers are neither tiny nor that exact.
"""

import contextlib
import contextvars
from collections.abc import Generator
from typing import Any

import jax
from jax import lax
from jax.experimental.pallas import triton

_in_kernel = contextvars.ContextVar("in_kernel", default=False)


@contextlib.contextmanager
def approximate() -> Generator[None]:
    """What is traced in here is for a kernel of an NVIDIA GPU."""
    token = _in_kernel.set(True)
    try:
        yield
    finally:
        _in_kernel.reset(token)


def invert(x: Any) -> jax.Array:
    """1 / x."""
    return _instruction("rcp", x) if _in_kernel.get() else 1 / x


def invert_root(x: Any) -> jax.Array:
    """1 / sqrt(x)."""
    return _instruction("rsqrt", x) if _in_kernel.get() else lax.rsqrt(x)


def root(x: Any) -> jax.Array:
    """sqrt(x) of what is not zero."""
    return x * _instruction("rsqrt", x) if _in_kernel.get() else lax.sqrt(x)


def _instruction(name: str, x: jax.Array) -> jax.Array:
    (result,) = triton.elementwise_inline_asm(
        f"{name}.approx.ftz.f32 $0, $1;",
        args=[x],
        constraints="=f,f",
        pack=1,
        result_shape_dtypes=[jax.ShapeDtypeStruct(x.shape, x.dtype)],
    )
    return result
