"""Disk usage of a directory tree, without following links."""

import stat
from pathlib import Path

from pit_server.store.files.tree_walk import walk

BLOCK = 512  # unit of st_blocks


def measure(place: Path) -> tuple[int, int]:
    """Bytes on disk and number of files and directories below a directory, or of one file.

    Unfinished uploads count; what disappears meanwhile does not.
    """
    try:
        status = place.lstat()
    except FileNotFoundError:
        return 0, 0
    if not stat.S_ISDIR(status.st_mode):
        return status.st_blocks * BLOCK, 1
    size = files = 0
    for visit in walk(place):
        for _, status in visit.entries:
            size += status.st_blocks * BLOCK
            files += 1
    return size, files
