"""What users and groups have of what their limits allow, and which waiting jobs are over one."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from sqlalchemy import Select, case, func, select
from sqlalchemy.orm import Session

from pit_grammar import Request
from pit_protocol.durations import DAY_S, HOUR_S, parse_duration
from pit_protocol.states import JobState
from pit_server.db.database import AnyRow
from pit_server.db.models import Allocation, Attempt, Job, Process
from pit_server.scheduler.kinds import PORT
from pit_server.scheduler.limits import Left, Limits
from pit_server.scheduler.reason import Reason
from pit_server.services.scheduling.holds import Hold
from pit_server.services.users.limits import (
    GPU_HOURS,
    GPUS,
    JOB_GPUS,
    RUNNING,
    TIME,
    WAITING,
    Account,
    Accounts,
    texts,
)

WEEK_S = 7 * DAY_S
LOOK_AGAIN_S = 600.0  # at a job that waits until past use is older than a week
PLACED = (JobState.STARTING, JobState.RUNNING, JobState.STOPPING)


class Used(NamedTuple):
    """What users have, by their ids."""

    jobs: Mapping[int, int]  # that run
    gpus: Mapping[int, int]
    gpu_s: Mapping[int, float]  # of the last week, and what running jobs may still use by their time limits

    def left(self, account: Account) -> Left:
        users = account.users
        return Left(
            account.most(RUNNING) - sum(self.jobs.get(user, 0) for user in users),
            account.most(GPUS) - sum(self.gpus.get(user, 0) for user in users),
            account.most(GPU_HOURS) * HOUR_S - sum(self.gpu_s.get(user, 0.0) for user in users),
        )


def count_gpus(request: Request) -> int:
    """The GPUs that a request needs to start."""
    return sum(group.count.low * need.low for group in request.groups for need in group.gpus)


def read_used(session: Session, accounts: Collection[Account], *, now: float) -> Used:
    """What the users of these accounts have."""
    users = {user for account in accounts for user in account.users}
    jobs = select(Job.user_id, func.count()).where(Job.state.in_(PLACED), Job.user_id.in_(users))
    jobs = jobs.where(Job.array_size.is_(None))  # of an array, its elements count
    gpus = _of_units(select(Job.user_id, func.count())).where(Allocation.released_at.is_(None))
    timed = {user for account in accounts if account.most(GPU_HOURS) < inf for user in account.users}
    return Used(
        dict(session.execute(jobs.group_by(Job.user_id)).all()),
        dict(session.execute(gpus.where(Job.user_id.in_(users)).group_by(Job.user_id)).all()),
        _week(session, timed, now) if timed else {},
    )


def find(
    session: Session,
    accounts: Accounts,
    rows: Sequence[AnyRow],
    parse: Callable[[str], Request],
    *,
    now: float,
) -> tuple[dict[int, Hold], Limits]:
    """The waiting jobs that are over a limit, and what the others may start together."""
    mine = {user: _limited(accounts.of_user(user)) for user in {row.user_id for row in rows}}
    known = {str(account): account for found in mine.values() for account in found}
    if not known:
        return {}, Limits()
    used = read_used(session, known.values(), now=now)
    left = {name: used.left(account) for name, account in known.items()}
    names = {user: tuple(map(str, found)) for user, found in mine.items() if found}
    gpus_of = {text: count_gpus(parse(text)) for text in {row.request for row in rows}}
    held, charged, limit_s = {}, {}, {}
    for row in rows:
        if row.user_id not in names:
            continue
        gpus, time = gpus_of[row.request], row.options.get("time")
        limit_s[row.id] = parse_duration(time) if time else 0.0
        charged[row.id] = names[row.user_id]
        for account, name in zip(mine[row.user_id], names[row.user_id], strict=True):
            if reason := _why_over(account, left[name], gpus, gpus * limit_s[row.id]):
                until = now + LOOK_AGAIN_S if account.most(GPU_HOURS) < inf else None
                held[row.id] = Hold(Reason(reason), until)
                break
    return held, Limits(left, charged, limit_s)


def describe(session: Session, accounts: Sequence[Account], *, now: float) -> list[str]:
    """The limits of accounts, with what is used of them."""
    used = read_used(session, accounts, now=now)
    lines = []
    for account in accounts:
        left = used.left(account)
        parts = [
            f"{most - rest:g} of {most:g} {what}"
            for most, rest, what in (
                (account.most(RUNNING), left.jobs, "running jobs"),
                (account.most(GPUS), left.gpus, "GPUs at once"),
                (account.most(GPU_HOURS), round(left.gpu_s / HOUR_S, 1), "GPU-hours a week"),
            )
            if most < inf
        ]
        parts += [
            f"{words} {texts(account.limits)[name]}"
            for name, words in (
                (JOB_GPUS, "GPUs in a job"),
                (TIME, "time of a job"),
                (WAITING, "waiting jobs"),
            )
            if account.most(name) < inf and (name != WAITING or name in account.own)
        ]
        if parts:
            lines.append(f"{account}: {', '.join(parts)}")
    return lines


def _limited(accounts: Sequence[Account]) -> list[Account]:
    names = (RUNNING, GPUS, JOB_GPUS, GPU_HOURS)
    return [account for account in accounts if any(account.most(name) < inf for name in names)]


def _why_over(account: Account, left: Left, gpus: int, gpu_s: float) -> str:
    """Why the account may not start a job now; empty if it may."""
    if gpus > account.most(JOB_GPUS):
        has = f"{account.most(JOB_GPUS):g} GPUs in a job ({JOB_GPUS}), and it needs {gpus}"
        return f"{account} may use {has}; {account.hint(JOB_GPUS)}"
    if left.allows(gpus, gpu_s):
        return ""
    if left.jobs < 1:
        most = account.most(RUNNING)
        after = "it starts when that has ended" if most == 1 else "it starts when one of them has ended"
        return f"{account} may run {most:g} job{'s' * (most != 1)} at once ({RUNNING}); {after}"
    if gpus > left.gpus:
        most = account.most(GPUS)
        has = f"has {most - left.gpus:g}, and it needs {gpus}"
        after = "it starts when others have ended" if gpus <= most else account.hint(GPUS)
        return f"{account} may use {most:g} GPUs at once ({GPUS}) and {has}; {after}"
    most = account.most(GPU_HOURS)
    has = f"of the last 7 days {most - left.gpu_s / HOUR_S:.1f} are used or planned"
    needs = f", and it may use {gpu_s / HOUR_S:.1f}" if gpu_s else ""
    may = f"{account} may use {most:g} GPU-hours a week ({GPU_HOURS})"
    return f"{may}, and {has}{needs}; it starts when these are older"


def _of_units(query: Select[*tuple[Any, ...]]) -> Select[*tuple[Any, ...]]:
    """Add the GPUs that processes have or had."""
    return (
        query.select_from(Allocation)
        .join(Process, Process.id == Allocation.process_id)
        .join(Attempt, Attempt.id == Process.attempt_id)
        .join(Job, Job.id == Process.job_id)
        .where(Allocation.unit.is_not(None), Allocation.kind != PORT)
    )


def _week(session: Session, users: Collection[int], now: float) -> dict[int, float]:
    """GPU-seconds of the last week by user; a running job with a time limit counts with all of that."""
    since, found = now - WEEK_S, defaultdict[int, float](float)
    begin = case((Attempt.created_at > since, Attempt.created_at), else_=since)
    past = _of_units(select(Job.user_id, func.sum(Allocation.released_at - begin)))
    past = past.where(Allocation.released_at > since, Job.user_id.in_(users))
    for user, gpu_s in session.execute(past.group_by(Job.user_id)):
        found[user] += gpu_s
    live = _of_units(
        select(Job.user_id, Attempt.created_at, Job.options["time"].as_string().label("time"), func.count())
    )
    live = live.where(Allocation.released_at.is_(None), Job.user_id.in_(users))
    columns = (Job.id, Job.user_id, Attempt.created_at, Job.options["time"].as_string())
    for user, created_at, time, gpus in session.execute(live.group_by(*columns)):
        found[user] += gpus * max(now - max(created_at, since), parse_duration(time) if time else 0.0)
    return found
