"""A job's log: all its streams merged in time order, read from a cursor on."""

import codecs
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.answers.jobs import LogBatch, LogLine
from pit_protocol.arrays.numbers import job_name
from pit_protocol.problem import Problem
from pit_protocol.states import JobEvent, JobState, Outcome, ProcessState
from pit_server.db.models import Attempt, Event, Job, Node, Process
from pit_server.services.jobs.records.delays import Delay
from pit_server.services.logs import delay_lines
from pit_server.services.logs.cursor import Cursor, parse_cursor, render_cursor
from pit_server.services.logs.event_text import JobFacts, PlacedProcess, render_event
from pit_server.store.data_root import DataRoot
from pit_server.store.log_lines import MAX_LINE
from pit_server.store.log_stream import Line, LogStream, Portion, preparation_log, process_log

BATCH = 512 * 1024  # bytes of one answer, roughly
MAX_TAIL = 10_000
TAIL_BYTES = 4 * 1024 * 1024  # of the first answer with a tail; what is longer comes with the next
HEAD = -1  # key of the head's own lines
PREPARE = 0  # key of the preparation's stream in a cursor; those of processes are their ids


@dataclass(frozen=True)
class Query:
    cursor: str = ""
    process: str = ""  # "1" (its rank) or "0.1" (group and index): only that one
    tail: int | None = None
    since: float | None = None
    unfinished: bool = True  # with lines that have no end yet


@dataclass(frozen=True)
class Source:
    name: str
    stream: LogStream
    is_final: bool


class MergedLine(NamedTuple):
    at: float
    source: str
    text: str
    key: int  # the stream it is from
    start: int
    end: int  # where its source continues


class Merged(NamedTuple):
    """The next lines of several streams."""

    lines: list[MergedLine]
    offsets: Mapping[int, int]  # where each stream continues
    unfinished: list[LogLine]
    seen: Mapping[int, int]
    is_complete: bool  # there was no more


def read(session: Session, job: Job, data: DataRoot, query: Query, delay: Delay | None = None) -> LogBatch:
    """Read the next batch of lines after the query's cursor, and what delays the job if that is new."""
    processes = list_processes(session, job)
    sources = list_sources(job, data, processes, query.process)
    place = start(sources, query)
    only_attempts = bool(query.process)
    events = list_events(session, job, data, processes, place.event_id, only_attempts=only_attempts)
    merged = merge(sources, events, place, query)
    event_id = max((line.end for line in merged.lines if line.key == HEAD), default=place.event_id)
    return answer(job, merged, event_id, query, delay)


def merge(sources: dict[int, Source], events: list[MergedLine], place: Cursor, query: Query) -> Merged:
    """The next lines of all streams, and events, in the order of their times."""
    portions = _read_streams(sources, place, query)
    by_source = {key: _of_stream(sources[key], key, portion.lines) for key, portion in portions.items()}
    incomplete = [
        by_source[key][-1].at if portion.lines else portion.at
        for key, portion in portions.items()
        if not portion.is_complete
    ]
    cut = min(incomplete, default=None)  # up to then, the lines of all streams are here
    lines = [*events, *(line for lines in by_source.values() for line in lines)]
    lines = sorted((line for line in lines if cut is None or line.at <= cut), key=lambda line: line.at)
    offsets = {**place.offsets}
    for key, portion in portions.items():
        late = (line.start for line in by_source[key] if cut is not None and line.at > cut)
        offsets[key] = next(late, portion.position)
    # Lines that come before them are still missing if a stream has more.
    unfinished, seen = _unfinished(sources, portions, place, query) if cut is None else ([], place.seen)
    return Merged(lines, offsets, unfinished, seen, is_complete=cut is None)


def answer(job: Job, merged: Merged, event_id: int, query: Query, delay: Delay | None) -> LogBatch:
    """What a reader gets; with what delays the job, if that is new."""
    lines, unfinished = merged.lines, merged.unfinished
    if query.since is not None:
        lines = [line for line in lines if line.at >= query.since]
    if query.tail is not None and not query.cursor:
        unfinished = unfinished[-query.tail :]
        lines = lines[max(len(lines) + len(unfinished) - query.tail, 0) :]
    told, news = delay_lines.parse_told(query.cursor), list[LogLine]()
    if merged.is_complete and not query.process:
        news, told = delay_lines.tell(JobState(job.state), delay, told, now=time.time())
    return LogBatch(
        lines=[*(LogLine(line.at, line.source, line.text) for line in lines), *news],
        cursor=render_cursor(Cursor(event_id, merged.offsets, merged.seen)) + delay_lines.render_told(told),
        ended=job.state == JobState.ENDED and merged.is_complete,
        unfinished=unfinished,
        more=not merged.is_complete,
    )


def list_processes(session: Session, job: Job, *, only_current: bool = False) -> dict[int, PlacedProcess]:
    """The processes of all attempts of the job, or of the current one only."""
    query = (
        select(Process, Node.name, Attempt.number)
        .join(Attempt, Attempt.id == Process.attempt_id)
        .join(Node, Node.id == Process.node_id)
        .where(Process.job_id == job.id)
        .order_by(Attempt.number, Process.rank)
    )
    rows = session.execute(query.where(Attempt.number == job.attempt) if only_current else query)
    return {row.Process.id: PlacedProcess(row.Process, row.name, row.number) for row in rows}


def list_sources(
    job: Job, data: DataRoot, processes: dict[int, PlacedProcess], only: str
) -> dict[int, Source]:
    sources = {}
    for process_id, (process, _, attempt) in processes.items():
        stream = process_log(data, job.id, attempt, process.group_index, process.process_index)
        if only in ("", str(process.rank), f"{process.group_index}.{process.process_index}"):
            sources[process_id] = Source(
                f"worker {process.rank}", stream, process.state == ProcessState.ENDED
            )
    if only and not sources and processes:
        last = max(placed.process.rank for placed in processes.values())
        raise Problem(
            "no_such_process",
            f"job {job_name(job.id)} has no process {only}",
            f"it has worker 0 to worker {last}" if last else "it has one, worker 0",
            status=404,
        )
    if not only:
        is_final = job.state != JobState.PREPARING
        sources[PREPARE] = Source("prepare", preparation_log(data, job.id), is_final)
    return sources


def start(sources: dict[int, Source], query: Query) -> Cursor:
    if query.cursor:
        return parse_cursor(query.cursor.partition(delay_lines.SEPARATOR)[0])
    if query.tail is not None:
        return Cursor(offsets={key: s.stream.tail_offset(query.tail) for key, s in sources.items()})
    if query.since is not None:
        return Cursor(offsets={key: s.stream.offset_at(query.since) for key, s in sources.items()})
    return Cursor()


def _read_streams(sources: dict[int, Source], place: Cursor, query: Query) -> dict[int, Portion]:
    share = max(len(sources), 1)
    limit = max(BATCH // share, MAX_LINE)
    if query.tail is not None:
        # A tail is read at once, because its number of lines is bounded.
        limit = max(limit, min(query.tail * MAX_LINE, TAIL_BYTES // share))
    return {
        key: source.stream.read(place.offsets.get(key, 0), limit, is_final=source.is_final)
        for key, source in sources.items()
    }


def _of_stream(source: Source, key: int, lines: list[Line]) -> list[MergedLine]:
    return in_order(
        [(at, text.decode(errors="replace"), start, end) for at, text, start, end in lines], source.name, key
    )


def _unfinished(
    sources: dict[int, Source], portions: dict[int, Portion], place: Cursor, query: Query
) -> tuple[list[LogLine], Mapping[int, int]]:
    """Unfinished lines that the reader has not seen like this, and up to where it has seen them now."""
    if not query.unfinished:
        return [], place.seen
    open_lines = {key: portion.unfinished for key, portion in portions.items() if portion.unfinished}
    changed = [
        LogLine(line.at, sources[key].name, _whole_characters(line.text), unfinished=True)
        for key, line in open_lines.items()
        if line.end != place.seen.get(key) and (query.since is None or line.at >= query.since)
    ]
    return sorted(changed, key=lambda line: line.at), {key: line.end for key, line in open_lines.items()}


def _whole_characters(data: bytes) -> str:
    """Decode what is there of a line; the first half of a character waits for the second."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data)


def list_events(
    session: Session,
    job: Job,
    data: DataRoot,
    processes: dict[int, PlacedProcess],
    after: int,
    *,
    only_attempts: bool = False,
) -> list[MergedLine]:
    """The lines of the head; `only_attempts`: only those between two attempts."""
    query = select(Event).where(Event.job_id == job.id, Event.id > after).order_by(Event.id)
    if only_attempts:
        query = query.where(Event.event == JobEvent.REQUEUED)
    events = session.execute(query).scalars()
    streams = {
        key: process_log(data, job.id, attempt, process.group_index, process.process_index)
        for key, (process, _, attempt) in processes.items()
    }
    outcome = Outcome(job.outcome) if job.outcome else None
    facts = JobFacts(job.id, outcome, job.reason, processes, streams)
    culprit = _culprit(session, job)
    lines = [(at, text, 0, event.id) for event in events for at, text in render_event(event, facts, culprit)]
    return in_order(lines, "head", HEAD)


def in_order(lines: Iterable[tuple[float, str, int, int]], source: str, key: int) -> list[MergedLine]:
    """Make the times of one source monotonic, or a clock set back would reorder its lines."""
    latest = 0.0
    shown = []
    for at, text, start, end in lines:
        latest = max(latest, at)
        shown.append(MergedLine(latest, source, text, key, start, end))
    return shown


def _culprit(session: Session, job: Job) -> int | None:
    return session.execute(
        select(Event.process_id).where(Event.job_id == job.id, Event.event == JobEvent.FAILED)
    ).scalar()
