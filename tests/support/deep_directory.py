"""A directory deeper than Python's stack and longer than any path, as any user can make one."""

import os
from pathlib import Path

LEVELS = 3000


def make_deep(top: Path, levels: int = LEVELS) -> Path:
    """Make `top` with one file on the deepest of its levels."""
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    os.close(here)
    return top
