"""How much a directory and all below it take on disk, past no link."""

import os
from contextlib import suppress
from pathlib import Path

BLOCK = 512  # what the system counts in


def measure(directory: Path) -> tuple[int, int]:
    """Bytes on disk, and the number of files, also of those on their way; not of what vanishes meanwhile."""
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
