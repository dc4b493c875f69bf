"""How a job's data reaches a node and returns."""
