"""The content of one beat: a report of each process, and as much output as fits."""

import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass

from msgspec.structs import replace

from pit_protocol.messages.beat import MAX_CHUNK, Beat, ChunkHead, Report, Trouble, Usage
from pit_protocol.states import ProcessState
from pit_worker.process.process import Process
from pit_worker.spool.entry import Key

MAX_OUTPUT = 4 * 1024 * 1024  # bytes of output in one beat


@dataclass(frozen=True)
class OutgoingBeat:
    """The content of one beat, and up to where it ships each process's output."""

    reports: tuple[Report, ...]
    chunks: tuple[ChunkHead, ...]
    data: tuple[bytes, ...]
    shipped: dict[Key, int]
    reports_end: bool  # of some process
    withholds_end: bool  # of some process, because the head must have its output first

    def to_beat(
        self, epoch: int, boot_id: str, seen: int, troubles: tuple[Trouble, ...] | None = None
    ) -> Beat:
        return Beat(epoch, boot_id, seen, reports=self.reports, chunks=self.chunks, troubles=troubles)


def compose(
    processes: Collection[Process],
    max_output: int = MAX_OUTPUT,
    usage: Callable[[Report], Usage | None] = lambda _: None,
) -> OutgoingBeat:
    """All reports, and output in turns: the process whose output was shipped longest ago comes first.

    `usage` is the GPU usage to send with a report.
    """
    sizes = {process.key: process.output.size() for process in processes}
    shipped = {p.key: p.output.shipped for p in processes if p.output.shipped is not None}
    behind = [p for p in processes if p.key in shipped and shipped[p.key] < sizes[p.key]]
    turns = deque(sorted(behind, key=lambda process: process.output.shipped_at))
    chunks: list[ChunkHead] = []
    data: list[bytes] = []
    while turns and max_output > 0:
        process = turns.popleft()
        position = process.output.skip_gap(shipped[process.key])
        gap = position - shipped[process.key]
        at, until = process.output.find_mark(position, time.time())
        end = sizes[process.key] if until is None else min(until, sizes[process.key])
        piece = process.output.read(position, min(MAX_CHUNK, max_output, max(end - position, 0)))
        if not piece and not gap:
            continue
        process.output.shipped_at = time.monotonic()
        chunks.append(ChunkHead(*process.key, position, len(piece), at, gap))
        data.append(piece)
        max_output -= len(piece)
        shipped[process.key] = position + len(piece)
        if shipped[process.key] < sizes[process.key]:
            turns.append(process)
    bare = (p.report(sizes[p.key], may_end=shipped.get(p.key, 0) >= sizes[p.key]) for p in processes)
    reports = tuple(replace(report, usage=usage(report)) for report in bare)
    ended = {process.key for process in processes if process.end}
    reported = {Key(r.process, r.attempt) for r in reports if r.state is ProcessState.ENDED}
    return OutgoingBeat(reports, tuple(chunks), tuple(data), shipped, bool(reported), bool(ended - reported))
