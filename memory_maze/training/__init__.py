"""Training: loops, checkpoints, logs."""
