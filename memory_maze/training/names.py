"""The files in the folder of a run; agents alone have the first two."""

CONFIG = "config.json"
WEIGHTS = "agent.safetensors"
METRICS = "metrics.jsonl"
RESULT = "result.json"
