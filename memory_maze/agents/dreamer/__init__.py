"""Dreamer: its actor and critic learn in imagination, by `behaviour`."""
