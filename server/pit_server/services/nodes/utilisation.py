"""How the cluster was used: GPUs held, jobs that waited, use by user and group, over the last hours or days.

Everything comes from allocations that still hold something or were released in that time.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from pit_protocol.durations import HOUR_S
from pit_protocol.states import JobState
from pit_server.db.database import AnyRow
from pit_server.db.models import Allocation, Attempt, Group, Job, Process, Resource, User
from pit_server.scheduler.kinds import CPU, PORT

BUCKETS = 60
MOST_ROWS = 200_000  # the newest; of a busier cluster the beginning is missing
MOST_USERS = 20


@dataclass(frozen=True)
class Used:
    name: str
    gpu_hours: float
    core_hours: float
    jobs: int


@dataclass(frozen=True)
class History:
    begin: float
    end: float
    gpus: int  # that there are now
    busy: Sequence[float]  # GPUs held, as the mean over each part of the time
    waiting: Sequence[float]  # jobs that waited
    median_wait_s: float | None  # of the jobs that started in this time
    longest_wait_s: float | None
    started: int
    users: Sequence[Used] = field(default_factory=tuple)
    groups: Sequence[Used] = field(default_factory=tuple)

    @property
    def busy_percent(self) -> float | None:
        held = sum(self.busy) / len(self.busy)
        return 100 * held / self.gpus if self.gpus else None


def history(session: Session, window_s: float, *, now: float) -> History:
    """What happened in the last `window_s` seconds."""
    begin = now - window_s
    rows = session.execute(_HELD.where(_in_time(begin)).limit(MOST_ROWS)).all()
    busy, waited = _Buckets(begin, now), _Buckets(begin, now)
    for row in rows:
        if _is_gpu(row):
            busy.add(row.begun_at, row.released_at or now)
    waits = {row.job_id: (row.created_at, row.begun_at) for row in rows if row.attempt == 1}
    started = {job: times for job, times in waits.items() if times[1] >= begin}
    for created_at, begun_at in waits.values():
        waited.add(created_at, begun_at)
    for created_at in session.execute(select(Job.created_at).where(Job.state == JobState.WAITING)).scalars():
        waited.add(created_at, now)
    times = [begun_at - created_at for created_at, begun_at in started.values()]
    gpus = session.execute(select(func.count()).select_from(Resource).where(Resource.is_present)).scalar_one()
    return History(
        begin=begin,
        end=now,
        gpus=gpus,
        busy=busy.means(),
        waiting=waited.means(),
        median_wait_s=median(times) if times else None,
        longest_wait_s=max(times, default=None),
        started=len(started),
        users=_used(rows, "user", begin, now),
        groups=_used(rows, "group", begin, now),
    )


_HELD = (
    select(Allocation.kind, Allocation.unit, Allocation.amount, Allocation.released_at)
    .add_columns(Attempt.created_at.label("begun_at"), Attempt.number.label("attempt"))
    .add_columns(Job.id.label("job_id"), Job.created_at, User.name.label("user"), Group.name.label("group"))
    .join(Process, Process.id == Allocation.process_id)
    .join(Attempt, Attempt.id == Process.attempt_id)
    .join(Job, Job.id == Process.job_id)
    .join(User, User.id == Job.user_id)
    .outerjoin(Group, Group.id == User.share_group_id)
    .order_by(Allocation.id.desc())
)


def _in_time(begin: float) -> ColumnElement[bool]:
    return or_(Allocation.released_at.is_(None), Allocation.released_at >= begin)


def _is_gpu(row: AnyRow) -> bool:
    return row.unit is not None and row.kind != PORT


def _used(rows: Sequence[AnyRow], by: str, begin: float, now: float) -> list[Used]:
    gpus, cores, jobs = (
        defaultdict[str, float](float),
        defaultdict[str, float](float),
        defaultdict[str, set[int]](set),
    )
    for row in rows:
        name = getattr(row, by)
        if name is None:
            continue
        hours = max((row.released_at or now) - max(row.begun_at, begin), 0.0) / HOUR_S
        gpus[name] += hours * _is_gpu(row)
        cores[name] += hours * row.amount / 1000 if row.kind == CPU else 0.0
        jobs[name].add(row.job_id)
    found = [Used(name, gpus[name], cores[name], len(numbers)) for name, numbers in jobs.items()]
    return sorted(found, key=lambda used: (-used.gpu_hours, -used.core_hours, used.name))[:MOST_USERS]


class _Buckets:
    """Sums up for how long things lasted in each part of the time."""

    def __init__(self, begin: float, end: float) -> None:
        self._begin, self._step = begin, (end - begin) / BUCKETS
        self._sums = [0.0] * BUCKETS

    def add(self, since: float, until: float) -> None:
        first = max(int((since - self._begin) / self._step), 0)
        last = min(int((until - self._begin) / self._step), BUCKETS - 1)
        for i in range(first, last + 1):
            left = self._begin + i * self._step
            self._sums[i] += max(min(until, left + self._step) - max(since, left), 0.0)

    def means(self) -> list[float]:
        return [total / self._step for total in self._sums]
