"""Policies that need no training: they know the maze, or nothing.

    oracle    knows the map and goes to the target as fast as the six actions allow
    explorer  knows the map and wanders through all of it: the policy of the paper's data sets
    random    any of the six actions

`memory_maze.agents.load.load_policy` finds these and trained agents by name.
"""

POLICIES = ("oracle", "explorer", "random")
