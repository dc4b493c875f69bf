"""A count with its noun."""


def plural(count: int, noun: str) -> str:
    """`1 file`, `2 files`, `1,000 bytes`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
