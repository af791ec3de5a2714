"""The JAX engine: thousands of mazes in one jitted program, shown to be equivalent to the reference."""
