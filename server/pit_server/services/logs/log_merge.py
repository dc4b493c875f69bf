"""A job's log: all its streams merged in time order, read from a cursor on."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.answers.jobs import LogBatch, LogLine
from pit_protocol.problem import Problem
from pit_protocol.states import JobEvent, JobState, Outcome, ProcessState
from pit_server.db.models import Attempt, Event, Job, Node, Process
from pit_server.services.logs.cursor import parse_cursor, render_cursor
from pit_server.services.logs.event_text import JobFacts, render_event
from pit_server.store.data_root import DataRoot
from pit_server.store.log_stream import MAX_LINE, LogStream, preparation_log, process_log

BATCH = 256 * 1024  # bytes of output in one answer, roughly
MAX_TAIL = 10_000
HEAD = -1  # key of the head's own lines
PREPARE = 0  # key of the preparation's stream in a cursor; those of processes are their ids


@dataclass(frozen=True)
class Query:
    cursor: str = ""
    process: str = ""  # "0.1": only that one
    tail: int | None = None
    since: float | None = None


@dataclass(frozen=True)
class Source:
    name: str
    stream: LogStream
    is_final: bool


@dataclass(frozen=True)
class MergedLine:
    at: float
    source: str
    text: str
    key: int  # the stream it is from
    end: int  # where its source continues


def read(session: Session, job: Job, data: DataRoot, query: Query) -> LogBatch:
    """Read the next batch of lines after the query's cursor."""
    processes = _processes(session, job)
    sources = _sources(job, data, processes, query.process)
    event_id, offsets = _start(sources, query)
    shown, cut = _from_streams(sources, offsets, query)
    if not query.process:
        shown += _from_events(session, job, data, processes, event_id)
    shown = sorted((line for line in shown if cut is None or line.at <= cut), key=lambda line: line.at)
    for line in shown:
        if line.key == HEAD:
            event_id = max(event_id, line.end)
        else:
            offsets[line.key] = line.end
    if query.since is not None:
        shown = [line for line in shown if line.at >= query.since]
    if query.tail is not None and not query.cursor:
        shown = shown[-query.tail :]
    return LogBatch(
        lines=[LogLine(line.at, line.source, line.text) for line in shown],
        cursor=render_cursor(event_id, offsets),
        ended=job.state == JobState.ENDED and cut is None,
    )


def _processes(session: Session, job: Job) -> dict[int, tuple[Process, str]]:
    rows = session.execute(
        select(Process, Node.name)
        .join(Attempt, Attempt.id == Process.attempt_id)
        .join(Node, Node.id == Process.node_id)
        .where(Process.job_id == job.id, Attempt.number == job.attempt)
    )
    return {row.Process.id: (row.Process, row.name) for row in rows}


def _sources(
    job: Job, data: DataRoot, processes: dict[int, tuple[Process, str]], only: str
) -> dict[int, Source]:
    sources = {}
    for process_id, (process, _) in processes.items():
        stream = process_log(data, job.id, job.attempt, process.group_index, process.process_index)
        if only in ("", f"{process.group_index}.{process.process_index}"):
            sources[process_id] = Source(
                f"worker {process.rank}", stream, process.state == ProcessState.ENDED
            )
    if only and not sources and processes:
        names = ", ".join(f"{p.group_index}.{p.process_index}" for p, _ in processes.values())
        raise Problem("no_such_process", f"job {job.id} has no process {only}", f"it has {names}", status=404)
    if not only:
        is_final = job.state != JobState.PREPARING
        sources[PREPARE] = Source("prepare", preparation_log(data, job.id, job.attempt), is_final)
    return sources


def _start(sources: dict[int, Source], query: Query) -> tuple[int, dict[int, int]]:
    if query.cursor:
        return parse_cursor(query.cursor)
    if query.tail is not None:
        return 0, {
            key: source.stream.tail_offset(query.tail) for key, source in sources.items() if query.tail
        }
    if query.since is not None:
        return 0, {key: source.stream.offset_at(query.since) for key, source in sources.items()}
    return 0, {}


def _from_streams(
    sources: dict[int, Source], offsets: dict[int, int], query: Query
) -> tuple[list[MergedLine], float | None]:
    """Read all streams; also returns up to which time the lines are complete if a stream has more.

    A tail is read at once, because its number of lines is bounded.
    """
    limit = max(BATCH // max(len(sources), 1), MAX_LINE)
    if query.tail is not None:
        limit = max(limit, min(query.tail, MAX_TAIL) * MAX_LINE)
    shown: list[MergedLine] = []
    cut: float | None = None
    for key, source in sources.items():
        offset = offsets.get(key, 0)
        lines = source.stream.lines(offset, limit, is_final=source.is_final)
        shown += _in_order(
            [(line.at, line.text.decode(errors="replace"), line.end) for line in lines], source.name, key
        )
        if lines and lines[-1].end - offset > limit - MAX_LINE and lines[-1].end < source.stream.size():
            cut = shown[-1].at if cut is None else min(cut, shown[-1].at)
    return shown, cut


def _from_events(
    session: Session, job: Job, data: DataRoot, processes: dict[int, tuple[Process, str]], after: int
) -> list[MergedLine]:
    events = session.execute(
        select(Event).where(Event.job_id == job.id, Event.id > after).order_by(Event.id)
    ).scalars()
    streams = {
        key: process_log(data, job.id, job.attempt, process.group_index, process.process_index)
        for key, (process, _) in processes.items()
    }
    outcome = Outcome(job.outcome) if job.outcome else None
    facts = JobFacts(job.id, outcome, job.reason, processes, streams)
    culprit = _culprit(session, job)
    lines = [(at, text, event.id) for event in events for at, text in render_event(event, facts, culprit)]
    return _in_order(lines, "head", HEAD)


def _in_order(lines: list[tuple[float, str, int]], source: str, key: int) -> list[MergedLine]:
    """Make the times of one source monotonic, or a clock set back would reorder its lines."""
    latest = 0.0
    shown = []
    for at, text, end in lines:
        latest = max(latest, at)
        shown.append(MergedLine(latest, source, text, key, end))
    return shown


def _culprit(session: Session, job: Job) -> int | None:
    return session.execute(
        select(Event.process_id).where(Event.job_id == job.id, Event.event == JobEvent.FAILED)
    ).scalar()
