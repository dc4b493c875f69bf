"""A process's output: a file that grows, and how much of it the head has."""

import os
from pathlib import Path


class Output:
    def __init__(self, file: Path) -> None:
        self._file = file
        self.shipped: int | None = None  # bytes the head has; None: it has not yet told
        self.shipped_at = 0.0

    def size(self) -> int:
        """Bytes of output so far."""
        try:
            return self._file.stat().st_size
        except FileNotFoundError:
            return 0

    def read(self, position: int, most: int) -> bytes:
        with self._file.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), most, position)
