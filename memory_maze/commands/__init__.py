"""The commands of `memory-maze`, one file each: the docstring is the help, `Command` holds the options."""
