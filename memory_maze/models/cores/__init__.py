"""Memories: what a network carries from one step to the next.

`config` says how one is configured, `core` what one is, and `registry` lists their names.
"""
