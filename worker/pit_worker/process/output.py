"""A process's output: a stream that grows, and how much of it the head has."""

from collections import deque

from pit_protocol.system.pieces import Pieces

MAX_MARKS = 10_000


class Output:
    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self.shipped: int | None = None  # bytes the head has; None: it has not said yet
        self.shipped_at = 0.0
        self._marks: deque[tuple[int, float]] = deque(maxlen=MAX_MARKS)  # (offset, when it was written)
        self._marked = 0

    def size(self) -> int:
        """Bytes of output so far, also those that were dropped."""
        return self._pieces.size()

    def mark(self, now: float) -> None:
        """Note that everything since the last mark was written just now."""
        size = self.size()
        if size > self._marked:
            self._marks.append((self._marked, now))
            self._marked = size

    def find_mark(self, position: int, now: float) -> tuple[float, int | None]:
        """When the byte at `position` was written, and where what was written later begins."""
        while len(self._marks) > 1 and self._marks[1][0] <= position:
            self._marks.popleft()
        if not self._marks or self._marks[0][0] > position or position >= self._marked:
            return now, None
        return self._marks[0][1], self._marks[1][0] if len(self._marks) > 1 else self._marked

    def skip_gap(self, position: int) -> int:
        """Where there is output again, if it was dropped at `position`."""
        gap = self._pieces.gap()
        return gap[1] if gap and gap[0] <= position < gap[1] else position

    def read(self, position: int, most: int) -> bytes:
        """None if it was dropped a moment ago."""
        return self._pieces.pread(position, most)
