"""A job's whole log as one text, whose size is known before it is rendered.

A time always takes the same room, so the size follows from the number of lines and the size of their texts.
"""

import heapq
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from sqlalchemy.orm import Session

from pit_server.db.models import Job
from pit_server.services.logs.log_merge import BATCH, list_events, list_processes, list_sources
from pit_server.store.data_root import DataRoot
from pit_server.store.log_lines import MAX_LINE
from pit_server.store.log_stream import STEP, LogStream

TIME_BYTES = len("[2026-11-17 19:57:55Z] ")


class _Part(NamedTuple):
    """A stream as it is now; what comes later is left out."""

    mark: bytes
    stream: LogStream
    until: int


class LogText:
    """The log as it was when this was made; it may be rendered later, without a database."""

    def __init__(self, session: Session, job: Job, data: DataRoot) -> None:
        processes = list_processes(session, job)
        sources = list_sources(job, data, processes, "").values()
        self._parts = [_Part(_mark(s.name), s.stream, s.stream.size()) for s in sources]
        self._limit = min(max(BATCH // len(self._parts), MAX_LINE), STEP)
        self._head = [
            (line.at, _mark(line.source), line.text.encode(errors="replace"))
            for line in list_events(session, job, data, processes, 0)
        ]

    def size(self) -> int:
        size = sum(TIME_BYTES + len(mark) + len(text) + 1 for _, mark, text in self._head)
        for part in self._parts:
            lines, texts = part.stream.count(self._limit, part.until)
            size += lines * (TIME_BYTES + len(part.mark) + 1) + texts
        return size

    def lines(self) -> Iterator[bytes]:
        """All lines in the order of their times, which are in UTC."""
        streams = [iter(self._head), *map(self._list_lines, self._parts)]
        for at, mark, text in heapq.merge(*streams, key=lambda line: line[0]):
            yield b"%s%s%s\n" % (_time(int(at)), mark, text)

    def _list_lines(self, part: _Part) -> Iterator[tuple[float, bytes, bytes]]:
        position, latest = 0, 0.0
        while True:
            portion = part.stream.read(position, self._limit, is_final=True, until=part.until)
            for line in portion.lines:
                latest = max(latest, line.at)  # a clock may have been set back
                yield latest, part.mark, line.text
            if portion.is_complete:
                return
            position = portion.position


def _mark(source: str) -> bytes:
    return f"[{source}] ".encode()


@lru_cache(maxsize=1024)
def _time(at: int) -> bytes:
    return f"[{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}Z] ".encode()
