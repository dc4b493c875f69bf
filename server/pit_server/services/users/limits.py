"""Limits of what users and groups may have: properties of both, with defaults for users in the settings.

What a user has counts for the user, and for the group that is charged for them (`share_group`), or if there
is none for all of their groups.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from pit_protocol.durations import HOUR_S, parse_duration, render_duration
from pit_protocol.problem import Problem
from pit_protocol.states import JobState
from pit_server.db.memo import remembered
from pit_server.db.models import Group, Job, Membership, User
from pit_server.services.properties import Property, read_count
from pit_server.services.users.permissions import Action
from pit_server.settings import Settings

RUNNING, WAITING, GPUS, JOB_GPUS, TIME, GPU_HOURS = NAMES = (
    "max_running",
    "max_waiting",
    "max_gpus",
    "max_job_gpus",
    "max_time",
    "max_gpu_hours",
)
NONE = "none"  # no limit, whatever the default is; stored as 0
HINT = "an admin can change it: `pit set {} {}=…`"


class Account(NamedTuple):
    """A user or group that has limits."""

    kind: str
    name: str
    limits: Mapping[str, float]
    users: Sequence[int]  # whose jobs count for it
    own: Mapping[str, float]  # limits that are no defaults

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    def most(self, limit: str) -> float:
        return self.limits.get(limit) or inf

    def hint(self, limit: str) -> str:
        return HINT.format(f"{self.kind}:{self.name}", limit)


def _read(name: str, text: str) -> float | None:
    """A limit; empty: the default."""
    text = text.strip()
    if text == NONE:
        return 0
    if not text:
        return None
    if name != TIME:
        return read_count(name, text)
    try:
        return parse_duration(text)
    except ValueError as error:
        raise Problem(f"bad_{name}", f"{name}: {error}", status=422) from error


USER_PROPERTIES = tuple(Property(name, _read, Action.GOVERN_ACCOUNT) for name in NAMES)
GROUP_PROPERTIES = tuple(Property(name, _read) for name in NAMES)


def put(row: User | Group, name: str, value: float | None) -> None:
    """Set one limit of a user or group."""
    others = {key: known for key, known in row.limits.items() if key != name}
    row.limits = others if value is None else {**others, name: value}


def texts(limits: Mapping[str, Any]) -> dict[str, str]:
    """The limits that were set, as they are written; empty: the default."""
    return {name: "" if name not in limits else _text(name, limits[name]) for name in NAMES}


def _text(name: str, most: float) -> str:
    if not most:
        return NONE
    return render_duration(most) if name == TIME else f"{most:g}"


def _defaults(settings: Settings) -> dict[str, float]:
    return {
        RUNNING: settings.user_running_jobs,
        WAITING: settings.user_waiting_jobs,
        GPUS: settings.user_gpus,
        JOB_GPUS: settings.user_job_gpus,
        TIME: settings.seconds("max_time") or 0,
        GPU_HOURS: settings.user_gpu_hours,
    }


def find_accounts(session: Session, settings: Settings) -> "Accounts":
    """The users and groups at this moment."""
    tables = (User, Group, Membership)
    return remembered(session, ("accounts", settings), tables, lambda reader: Accounts(reader, settings))


class Accounts:
    """All users and groups with limits at one moment."""

    def __init__(self, session: Session, settings: Settings) -> None:
        defaults = _defaults(settings)
        query = select(User.id, User.name, User.limits, User.share_group_id).where(User.removed_at.is_(None))
        users = session.execute(query).all()
        self._users = {
            row.id: Account("user", row.name, defaults | row.limits, (row.id,), row.limits)
            for row in users
            if row.limits or any(defaults.values())
        }
        limited = {
            row.id: row for row in session.execute(select(Group.id, Group.name, Group.limits)) if row.limits
        }
        charged: defaultdict[int, list[int]] = defaultdict(list)
        if limited:
            has_own = {row.id: row.share_group_id for row in users if row.share_group_id is not None}
            for user_id, group_id in has_own.items():
                charged[group_id].append(user_id)
            query = select(Membership.user_id, Membership.group_id).where(Membership.group_id.in_(limited))
            for user_id, group_id in session.execute(query):
                if user_id not in has_own:
                    charged[group_id].append(user_id)
        self._groups: defaultdict[int, list[Account]] = defaultdict(list)
        self._by_group = {
            group_id: Account("group", row.name, row.limits, tuple(charged[group_id]), row.limits)
            for group_id, row in limited.items()
        }
        for account in self._by_group.values():
            for user_id in account.users:
                self._groups[user_id].append(account)

    def of_user(self, user_id: int) -> list[Account]:
        """The accounts that the user's jobs count for."""
        own = self._users.get(user_id)
        return [*([own] if own else []), *self._groups.get(user_id, ())]

    def of_group(self, group_id: int) -> list[Account]:
        found = self._by_group.get(group_id)
        return [found] if found else []


def longest_s(accounts: Sequence[Account]) -> tuple[float, Account | None]:
    """The longest time limit that a job may have, and who says so."""
    by = min(accounts, key=lambda account: account.most(TIME), default=None)
    return (by.most(TIME), by) if by and by.most(TIME) < inf else (inf, None)


def check_job(accounts: Sequence[Account], gpus: int, time_s: float | None) -> None:
    """Refuse a job that could never run under the limits."""
    hours = gpus * (time_s or 0.0) / HOUR_S
    for account in accounts:
        for limit, needed, what in (
            (JOB_GPUS, gpus, "{:g} GPUs in a job, and this one needs {:g}"),
            (GPUS, gpus, "{:g} GPUs at once, and this job needs {:g}"),
            (GPU_HOURS, hours, "{:g} GPU-hours a week, and this job may use {:g}"),
        ):
            if needed > account.most(limit):
                raise Problem(
                    "over_limit",
                    f"{account} may have {what.format(account.most(limit), needed)} ({limit})",
                    account.hint(limit),
                    status=422,
                )


def check_waiting(session: Session, accounts: Sequence[Account]) -> None:
    """Refuse a job of a user who has too many that have not started."""
    for account in accounts:
        most = account.most(WAITING)
        if most == inf:
            continue
        waiting = select(Job.id).where(
            Job.user_id.in_(account.users),
            Job.state.in_((JobState.PREPARING, JobState.WAITING)),
            Job.array_job.is_(None),  # an array counts once
        )
        bounded = select(func.count()).select_from(waiting.limit(int(most)).subquery())
        found = session.execute(bounded).scalar_one()
        if found >= most:
            raise Problem(
                "too_many_jobs",
                f"{account} has {found:,} waiting job{'s' * (found != 1)}, "
                f"and may have {int(most):,} ({WAITING})",
                "submit again when some have started, or `pit stop` some",
                status=429,
            )
