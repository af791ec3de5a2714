"""The JAX engine against the MuJoCo reference: record in one, replay in the other, report."""
