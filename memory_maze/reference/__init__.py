"""The MuJoCo reference: the benchmark as published, on the `mujoco` package alone."""

try:
    import mujoco  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "mujoco":
        raise
    raise ModuleNotFoundError(
        'engine="mujoco" needs MuJoCo: pip install "memory-maze[mujoco]", or [reference] for exact episodes',
        name="mujoco",
    ) from None
