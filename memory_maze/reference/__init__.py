"""The MuJoCo reference: the benchmark as published, on the `mujoco` package alone."""
