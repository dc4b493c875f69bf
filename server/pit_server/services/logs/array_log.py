"""The log of an array: the logs of its elements, merged as they begin and end.

There may be many thousands of them, so a reader's position names only the streams that it has not read to
their end. It follows the events of the array: a stream is opened when its process is assigned.
"""

from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from pit_protocol.answers.jobs import LogBatch
from pit_protocol.arrays.numbers import MAX_INDEX, element_number, index_of, is_element, job_name
from pit_protocol.problem import Problem
from pit_protocol.states import JobEvent, JobState, Outcome, ProcessEvent, ProcessState
from pit_server.db.models import IS_LIVE, Attempt, Event, Job, Process
from pit_server.services.jobs.arrays.elements import elements_of
from pit_server.services.jobs.records.delays import Delay
from pit_server.services.logs.cursor import Cursor
from pit_server.services.logs.event_text import JobFacts, render_event
from pit_server.services.logs.log_merge import (
    HEAD,
    PREPARE,
    Merged,
    MergedLine,
    Query,
    Source,
    answer,
    in_order,
    merge,
    start,
)
from pit_server.store.data_root import DataRoot
from pit_server.store.log_stream import preparation_log, process_log

MOST_EVENTS = 1_000  # that one answer deals with
MOST_ENDED = 200  # streams that a tail looks at, besides those of running processes


def read(session: Session, job: Job, data: DataRoot, query: Query, delay: Delay | None = None) -> LogBatch:
    """The next batch of lines after the query's cursor."""
    if query.process:
        raise needs_element(job)
    if query.cursor or query.tail is None:
        place = start({}, query)
        events = _list_events(session, job, place.event_id)
        begun = {event.process_id for event in events if event.event == ProcessEvent.ASSIGNED}
        processes = {key for key in begun | set(place.offsets) if key is not None}
        sources = _list_sources(session, job, data, processes)
    else:
        events = []
        sources = _list_sources(session, job, data, _list_latest(session, job))
        place = Cursor(_last_event(session, job), start(sources, query).offsets)
    merged = merge(sources, [], place, query)
    lines = _render(session, job, events)
    merged = merged._replace(
        lines=sorted([*lines, *merged.lines], key=lambda line: line.at),
        offsets=_left(sources, merged),
        is_complete=merged.is_complete and len(events) < MOST_EVENTS,
    )
    return answer(job, merged, events[-1].id if events else place.event_id, query, delay)


def needs_element(job: Job) -> Problem:
    """For what makes sense for one element only."""
    first = f"{job.id}.{elements_of(job.options).indices[0]}"
    return Problem(
        "is_array", f"job {job.id} is an array", f"name one of its elements, such as {first}", status=422
    )


def _is_of(job: Job) -> ColumnElement[bool]:
    """Events of the array and its elements; the sum keeps databases from using the wrong index."""
    number = Event.job_id + 0
    return or_(number == job.id, number.between(element_number(job.id, 0), element_number(job.id, MAX_INDEX)))


def _list_events(session: Session, job: Job, after: int) -> Sequence[Event]:
    # Events have rising ids, because whoever writes them has locked the array.
    first, last = session.execute(
        select(func.min(Event.id), func.max(Event.id)).where(Event.job_id == job.id)
    ).one()
    query = select(Event).where(Event.id > max(after, (first or 0) - 1), _is_of(job))
    if job.state == JobState.ENDED:
        query = query.where(Event.id <= last)
    return session.execute(query.order_by(Event.id).limit(MOST_EVENTS)).scalars().all()


def _last_event(session: Session, job: Job) -> int:
    """The newest event that there is; those of other jobs do no harm."""
    if job.state != JobState.ENDED:
        return session.execute(select(func.max(Event.id))).scalar() or 0
    return session.execute(select(func.max(Event.id)).where(Event.job_id == job.id)).scalar() or 0


def _list_latest(session: Session, job: Job) -> set[int]:
    """The processes that run, and those that ended last."""
    mine = select(Process.id).join(Job, Job.id == Process.job_id).where(Job.array_job == job.id)
    ended = mine.where(Process.state == ProcessState.ENDED).order_by(Process.ended_at.desc())
    live = session.execute(mine.where(IS_LIVE)).scalars()
    return {*live, *session.execute(ended.limit(MOST_ENDED)).scalars()}


def _list_sources(
    session: Session, job: Job, data: DataRoot, processes: Collection[int]
) -> dict[int, Source]:
    rows = session.execute(
        select(Process.id, Process.job_id, Process.group_index, Process.process_index, Process.rank)
        .add_columns(Process.state, Attempt.number.label("attempt"))
        .join(Attempt, Attempt.id == Process.attempt_id)
        .where(Process.id.in_(processes))
        .order_by(Process.job_id, Attempt.number, Process.rank)
    )
    sources = {
        row.id: Source(
            f"{index_of(row.job_id)} worker {row.rank}",
            process_log(data, row.job_id, row.attempt, row.group_index, row.process_index),
            row.state == ProcessState.ENDED,
        )
        for row in rows
    }
    is_prepared = job.state != JobState.PREPARING
    return {PREPARE: Source("prepare", preparation_log(data, job.id), is_prepared), **sources}


def _left(sources: dict[int, Source], merged: Merged) -> dict[int, int]:
    """The streams that are to be read on: those that have not ended, or not been read to their end."""
    return {
        key: offset
        for key, offset in merged.offsets.items()
        if key == PREPARE
        or (key in sources and not (sources[key].is_final and offset >= sources[key].stream.size()))
    }


def _render(session: Session, job: Job, events: Sequence[Event]) -> list[MergedLine]:
    """The head's lines: what happened to the array, and which elements did not succeed."""
    ends = {event.job_id for event in events if is_element(event.job_id) and event.process_id is None}
    rows = session.execute(
        select(Job.id, Job.outcome, Job.reason).where(
            Job.id.in_(ends), Job.outcome != Outcome.SUCCEEDED, Job.state == JobState.ENDED
        )
    )
    unfulfilled = {row.id: row for row in rows}
    facts = JobFacts(job.id, Outcome(job.outcome) if job.outcome else None, job.reason, {}, {})
    lines = []
    for event in events:
        if not is_element(event.job_id):
            lines += [(at, text, 0, event.id) for at, text in render_event(event, facts, None)]
        elif event.event == JobEvent.BAD_RESULT:
            lines.append((event.at, event.reason, 0, event.id))
        elif event.event == JobEvent.REQUEUED:
            text = f"{job_name(event.job_id)} requeued: {event.reason}"
            lines.append((event.at, text, 0, event.id))
        elif event.process_id is None and event.to_state == JobState.ENDED and event.job_id in unfulfilled:
            row = unfulfilled[event.job_id]
            text = f"{job_name(row.id)} {row.outcome}: {row.reason}"
            lines.append((event.at, text, 0, event.id))
    return in_order(lines, "head", HEAD)
