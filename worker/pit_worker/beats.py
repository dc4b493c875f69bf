"""What the worker says in one beat: a report of each process, and what output fits."""

import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from pit_protocol.beat import MAX_CHUNK, Beat, ChunkHead, Report, Trouble, Usage
from pit_protocol.states import ProcessState
from pit_worker.entry import Key
from pit_worker.process import Process

MAX_OUTPUT = 4 * 1024 * 1024  # bytes of output in one beat


@dataclass(frozen=True)
class Speech:
    """The content of one beat, and up to where it ships each process's output."""

    reports: tuple[Report, ...]
    chunks: tuple[ChunkHead, ...]
    data: tuple[bytes, ...]
    shipped: dict[Key, int]
    tells_end: bool  # of some process
    keeps_end: bool  # of some process, whose output the head must have first

    def to_beat(
        self, epoch: int, boot_id: str, seen: int, troubles: tuple[Trouble, ...] | None = None
    ) -> Beat:
        return Beat(epoch, boot_id, seen, reports=self.reports, chunks=self.chunks, troubles=troubles)


def compose(
    processes: Collection[Process],
    most: int = MAX_OUTPUT,
    usage: Callable[[Report], Usage | None] = lambda _: None,
) -> Speech:
    """All reports, and output in turns: who was served longest ago comes first.

    `usage` says what a report tells of GPUs.
    """
    sizes = {process.key: process.output.size() for process in processes}
    shipped = {p.key: p.output.shipped for p in processes if p.output.shipped is not None}
    behind = [p for p in processes if p.key in shipped and shipped[p.key] < sizes[p.key]]
    turns = deque(sorted(behind, key=lambda process: process.output.shipped_at))
    chunks: list[ChunkHead] = []
    data: list[bytes] = []
    while turns and most > 0:
        process = turns.popleft()
        position = shipped[process.key]
        at, until = process.output.stretch(position, time.time())
        end = sizes[process.key] if until is None else min(until, sizes[process.key])
        piece = process.output.read(position, min(MAX_CHUNK, most, end - position))
        if not piece:
            continue
        process.output.shipped_at = time.monotonic()
        chunks.append(ChunkHead(*process.key, position, len(piece), at))
        data.append(piece)
        most -= len(piece)
        shipped[process.key] += len(piece)
        if shipped[process.key] < sizes[process.key]:
            turns.append(process)
    bare = (p.report(sizes[p.key], is_told=shipped.get(p.key, 0) >= sizes[p.key]) for p in processes)
    reports = tuple(replace(report, usage=usage(report)) for report in bare)
    ended = {process.key for process in processes if process.end}
    told = {Key(r.process, r.attempt) for r in reports if r.state is ProcessState.ENDED}
    return Speech(reports, tuple(chunks), tuple(data), shipped, bool(told), bool(ended - told))
