"""IMPALA: its hyperparameters in `config`, its network and its loss in `agent`."""
