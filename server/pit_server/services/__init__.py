"""The rules: what may happen to jobs, processes, nodes and users."""
