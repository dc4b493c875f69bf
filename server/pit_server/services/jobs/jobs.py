"""Jobs: find, stop, remove and share them."""

import os
import stat
from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, insert, or_, select, update
from sqlalchemy.orm import Session

from pit_protocol.arrays.numbers import array_of, is_element, job_name
from pit_protocol.job_options import JobOptions
from pit_protocol.problem import Problem
from pit_protocol.states import JobState, KilledBy, Outcome
from pit_protocol.wire import MAX_NUMBER, from_json
from pit_server.db.database import notify_after_commit
from pit_server.db.models import Discard, Event, Job, JobGroup, Process, Sample
from pit_server.services.jobs import lifecycle, time_limits
from pit_server.services.jobs.arrays import elements
from pit_server.services.notifications import channels, outbox
from pit_server.services.properties import Property, read_some_text, read_yes_no
from pit_server.services.users import access, groups, permissions
from pit_server.services.users.permissions import Action
from pit_server.services.users.tokens import Caller
from pit_server.settings import Settings
from pit_server.store.data_root import DataRoot
from pit_server.wakeups import STATUS, end_topic, job_topic


def read_exec(name: str, text: str) -> bool:
    """Who may enter its processes beside its owner and admins: True for members of its groups."""
    if text not in ("owner", "group"):
        raise Problem(f"bad_{name}", f"{name} must be owner or group, not {text[:40]!r}", status=422)
    return text == "group"


PROPERTIES = (
    Property("title", read_some_text),
    Property("keep", read_yes_no),
    Property("exec", read_exec),
    Property("time", time_limits.read_limit),
    Property("begin", time_limits.read_begin),
    Property("notify", channels.read_events),
)
COLUMNS = {"title": "title", "keep": "is_kept", "exec": "is_open_to_groups"}


def find(session: Session, caller: Caller, number: int) -> Job:
    """The job, if the caller may see it; else 404, as if it did not exist.

    Who may see an array may see its elements. An element that has not begun has no row in the database.
    """
    whole = array_of(number)
    query = select(Job).where(Job.id == whole, access.visible(caller))
    job = session.execute(query).scalar_one_or_none() if whole <= MAX_NUMBER else None
    if job is None:
        raise _unknown(session, caller, whole)
    return elements.element(session, job, number) if is_element(number) else job


def find_state(session: Session, caller: Caller, number: int) -> JobState:
    """What `find` tells, for a caller who waits for one state."""
    if is_element(number):
        return JobState(find(session, caller, number).state)
    query = select(Job.state).where(Job.id == number, access.visible(caller))
    state = session.execute(query).scalar_one_or_none() if number <= MAX_NUMBER else None
    if state is None:
        raise _unknown(session, caller, number)
    return JobState(state)


def find_to_change(session: Session, caller: Caller, number: int, action: Action = Action.CHANGE_JOB) -> Job:
    """The job, if the caller may change it; else 403, or 404 if the caller cannot see it."""
    if is_element(number):
        raise Problem(
            "is_element",
            f"{job_name(number)} is part of job {array_of(number)}, which changes as a whole",
            f"write {array_of(number)}",
            status=409,
        )
    job = find(session, caller, number)
    permissions.require(action, access.relations_to_job(session, caller, job), f"job {number}")
    return job


def set_properties(
    session: Session,
    caller: Caller,
    number: int,
    values: Sequence[tuple[Property, str, Any]],
    settings: Settings,
    *,
    now: float,
) -> None:
    """Change a job, or raise a Problem if the caller may not."""
    job = find_to_change(session, caller, number)
    for _, name, value in values:
        if name == "time":
            time_limits.change(session, caller, number, value, settings, now=now)
        elif name == "begin":
            time_limits.start_now(session, number)
        elif name == "notify":
            job.notify, job.options = value, {**job.options, "notify": value or None}
        else:
            setattr(job, COLUMNS[name], value)
    session.flush()
    notify_after_commit(session, STATUS)


def remove(session: Session, caller: Caller, number: int, *, now: float) -> None:
    """Remove an ended job: from now on nobody can see it."""
    job = find_to_change(session, caller, number)
    if lifecycle.lock(session, number).state is not JobState.ENDED:
        raise Problem(
            "not_ended", f"job {number} is still {job.state}", f"`pit stop {number}` first", status=409
        )
    job.removed_at = now
    session.flush()
    notify_after_commit(session, STATUS, job_topic(number), end_topic(number))


def restore(session: Session, number: int) -> None:
    """Undo a removal: the job is as it was."""
    session.execute(update(Job).where(Job.id == number).values(removed_at=None))
    notify_after_commit(session, STATUS, job_topic(number))


def scrub(session: Session, number: int) -> None:
    """Delete for good what the database has of a removed job.

    Its row stays without content: its processes may still hold resources of a silent node.
    """
    session.execute(delete(JobGroup).where(JobGroup.job_id == number))
    outbox.forget_job(session, number)
    whole = select(Job.id).where(or_(Job.id == number, Job.array_job == number))
    session.execute(delete(Event).where(Event.job_id.in_(whole)))
    processes = select(Process.id).where(Process.job_id.in_(whole))
    session.execute(delete(Sample).where(Sample.process_id.in_(processes)))
    nothing = dict.fromkeys(("remote", "remote_name", "branch", "commit_hash", "committed_hash", "base_hash"))
    session.execute(
        update(Job)
        .where(or_(Job.id == number, Job.array_job == number))
        .values(title="", reason="", options={}, variables={}, results=None, store_id=None, **nothing)
    )


def share(session: Session, caller: Caller, number: int, group_name: str) -> bool:
    """Share a job with one of the caller's groups; False if it is shared with it already."""
    job = find_to_change(session, caller, number, Action.SHARE_JOB)
    group = groups.find(session, group_name)
    if (
        not caller.is_admin
        and group_name not in groups.names_by_user(session, caller.user_id)[caller.user_id or 0]
    ):
        raise Problem(
            "not_allowed",
            f"you are not a member of {group_name}",
            "`pit show me` lists your groups",
            status=403,
        )
    if session.get(JobGroup, {"job_id": job.id, "group_id": group.id}):
        return False
    session.execute(insert(JobGroup).values(job_id=job.id, group_id=group.id))
    notify_after_commit(session, STATUS)
    return True


def unshare(session: Session, caller: Caller, number: int, group_name: str) -> None:
    job = find_to_change(session, caller, number, Action.SHARE_JOB)
    group = groups.find(session, group_name)
    row = session.get(JobGroup, {"job_id": job.id, "group_id": group.id})
    if row is None:
        raise Problem(
            "not_shared", f"job {number} is not shared with {group_name}", f"`pit show {number}`", status=404
        )
    session.delete(row)
    session.flush()
    notify_after_commit(session, STATUS, job_topic(number))


def stop(session: Session, caller: Caller, number: int, *, now: float) -> None:
    """Stop a job for a user. A second call changes nothing; an ended job is a Problem."""
    find_to_change(session, caller, array_of(number))
    find(session, caller, number)
    if is_element(number) and _stop_unstarted(session, caller, number, now=now):
        return
    job = lifecycle.lock(session, number)
    if job.state is JobState.STOPPING:
        return
    try:
        lifecycle.stop(
            session,
            job,
            by=KilledBy.USER,
            outcome=Outcome.STOPPED,
            reason=f"by {caller.name}",
            now=now,
            actor=caller.name,
        )
    except lifecycle.IllegalMove as error:
        raise Problem(
            "already_ended",
            f"job {job_name(number)} has ended already",
            f"`pit show {job_name(number)}` says how",
            status=409,
        ) from error


def _stop_unstarted(session: Session, caller: Caller, number: int, *, now: float) -> bool:
    """Stop an element that has not begun; False if it has, or if its array starts no more."""
    array = lifecycle.lock(session, array_of(number))
    new = elements.NewElements(session, [number])
    if not new.is_new(number):
        return False
    if array.state not in elements.OPEN:
        raise Problem(
            "not_started",
            f"{job_name(number)} has not begun, because job {array.number} is {array.state}",
            f"`pit stop {array.number}` stops all of it",
            status=409,
        )
    reason = f"by {caller.name}"
    new.end(number, Outcome.STOPPED, now=now, reason=reason, actor=caller.name)
    new.finish()
    lifecycle.settle_array(session, lifecycle.lock(session, array.number), now=now)
    return True


def options_of(job: Job) -> JobOptions:
    return from_json(JobOptions, job.options)


def result_text(data: DataRoot, number: int, attempt: int, limit: int = 4096) -> str | None:
    """The content of `$RESULT_FILE`. Does not follow a symlink, which the job may have planted."""
    path = data.attempt(number, attempt) / "result"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return os.read(descriptor, limit).decode(errors="replace").strip() or None
    finally:
        os.close(descriptor)


def _unknown(session: Session, caller: Caller, number: int) -> Problem:
    """Tell those who may bring a removed job back where it is; for others it does not exist."""
    if number <= MAX_NUMBER and _is_in_trash(session, caller, number):
        hint = f"`pit restore job:{number}` brings it back, `pit show trash` says until when"
        return Problem("no_such_job", f"job {number} is in the trash", hint, status=404)
    return Problem("no_such_job", f"there is no job {number}", "`pit status` lists jobs", status=404)


def _is_in_trash(session: Session, caller: Caller, number: int) -> bool:
    entry = (Discard.domain == f"job:{number}") & (Discard.kind == "job") & Discard.is_purged.is_(False)
    job = session.get(Job, number)
    if job is None or session.execute(select(Discard.id).where(entry).limit(1)).first() is None:
        return False
    return permissions.allows(Action.CHANGE_JOB, access.relations_to_job(session, caller, job))
