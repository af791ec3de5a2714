"""The MuJoCo reference: the benchmark as published, on the `mujoco` package alone."""

try:
    import mujoco  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "mujoco":
        raise
    from memory_maze.system.extras import install_command

    raise ModuleNotFoundError(
        f'engine="mujoco" needs MuJoCo: {install_command("mujoco")}, or [reference] for exact episodes',
        name="mujoco",
    ) from None
