"""Scripted policies.

    oracle    knows the map and takes the shortest path to the target
    explorer  knows the map and visits random cells, as in the paper's data sets
    random    uniformly random actions

`memory_maze.agents.load.load_policy` loads these and trained agents by name.
"""

POLICIES = ("oracle", "explorer", "random")
