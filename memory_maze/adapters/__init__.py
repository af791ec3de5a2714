"""Interfaces over a simulation: gymnasium and dm_env. There are no rules in here."""
