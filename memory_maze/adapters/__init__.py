"""Interfaces over a simulation: gymnasium, its vectors, dm_env and gymnax. There are no rules in here."""
