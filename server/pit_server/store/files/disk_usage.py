"""Disk usage of a directory tree, without following links."""

import stat
from pathlib import Path

from pit_server.store.files.tree_walk import walk

BLOCK = 512  # unit of st_blocks


def measure(directory: Path) -> tuple[int, int]:
    """Bytes on disk and number of files, unfinished uploads included; skips what disappears meanwhile."""
    size = files = 0
    for visit in walk(directory):
        for _, status in visit.entries:
            size += status.st_blocks * BLOCK
            files += not stat.S_ISDIR(status.st_mode)
    return size, files
