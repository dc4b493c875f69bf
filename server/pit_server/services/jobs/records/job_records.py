"""Jobs as the API shows them; many are loaded as columns, not as objects."""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import asdict
from sqlalchemy import ColumnElement, Select, bindparam, func, select
from sqlalchemy.orm import Session

from pit_protocol.answers.jobs import (
    ArrayProgress,
    JobEvent,
    JobList,
    JobProcess,
    JobRecord,
    JobSnapshot,
    JobSummary,
    Status,
    StoredOptions,
    Totals,
)
from pit_protocol.arrays.numbers import array_of
from pit_protocol.job_options import SEARCHABLE
from pit_protocol.problem import Problem
from pit_protocol.states import JobState, Outcome, letters
from pit_protocol.wire import from_json
from pit_server.db.database import AnyRow
from pit_server.db.memo import remembered
from pit_server.db.models import Allocation, Attempt, Event, Group, Job, JobGroup, Node, Process, User
from pit_server.scheduler.kinds import CPU, MEMORY, PORT
from pit_server.services.incarnation import takeover
from pit_server.services.jobs import time_limits
from pit_server.services.jobs.arrays import progress
from pit_server.services.jobs.arrays.elements import elements_of
from pit_server.services.jobs.records import delays, listing_columns, usage
from pit_server.services.jobs.records.delays import Delay, DelayFacts
from pit_server.services.jobs.records.listing_columns import run_times
from pit_server.services.jobs.records.usage import Means
from pit_server.services.nodes import cordon
from pit_server.services.snapshots import origins
from pit_server.services.users import accounts
from pit_server.services.users.access import visible
from pit_server.services.users.tokens import Caller
from pit_server.services.validation import parse_number
from pit_server.store.data_root import DataRoot

LIVE = (JobState.STARTING, JobState.RUNNING, JobState.STOPPING)
QUEUED = (JobState.PREPARING, JobState.WAITING)
ORDERS = {"date": Job.created_at, "title": Job.title, "user": User.name, "state": Job.state}
MAX_ROWS = 1_000
NO_ESCAPE = "\x01"

_SUMMARY = (
    Job.id,
    Job.title,
    Job.request,
    Job.state,
    Job.outcome,
    Job.reason,
    Job.created_at,
    Job.since,
    Job.array_size,
    Job.array_index,
    User.name.label("user"),
)
# Of one job. Made once: to make a statement costs as much as to execute it.
_USERS = select(User.id, User.name)
_PROCESSES = (
    select(Process, Node.name, Attempt.number)
    .join(Node, Node.id == Process.node_id)
    .join(Attempt, Attempt.id == Process.attempt_id)
    .where(Process.job_id == bindparam("number"))
)
_EVENTS = (
    select(Event.at, Event.event, Event.from_state, Event.to_state, Event.actor)
    .add_columns(Event.reason, Event.process_id)
    .where(Event.job_id == bindparam("number"))
    .order_by(Event.id)
)
_GROUPS = (
    select(Group.name)
    .join(JobGroup, JobGroup.group_id == Group.id)
    .where(JobGroup.job_id == bindparam("number"))
    .order_by(Group.name)
)
_SHARES = (
    select(Allocation.process_id, Allocation.kind, Allocation.unit, Allocation.amount)
    .join(Process, Process.id == Allocation.process_id)
    .where(Process.job_id == bindparam("number"), Allocation.kind != PORT)
    .order_by(Allocation.id)
)


def status(
    session: Session,
    caller: Caller,
    facts: DelayFacts,
    revision: int,
    *,
    limit: int,
    most_running: int | None = None,
    mine_only: bool = False,
) -> Status:
    """What `pit status` shows; all running jobs unless `most_running` limits them."""
    mine = visible(caller) & (Job.user_id == caller.user_id) if mine_only else visible(caller)
    totals = dict.fromkeys(JobState, 0)
    for state, count in session.execute(select(Job.state, func.count()).where(mine).group_by(Job.state)):
        totals[JobState(state)] = count
    query = select(*_SUMMARY).join(User, User.id == Job.user_id).where(mine)
    now = time.time()
    running = session.execute(query.where(Job.state.in_(LIVE)).order_by(Job.id).limit(most_running)).all()
    waiting = session.execute(query.where(Job.state.in_(QUEUED)).order_by(Job.id).limit(limit)).all()
    done = session.execute(
        query.where(Job.state == JobState.ENDED).order_by(Job.since.desc()).limit(limit)
    ).all()
    used = usage.means(session, [row.id for row in done])
    used |= usage.means(session, [row.id for row in running], since=now - usage.RECENT_S)
    why = delays.find_all(session, caller, [*running, *waiting], facts)
    arrays = _progress(session, [*running, *waiting, *done])
    unapproved, total = accounts.list_unapproved(session, limit) if caller.is_admin else ([], 0)
    return Status(
        revision=revision,
        running=[_summary(row, why, used, arrays) for row in running],
        waiting=[_summary(row, why, used, arrays) for row in waiting],
        done=[_summary(row, why, used, arrays) for row in done],
        totals=Totals(
            running=sum(totals[state] for state in LIVE),
            waiting=sum(totals[state] for state in QUEUED),
            done=totals[JobState.ENDED],
            unapproved=total,
        ),
        unapproved=unapproved,
        notices=[*takeover.list_notices(session, now), *cordon.list_notices(session)]
        if caller.is_admin
        else [],
    )


def listing(
    session: Session,
    caller: Caller,
    filters: Mapping[str, str],
    facts: DelayFacts,
    data: DataRoot,
) -> JobList:
    """Jobs by filter, order and page."""
    query = select(*_SUMMARY).join(User, User.id == Job.user_id).where(visible(caller))
    # `me` cannot be the name of a user.
    named = {**filters, "user": caller.name} if filters.get("user") == "me" else filters
    query = _filtered(query, named)
    total = session.execute(select(func.count()).select_from(query.subquery())).scalar_one()
    limit = min(_number(filters, "limit", 20), MAX_ROWS)
    page = query.order_by(*_ordering(filters)).limit(limit).offset(_number(filters, "offset", 0))
    columns = listing_columns.parse(filters.get("columns", ""))
    rows = session.execute(page.add_columns(Job.attempt, *columns.selected())).all()
    numbers = [row.id for row in rows]
    used, ran = usage.means(session, numbers), run_times(session, numbers, now=time.time())
    why = delays.find_all(session, caller, rows, facts)
    arrays = _progress(session, rows)
    summaries = [_summary(row, why, used, arrays) for row in rows]
    return JobList(
        [columns.row(summaries[i], row, ran.get(row.id), data) for i, row in enumerate(rows)], total
    )


def record(session: Session, caller: Caller, job: Job, result: str | None, facts: DelayFacts) -> JobRecord:
    """One job with everything that is known of it."""
    summary, delay = summarize(session, caller, job, facts)
    has_begun = job.state not in QUEUED or job.attempt > 1
    processes = session.execute(_PROCESSES, {"number": job.id}).all() if has_begun else []
    names = {row.Process.id: f"{row.Process.group_index}.{row.Process.process_index}" for row in processes}
    shares = _shares(session, job.id) if processes else defaultdict[int, list[str]](list)
    events = session.execute(_EVENTS, {"number": job.id})
    return JobRecord(
        **asdict(summary),
        keep=job.is_kept,
        exec="group" if job.is_open_to_groups else "owner",
        options=from_json(StoredOptions, job.options),
        attempt=job.attempt,
        groups=_group_names(session, job.id),
        snapshot=_snapshot(job),
        reruns=job.reruns,
        variables=sorted(job.variables),
        result=result,
        events=[_event(event, names) for event in events],
        processes=[
            _process(row.Process, row.number, row.name, shares[row.Process.id])
            for row in sorted(processes, key=lambda row: (row.number, row.Process.rank))
        ],
        ends_at=time_limits.ends_at(job),
        delay=delay.mark if delay else "",
        failed=progress.list_failed(session, job.id) if job.array_size else [],
        sweep={} if job.array_index is None else elements_of(job.options).values(job.array_index),
    )


def summarize(
    session: Session, caller: Caller, job: Job, facts: DelayFacts
) -> tuple[JobSummary, Delay | None]:
    """One job as a row of a list, and what delays it."""
    users = remembered(session, "names of users", (User,), lambda reader: dict(reader.execute(_USERS).all()))
    user = users[job.user_id]
    why = delays.find_all(session, caller, [job], facts)
    used = usage.means(session, [] if job.state in QUEUED else [job.id])
    return _summary(job, why, used, _progress(session, [job]), user), why.get(job.id)


def _snapshot(job: Job) -> JobSnapshot:
    return JobSnapshot(
        **asdict(origins.snapshot_of(job)),
        dirty=None if job.commit_hash is None else job.committed_hash != job.tree_hash,
        diff_files=job.diff_files,
        diff_added=job.diff_added,
        diff_removed=job.diff_removed,
    )


def _group_names(session: Session, number: int) -> list[str]:
    """The groups that a job is shared with."""
    return list(session.execute(_GROUPS, {"number": number}).scalars())


def _progress(session: Session, rows: Iterable[AnyRow | Job]) -> dict[int, ArrayProgress]:
    """How far those of the jobs have come that are arrays."""
    arrays = {row.id: row for row in rows if row.array_size is not None}
    counts = progress.count(session, arrays)
    return {
        number: progress.show(counts[number], row.array_size or 0, row.state)
        for number, row in arrays.items()
    }


def _summary(
    row: AnyRow | Job,
    why: Mapping[int, Delay],
    used: Mapping[int, Means],
    arrays: Mapping[int, ArrayProgress],
    user: str = "",
) -> JobSummary:
    delay = why.get(row.id)
    state, outcome = JobState(row.state), Outcome(row.outcome) if row.outcome else None
    return JobSummary(
        number=array_of(row.id),
        index=row.array_index,
        elements=arrays.get(row.id),
        title=row.title,
        user=user if isinstance(row, Job) else row.user,
        request=row.request,
        state=state,
        outcome=outcome,
        letters=letters(state, outcome),
        reason="; ".join(filter(None, (row.reason, delay.text if delay else ""))),
        created_at=row.created_at,
        since=row.since,
        starts=delay.starts if delay else None,
        **used.get(row.id, Means())._asdict(),
    )


def _process(process: Process, attempt: int, node: str, resources: list[str]) -> JobProcess:
    return JobProcess(
        attempt=attempt,
        group=process.group_index,
        index=process.process_index,
        rank=process.rank,
        node=node,
        host=process.host,
        state=process.state,
        exit_code=process.exit_code,
        signal=process.signal,
        killed_by=process.killed_by,
        oom=process.oom,
        image=process.image or None,
        reason=process.reason,
        started_at=process.started_at,
        ended_at=process.ended_at,
        resources=resources,
    )


def _event(event: AnyRow, names: Mapping[int, str]) -> JobEvent:
    return JobEvent(
        at=event.at,
        event=event.event,
        from_state=event.from_state,
        to_state=event.to_state,
        actor=event.actor,
        reason=event.reason,
        process=names.get(event.process_id) if event.process_id else None,
    )


def _shares(session: Session, number: int) -> defaultdict[int, list[str]]:
    shares: defaultdict[int, list[str]] = defaultdict(list)
    for row in session.execute(_SHARES, {"number": number}):
        shares[row.process_id].append(_share(row.kind, row.unit, row.amount))
    return shares


def _share(kind: str, unit: str, amount: int) -> str:
    if kind == CPU:
        return "1 core" if amount == 1000 else f"{amount / 1000:g} cores"
    return f"{amount / 1024:g} GiB" if kind == MEMORY else f"{kind} {unit}"


def _filtered(query: Select[*tuple[Any, ...]], filters: Mapping[str, str]) -> Select[*tuple[Any, ...]]:
    known = {"node", "user", "state", "outcome", "title", *SEARCHABLE}
    known |= {"since", "till", "asc", "desc", "limit", "offset", "columns"}
    if unknown := sorted(set(filters) - known):
        raise Problem(
            "unknown_filter",
            f"there is no filter {unknown[0]!r}",
            f"known are: {', '.join(sorted(known))}",
            status=422,
        )
    for name, column in (("user", User.name), ("state", Job.state), ("outcome", Job.outcome)):
        if name in filters:
            query = query.where(column == filters[name])
    if "node" in filters:
        there = select(Process.job_id).join(Node, Node.id == Process.node_id)
        query = query.where(Job.id.in_(there.where(Node.name == filters["node"])))
    for name in ("title", *SEARCHABLE):
        if name in filters:
            # The same on all databases: case does not matter, and only % and _ are special.
            pattern = filters[name].replace(NO_ESCAPE, "").lower()
            column = Job.title if name == "title" else Job.options[name].as_string()
            query = query.where(func.lower(column).like(pattern, escape=NO_ESCAPE))
    if "since" in filters:
        query = query.where(Job.created_at >= _number(filters, "since", 0))
    if "till" in filters:
        query = query.where(Job.created_at < _number(filters, "till", 0))
    return query


def _ordering(filters: Mapping[str, str]) -> Sequence[ColumnElement[Any]]:
    name = filters.get("asc") or filters.get("desc") or "date"
    if name not in ORDERS:
        raise Problem(
            "unknown_order", f"jobs have no order {name!r}", f"known are: {', '.join(ORDERS)}", status=422
        )
    column = ORDERS[name]
    return (column.asc(), Job.id.asc()) if "asc" in filters else (column.desc(), Job.id.desc())


def _number(filters: Mapping[str, str], name: str, default: int) -> int:
    return int(parse_number(name, filters[name])) if name in filters else default
