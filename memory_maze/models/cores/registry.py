"""The memories of the package by name: the config class of each, as package.module:Name."""

CORES = {
    "lstm": "memory_maze.models.cores.config:LSTMConfig",
    "gru": "memory_maze.models.cores.config:GRUConfig",
    "none": "memory_maze.models.cores.config:MemorylessConfig",
}
