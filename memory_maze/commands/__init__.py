"""The commands of `memory-maze`, one file each: its docstring is the help, and its `Command` the options."""
