"""A job's log as one: all its streams merged in time order, read on from a cursor."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.problem import Problem
from pit_protocol.states import JobEvent, JobState, Outcome, ProcessState
from pit_server.db.models import Attempt, Event, Job, Node, Process
from pit_server.services.cursor import parse_cursor, render_cursor
from pit_server.services.head_lines import Story, tell
from pit_server.services.orders import stream_of
from pit_server.store.logs import MAX_LINE, LogStream
from pit_server.store.paths import DataRoot

BATCH = 256 * 1024  # bytes of output in one answer, roughly
MAX_TAIL = 10_000
HEAD = -1  # key of the head's own lines
PREPARE = 0  # key of the preparation's stream in a cursor; processes go by their ids


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
class Shown:
    at: float
    source: str
    text: str
    key: int  # the stream it is from
    end: int  # where its source goes on behind it


def prepare_stream(data: DataRoot, job: int, attempt: int) -> LogStream:
    """The log of a job's preparation."""
    return LogStream(data.logs(job), f"{attempt}-prepare")


def read(session: Session, job: Job, data: DataRoot, query: Query) -> dict[str, Any]:
    """The next batch of lines after the query's cursor."""
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
    return {
        "lines": [{"at": line.at, "source": line.source, "text": line.text} for line in shown],
        "cursor": render_cursor(event_id, offsets),
        "ended": job.state == JobState.ENDED and cut is None,
    }


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
        stream = stream_of(data, job.id, job.attempt, process.group_index, process.process_index)
        if only in ("", f"{process.group_index}.{process.process_index}"):
            sources[process_id] = Source(
                f"worker {process.rank}", stream, process.state == ProcessState.ENDED
            )
    if only and not sources and processes:
        names = ", ".join(f"{p.group_index}.{p.process_index}" for p, _ in processes.values())
        raise Problem("no_such_process", f"job {job.id} has no process {only}", f"it has {names}", status=404)
    if not only:
        is_final = job.state != JobState.PREPARING
        sources[PREPARE] = Source("prepare", prepare_stream(data, job.id, job.attempt), is_final)
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
) -> tuple[list[Shown], float | None]:
    """Lines of all streams, and up to which time they are complete if one had more than fits.

    With a tail all of it is read at once: it is bounded by its number of lines.
    """
    limit = max(BATCH // max(len(sources), 1), MAX_LINE)
    if query.tail is not None:
        limit = max(limit, min(query.tail, MAX_TAIL) * MAX_LINE)
    shown: list[Shown] = []
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
) -> list[Shown]:
    events = session.execute(
        select(Event).where(Event.job_id == job.id, Event.id > after).order_by(Event.id)
    ).scalars()
    streams = {
        key: stream_of(data, job.id, job.attempt, process.group_index, process.process_index)
        for key, (process, _) in processes.items()
    }
    outcome = Outcome(job.outcome) if job.outcome else None
    story = Story(job.id, outcome, job.reason, processes, streams)
    culprit = _culprit(session, job)
    told = [(at, text, event.id) for event in events for at, text in tell(event, story, culprit)]
    return _in_order(told, "head", HEAD)


def _in_order(lines: list[tuple[float, str, int]], source: str, key: int) -> list[Shown]:
    """Lines of one source; none older than the one before it, or a clock set back would shuffle them."""
    latest = 0.0
    shown = []
    for at, text, end in lines:
        latest = max(latest, at)
        shown.append(Shown(latest, source, text, key, end))
    return shown


def _culprit(session: Session, job: Job) -> int | None:
    return session.execute(
        select(Event.process_id).where(Event.job_id == job.id, Event.event == JobEvent.FAILED)
    ).scalar()
