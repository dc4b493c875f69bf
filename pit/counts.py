"""How many of something, in words."""


def counted(count: int, noun: str) -> str:
    """`1 file`, `2 files`, `1,000 bytes`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
