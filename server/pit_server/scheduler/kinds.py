"""Kinds of resources: the names with a fixed meaning, and how a model's name becomes a kind."""

CPU = "cpu"  # an amount, in thousandths of a core
MEMORY = "mem"  # an amount, in MiB
SLOT = "slot"  # one for each process; not a kind that requests name
PORT = "port"  # a unit that every attempt gets without asking for it
ANY_GPU = "gpu"  # in requests: a unit of whichever kind is free
AMOUNTS = frozenset((CPU, MEMORY, SLOT, PORT))  # everything that is no GPU
RESERVED = frozenset((CPU, MEMORY, PORT, ANY_GPU))  # no alias may be called so


def fold(model: str) -> str:
    """Render a model's name as requests write it, in lower case and without spaces."""
    return "".join(model.split()).lower()
