"""Disk usage of a directory tree, without following links."""

import os
from contextlib import suppress
from pathlib import Path

BLOCK = 512  # unit of st_blocks


def measure(directory: Path) -> tuple[int, int]:
    """Bytes on disk and number of files, unfinished uploads included; skips what disappears meanwhile."""
    size = files = 0
    waiting = [str(directory)]
    while waiting:
        place = waiting.pop()
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError), os.scandir(place) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    size += status.st_blocks * BLOCK
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        files += 1
    return size, files
