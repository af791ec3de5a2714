"""Episodes to look at: recorded ones, those of data sets, and those of agents; as videos and in a browser."""
