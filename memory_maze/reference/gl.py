"""OpenGL contexts without a window: EGL, OSMesa or GLFW, whichever works.

MuJoCo's own context classes fix the backend for the whole process at import, complain at exit and
cannot be handed from thread to thread, hence these.
"""

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any, Protocol

DEBIAN_PACKAGES = "libegl1 libgl1 libosmesa6"
BACKENDS = ("egl", "osmesa", "glfw")


class GLError(RuntimeError):
    """No picture can be drawn on this machine; the message says what to install."""


class Context(Protocol):
    """An OpenGL context that one thread at a time may use."""

    backend: str

    def make_current(self) -> None: ...

    def release(self) -> None: ...

    def free(self) -> None: ...


def create_context(resolution: int, prepare: Callable[[], Any] = lambda: None) -> tuple[Context, Any]:
    """The first backend in which `prepare` works, or the one that MUJOCO_GL names; and what it made."""
    wanted = os.environ.get("MUJOCO_GL", "").lower()
    wanted = {"on": "", "1": "", "true": "", "enable": "", "enabled": "", "glx": "glfw"}.get(wanted, wanted)
    if wanted in ("off", "disable", "disabled", "0", "false"):
        raise GLError(f"MUJOCO_GL={wanted} turns rendering off: unset it, or set it to egl or osmesa")
    if wanted and wanted not in _CONTEXTS:
        raise GLError(f"MUJOCO_GL={wanted} is not known: use {', '.join(BACKENDS)}, or unset it")
    reasons = []
    for backend in (wanted,) if wanted else _default_backends():
        before = os.environ.get("MUJOCO_GL")
        # MuJoCo 4 finds the matching GL library by this variable.
        os.environ["MUJOCO_GL"] = backend
        try:
            context = _CONTEXTS[backend](resolution)
            try:
                context.make_current()
                return context, prepare()
            except GLError:
                context.free()
                raise
        except (GLError, OSError, ImportError, AttributeError) as error:
            reasons.append(f"{backend}: {error}")
            os.environ.pop("MUJOCO_GL")
            if before is not None:
                os.environ["MUJOCO_GL"] = before
    others = " or unset MUJOCO_GL, and" if wanted else ""
    raise GLError(
        "no OpenGL for rendering with MuJoCo (" + "; ".join(reasons) + ")."
        f"{others} on Debian or Ubuntu: apt-get install {DEBIAN_PACKAGES}"
    )


def _default_backends() -> tuple[str, ...]:
    return BACKENDS if sys.platform.startswith("linux") else ("glfw",)


_EGL_PLATFORM_DEVICE = 0x313F
_EGL_OPENGL_API = 0x30A2
_EGL_NONE = 0x3038
_EGL_CONFIG = (
    *(0x3024, 8, 0x3023, 8, 0x3022, 8, 0x3021, 8),  # red, green, blue, alpha bits
    *(0x3025, 24, 0x3026, 8),  # depth and stencil bits
    *(0x3033, 0x0001, 0x3040, 0x0008),  # pbuffer surfaces, desktop OpenGL
    _EGL_NONE,
)


class EGLContext:
    """Surfaceless EGL on a GPU or on Mesa's software rasteriser."""

    backend = "egl"

    def __init__(self, resolution: int) -> None:
        del resolution  # frames are drawn into MuJoCo's own buffer
        # Mesa's worker threads do not survive a fork and cost more than they give on small pictures.
        os.environ.setdefault("LP_NUM_THREADS", "0")
        self._egl = _load_library("libEGL.so.1", "libEGL.so")
        _load_optional("libOpenGL.so.0")  # NVIDIA's driver needs it beside libEGL
        for name in ("eglGetProcAddress", "eglCreateContext", "eglGetCurrentContext"):
            getattr(self._egl, name).restype = ctypes.c_void_p
        self._egl.eglGetProcAddress.argtypes = [ctypes.c_char_p]
        self._display = ctypes.c_void_p(self._open_display())
        config, count = ctypes.c_void_p(), ctypes.c_int()
        attributes = (ctypes.c_int * len(_EGL_CONFIG))(*_EGL_CONFIG)
        egl = self._egl
        egl.eglChooseConfig(self._display, attributes, ctypes.byref(config), 1, ctypes.byref(count))
        if count.value < 1:
            raise GLError("no matching frame buffer configuration")
        egl.eglBindAPI(_EGL_OPENGL_API)
        self._context = ctypes.c_void_p(egl.eglCreateContext(self._display, config, None, None))
        if not self._context:
            raise GLError(f"cannot create a context (error {egl.eglGetError():#x})")

    def _open_display(self) -> int:
        query = self._extension("eglQueryDevicesEXT", ctypes.c_uint)
        open_device = self._extension("eglGetPlatformDisplayEXT", ctypes.c_void_p)
        devices, count = (ctypes.c_void_p * 64)(), ctypes.c_int()
        query(64, devices, ctypes.byref(count))
        chosen = range(count.value)
        if (wanted := os.environ.get("MUJOCO_EGL_DEVICE_ID")) is not None:
            if not wanted.isdigit() or int(wanted) >= count.value:
                raise GLError(f"MUJOCO_EGL_DEVICE_ID={wanted}: there are {count.value} devices")
            chosen = [int(wanted)]
        for index in chosen:
            display = open_device(_EGL_PLATFORM_DEVICE, ctypes.c_void_p(devices[index]), None)
            if display and self._egl.eglInitialize(ctypes.c_void_p(display), None, None):
                return display
        raise GLError(f"none of {count.value} devices can be opened")

    def _extension(self, name: str, result: Any) -> Callable[..., int]:
        address = self._egl.eglGetProcAddress(name.encode())
        if not address:
            raise GLError(f"{name} is missing")
        function = ctypes.cast(address, ctypes.CFUNCTYPE(result))
        function.restype = result
        return function

    def make_current(self) -> None:
        # The bound API is a property of the thread.
        self._egl.eglBindAPI(_EGL_OPENGL_API)
        if not self._egl.eglMakeCurrent(self._display, None, None, self._context):
            raise GLError(f"cannot use the EGL context (error {self._egl.eglGetError():#x})")

    def release(self) -> None:
        self._egl.eglMakeCurrent(self._display, None, None, None)

    def free(self) -> None:
        self.release()
        self._egl.eglDestroyContext(self._display, self._context)


_OSMESA_RGBA, _GL_UNSIGNED_BYTE = 0x1908, 0x1401


class OSMesaContext:
    """Mesa's rasteriser drawing into plain memory."""

    backend = "osmesa"

    def __init__(self, resolution: int) -> None:
        os.environ.setdefault("LP_NUM_THREADS", "0")
        self._mesa = _load_library("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so")
        self._mesa.OSMesaCreateContextExt.restype = ctypes.c_void_p
        self._context = ctypes.c_void_p(self._mesa.OSMesaCreateContextExt(_OSMESA_RGBA, 24, 8, 0, None))
        if not self._context:
            raise GLError("cannot create a context")
        self._resolution = resolution
        self._buffer = ctypes.create_string_buffer(4 * resolution * resolution)

    def make_current(self) -> None:
        size = self._resolution
        if not self._mesa.OSMesaMakeCurrent(self._context, self._buffer, _GL_UNSIGNED_BYTE, size, size):
            raise GLError("cannot use the OSMesa context")

    def release(self) -> None:
        self._mesa.OSMesaMakeCurrent(None, None, 0, 0, 0)

    def free(self) -> None:
        self.release()
        self._mesa.OSMesaDestroyContext(self._context)


class GLFWContext:
    """An invisible window, for machines with a screen."""

    backend = "glfw"

    def __init__(self, resolution: int) -> None:
        import glfw

        self._glfw: Any = glfw
        if sys.platform.startswith("linux") and not (
            os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        ):
            raise GLError("no display (DISPLAY is not set)")
        if not glfw.init():
            raise GLError("glfw.init() failed")
        glfw.window_hint(glfw.VISIBLE, 0)
        self._window = glfw.create_window(resolution, resolution, "memory-maze", None, None)
        if not self._window:
            raise GLError("cannot create a window")

    def make_current(self) -> None:
        self._glfw.make_context_current(self._window)

    def release(self) -> None:
        self._glfw.make_context_current(None)

    def free(self) -> None:
        self.release()
        self._glfw.destroy_window(self._window)


_CONTEXTS: dict[str, Callable[[int], Context]] = {
    "egl": EGLContext,
    "osmesa": OSMesaContext,
    "glfw": GLFWContext,
}


def _load_library(*names: str) -> ctypes.CDLL:
    for name in names:
        if (library := _load_optional(name)) is not None:
            return library
    raise GLError(f"{names[0]} is not installed")


def _load_optional(name: str) -> ctypes.CDLL | None:
    try:
        # Global, because MuJoCo looks for the GL functions among the loaded symbols.
        return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return None
