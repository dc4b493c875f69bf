"""What users have used, with older use counting less: the base of fair share.

Sums over allocations, kept in memory: each released allocation is read once.
"""

from collections import defaultdict
from collections.abc import Mapping
from math import log

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_grammar import Request
from pit_grammar.request import UNITS
from pit_protocol.durations import DAY_S
from pit_server.db.models import IS_LIVE, Allocation, Attempt, Group, Job, Process, User
from pit_server.scheduler.kinds import ANY_GPU, PORT, SLOT
from pit_server.scheduler.order import Usage
from pit_server.services.nodes.aliases import kind_names
from pit_server.settings import Settings, parse_weights

HALF_LIVES = 10  # what was used earlier counts less than a thousandth
LATE_S = 600.0  # a release may be committed so much later than its time says
LEAST_WEIGHT = 0.001  # of a process: one that names nothing uses something too


class Weights:
    """What a second of each resource counts."""

    def __init__(self, settings: Settings) -> None:
        self._weights = parse_weights(settings.share_weights)

    def of(self, kind: str, amount: float) -> float:
        """The weight of so many GPUs, thousandths of a core or MiB of memory."""
        if kind in UNITS:
            return self._weights.get(kind, 0.0) * amount / UNITS[kind]
        return self._weights.get(kind, self._weights.get(ANY_GPU, 0.0)) * amount

    def of_request(self, request: Request) -> float:
        """The weight of a request at its minimum."""
        needs = sum(
            self.of(need.kind, need.low) * group.count.low for group in request.groups for need in group.needs
        )
        return needs + LEAST_WEIGHT * request.min_processes


class FairShare:
    """Decayed use per user, in weighted seconds."""

    def __init__(self, settings: Settings) -> None:
        self._half_life_s = settings.half_life_days * DAY_S
        self.weights = Weights(settings)
        self._used: defaultdict[int, float] = defaultdict(float)  # at the time `_at`
        self._at = 0.0
        self._counted: dict[int, float] = {}  # allocations that were released lately, and when

    def usage(self, session: Session, now: float) -> Usage:
        """What users and groups have used until now."""
        self._count_released(session, now)
        used = defaultdict(float, self._used)
        names = kind_names(session)
        for row in session.execute(_ALLOCATIONS.where(Allocation.released_at.is_(None))):
            weight = self.weights.of(names.kind(row.kind), row.amount)
            used[row.user_id] += weight * self._decayed_s(row.created_at, now, now)
        for user_id, created_at in session.execute(_LIVE):
            used[user_id] += LEAST_WEIGHT * self._decayed_s(created_at, now, now)
        return _by_name(session, used)

    def _count_released(self, session: Session, now: float) -> None:
        since = max(self._at - LATE_S, now - HALF_LIVES * self._half_life_s)
        passed = self._decay(now - self._at) if self._at else 0.0
        for user_id in self._used:
            self._used[user_id] *= passed
        names = kind_names(session)
        self._counted = {number: at for number, at in self._counted.items() if at > since}
        for row in session.execute(_ALLOCATIONS.where(Allocation.released_at > since)):
            if row.id not in self._counted:
                self._counted[row.id] = row.released_at
                weight = self.weights.of(names.kind(row.kind), row.amount)
                self._used[row.user_id] += weight * self._decayed_s(row.created_at, row.released_at, now)
        self._at = now

    def _decay(self, age_s: float) -> float:
        return float(0.5 ** (max(0.0, age_s) / self._half_life_s))

    def _decayed_s(self, begin: float, end: float, now: float) -> float:
        """The seconds from begin to end, each by its age."""
        whole = self._half_life_s / log(2)
        return whole * max(0.0, self._decay(now - end) - self._decay(now - begin))


_ALLOCATIONS = (
    select(
        Allocation.id,
        Allocation.kind,
        Allocation.amount,
        Allocation.released_at,
        Attempt.created_at,
        Job.user_id,
    )
    .join(Process, Process.id == Allocation.process_id)
    .join(Attempt, Attempt.id == Process.attempt_id)
    .join(Job, Job.id == Process.job_id)
    .where(Allocation.kind.not_in((PORT, SLOT)))
)
_LIVE = (
    select(Job.user_id, Attempt.created_at)
    .select_from(Process)
    .join(Attempt, Attempt.id == Process.attempt_id)
    .join(Job, Job.id == Process.job_id)
    .where(IS_LIVE)
)


def _by_name(session: Session, used: Mapping[int, float]) -> Usage:
    users: dict[str, float] = {}
    groups: defaultdict[str, float] = defaultdict(float)
    query = select(User.id, User.name, Group.name.label("group_name"))
    for row in session.execute(query.outerjoin(Group, Group.id == User.share_group_id)):
        if amount := used.get(row.id):
            users[row.name] = amount
            groups[row.group_name or ""] += amount
    return Usage(users, dict(groups))
