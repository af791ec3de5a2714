"""Agents that learn to play."""
