"""Time limits of jobs: which one a new job gets, who may change it, and when a running job ends by it."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from msgspec.structs import replace
from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from pit_protocol.durations import parse_duration, render_duration
from pit_protocol.job_options import JobOptions, check_time
from pit_protocol.job_times import parse_moment, parse_signal
from pit_protocol.messages.beat import TimeLimit
from pit_protocol.problem import Problem
from pit_protocol.states import JobEvent, JobState
from pit_server.db.database import AnyRow, change_orders, note_event, notify_after_commit
from pit_server.db.models import IS_LIVE, Job, Process
from pit_server.services.jobs import lifecycle
from pit_server.services.users.limits import Account, find_accounts, longest_s
from pit_server.services.users.tokens import Caller
from pit_server.settings import Settings
from pit_server.wakeups import SCHEDULER, job_topic

CLOCK_SKEW_S = 60.0  # the clock of a client may be so much behind


def resolve(
    options: JobOptions, settings: Settings, accounts: Sequence[Account], *, now: float
) -> JobOptions:
    """Give a new job its time limit; refuse one that is too long, and a begin in the past."""
    if options.begin is not None and parse_moment(options.begin) < now - CLOCK_SKEW_S:
        raise Problem(
            "begin_in_past",
            f"--begin {options.begin} is in the past",
            "leave it out to start as soon as possible",
            status=422,
        )
    most_s, _ = longest_s(accounts)
    if options.time is None:
        least = min(settings.seconds("default_time") or inf, most_s)
        options = replace(options, time=render_duration(least) if least < inf else None)
    else:
        _check_longest(parse_duration(options.time), accounts)
    check_time(options)
    return options


def limit_s(options: Mapping[str, Any]) -> float | None:
    """The time limit of a job in seconds, by its stored options."""
    text = options.get("time")
    return parse_duration(text) if text else None


def in_order(row: AnyRow, *, now: float) -> tuple[TimeLimit | None, float | None]:
    """The time limit for the worker of a process, and for how long the job has run."""
    seconds = limit_s(row.options)
    if seconds is None:
        return None, None
    limit = TimeLimit(seconds)
    if text := row.options.get("signal"):
        warned = parse_signal(text)
        limit = replace(limit, signal=warned.signal, before_s=warned.before_s)
    return limit, max(0.0, now - row.since) if row.job_state == JobState.RUNNING else None


def ends_at(job: Job) -> float | None:
    """When a running job ends by its time limit; of an array, each element has its own time."""
    seconds = None if job.array_size is not None else limit_s(job.options)
    is_running = job.state == JobState.RUNNING and job.array_size is None  # elements run, not arrays
    return job.since + seconds if seconds is not None and is_running else None


def read_limit(name: str, text: str) -> str | None:
    """The property of a job; empty: no limit."""
    try:
        return render_duration(parse_duration(text)) if text.strip() else None
    except ValueError as error:
        raise Problem(f"bad_{name}", f"{name}: {error}", status=422) from error


def read_begin(name: str, text: str) -> None:
    """The property of a job; it can only be emptied."""
    if text.strip():
        raise Problem(f"bad_{name}", f"{name} can only be removed", "write `begin=`", status=422)


def start_now(session: Session, number: int) -> None:
    """Let a job that waits for its time take part in the next pass."""
    lifecycle.lock(session, number)
    job = session.get_one(Job, number, populate_existing=True)
    job.options = {**job.options, "begin": None}
    session.flush()
    notify_after_commit(session, SCHEDULER, job_topic(number))


def change(
    session: Session, caller: Caller, number: int, text: str | None, settings: Settings, *, now: float
) -> None:
    """Change the time limit of a job that has not ended; its nodes get it with their next orders."""
    locked = lifecycle.lock(session, number)
    job = session.get_one(Job, number, populate_existing=True)
    if locked.state in (JobState.STOPPING, JobState.ENDED):
        raise Problem(
            "already_ended",
            f"job {number} is {locked.state}: its time limit no longer matters",
            f"`pit rerun {number} --time …` runs it again",
            status=409,
        )
    old, new = limit_s(job.options) or inf, parse_duration(text) if text else inf
    has_begun = locked.state in (JobState.STARTING, JobState.RUNNING)
    if new > old and has_begun and not caller.is_admin:
        raise Problem(
            "not_allowed",
            f"job {number} has begun: you may shorten its {render_duration(old)}, not extend them",
            f"an admin can: `pit set job:{number} time={text or ''}`",
            status=403,
        )
    if new > old and not caller.is_admin:
        _check_longest(new, find_accounts(session, settings).of_user(job.user_id))
    check_time(JobOptions(time=text, signal=job.options.get("signal")))
    begun = select(Job).where(Job.array_job == number, Job.state != JobState.ENDED)
    for each in (job, *session.execute(begun).scalars()):
        each.options = {**each.options, "time": text}
    session.flush()
    note_event(
        session,
        job_id=number,
        attempt=locked.attempt,
        event=JobEvent.TIME_CHANGED,
        from_state=locked.state,
        to_state=locked.state,
        actor=caller.name,
        reason=f"from {_render(old)} to {_render(new)}",
        at=now,
    )
    mine = or_(Job.id == number, Job.array_job == number)
    live = select(Process.node_id).join(Job, Job.id == Process.job_id).where(mine, IS_LIVE).distinct()
    for node_id in session.execute(live).scalars():
        change_orders(session, node_id)
    notify_after_commit(session, SCHEDULER, job_topic(number))


def _render(seconds: float) -> str:
    return "none" if seconds == inf else render_duration(seconds)


def _check_longest(seconds: float, accounts: Sequence[Account]) -> None:
    most, by = longest_s(accounts)
    if by and seconds > most:
        what = "no time limit" if seconds == inf else f"a time limit of {render_duration(seconds)}"
        raise Problem(
            "time_too_long",
            f"{what} is more than {by} may give a job, {render_duration(most)} (max_time)",
            by.hint("max_time"),
            status=422,
        )
