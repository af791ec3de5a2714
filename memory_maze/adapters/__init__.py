"""Interfaces: gymnasium, its vector environments, dm_env and gymnax. Thin wrappers without any rules."""
