"""The supervisor of each process: it outlives the worker, and imports next to nothing."""
