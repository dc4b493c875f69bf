"""How much of a job's output is kept: its processes share the limit."""

MIB = 1024 * 1024
LEAST = 64 * 1024  # of each process, in a job with very many


def share_of_process(limit_mib: int, processes: int) -> int:
    """The bytes that are kept of one process's output; 0: all."""
    return max(limit_mib * MIB // max(processes, 1), LEAST) if limit_mib else 0
