"""Everything that a pass of the scheduler decides on, read from the database as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from pit_grammar import Need, Request, parse
from pit_grammar.request import UNITS
from pit_protocol.arrays.numbers import array_of, is_element
from pit_protocol.job_options import PRIORITIES
from pit_protocol.states import JobState
from pit_server.db.database import AnyRow
from pit_server.db.models import Group, Job, User
from pit_server.scheduler.capacity import NodeView
from pit_server.scheduler.demand import PACK, SPREAD, Access, Shape
from pit_server.scheduler.explain import can_avoid
from pit_server.scheduler.kinds import CPU, MEMORY
from pit_server.scheduler.limits import Limits
from pit_server.scheduler.order import Usage, Waiting
from pit_server.scheduler.plan import FULL_PASS_S, Given
from pit_server.services.jobs import requeue, time_limits
from pit_server.services.jobs.arrays.elements import OPEN
from pit_server.services.jobs.processes import runtimes
from pit_server.services.nodes.aliases import kind_names
from pit_server.services.scheduling import arrays, holds, limits, run_times
from pit_server.services.scheduling.fair_share import FairShare
from pit_server.services.scheduling.holds import Hold
from pit_server.services.scheduling.nodes import free_nodes, idle_nodes
from pit_server.services.scheduling.run_times import RunTimes
from pit_server.services.sites import site_jobs
from pit_server.services.sites.site_jobs import SiteJob
from pit_server.services.users.access import resource_access
from pit_server.services.users.limits import find_accounts
from pit_server.settings import Settings

_parse = lru_cache(maxsize=4096)(parse)
HOUR_S = 3600.0
PRIORITY_OF = {name: value for value, name in enumerate(PRIORITIES, -1)}  # normal: 0
ShapeKey = tuple[str, Access, float, str, tuple[str, ...]]


@lru_cache(maxsize=4096)
def _lowest(text: str) -> str:
    return str(_parse(text).lowest())


@dataclass(frozen=True)
class SchedulingInput:
    given: Given
    held: Mapping[int, Hold]  # jobs that wait, but not for nodes
    at_sites: Sequence[SiteJob] = ()  # that sites may run

    @property
    def next_due(self) -> float | None:
        """When the first job that is held until a time takes part again."""
        return min((hold.until for hold in self.held.values() if hold.until is not None), default=None)


def default_needs(settings: Settings) -> tuple[Need, ...]:
    """What is booked for a process that does not say how many cores or how much memory it needs."""
    amounts = ((CPU, settings.default_cpu), (MEMORY, settings.default_mem))
    units = [(kind, round(amount * UNITS[kind])) for kind, amount in amounts]
    return tuple(Need(kind, Decimal(count) / UNITS[kind]) for kind, count in units if count)


class QueueReader:
    """Reads the queue for one pass after another; what changes slowly is read now and then."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._defaults = default_needs(settings)
        self._fair_share = FairShare(settings)
        self.run_times = RunTimes(settings.planned_hours * HOUR_S)
        self._usage = Usage()
        self._refreshed_at = 0.0
        self._requests: dict[str, Request] = {}
        self._shapes: dict[ShapeKey, Shape] = {}

    def read(self, session: Session, *, now: float) -> SchedulingInput:
        """Read the queue and the nodes at one moment; nodes are not read for an empty queue."""
        waiting = session.execute(_WAITING).all()
        held = holds.find_all(session, waiting, self._settings, now=now)
        rows = [row for row in waiting if row.id not in held]
        if not rows:
            return SchedulingInput(Given({}, (), now=now), held)
        if not 0 <= now - self._refreshed_at < FULL_PASS_S:
            self._usage = self._fair_share.usage(session, now)
            self.run_times = run_times.learn(session, self._settings.planned_hours * HOUR_S)
            self._refreshed_at = now
        limited, allowed = limits.find(session, find_accounts(session, self._settings), rows, _parse, now=now)
        held |= limited
        rows = [row for row in rows if row.id not in limited]
        elsewhere = site_jobs.find(session, rows, _parse, now=now)
        held |= {number: Hold(reason) for number, reason in elsewhere.reasons.items()}
        rows = [row for row in rows if row.id not in elsewhere.reasons]
        if not rows:
            return SchedulingInput(Given({}, (), now=now), held, elsewhere.jobs)
        idle, free = idle_nodes(session, now=now), free_nodes(session, self.run_times, now=now)
        numbers = arrays.expand(session, rows, sum(view.slots for view in free))
        allowed = arrays.spread(allowed, numbers)
        given = Given(
            self._queue(session, rows, idle, allowed, numbers),
            free,
            idle,
            self._usage,
            now,
            self._settings.reservations,
            allowed,
        )
        return SchedulingInput(given, held, elsewhere.jobs)

    def _queue(
        self,
        session: Session,
        rows: list[AnyRow],
        idle: list[NodeView],
        allowed: Limits,
        numbers: Mapping[int, Sequence[int]],
    ) -> dict[int, Waiting]:
        kinds, resources = kind_names(session).kinds(), resource_access(session)
        failed = requeue.failed_nodes(session, [row.id for row in rows if row.attempt > 1])
        # What an elastic job takes beyond its minimum could be over a limit.
        texts = {row.id: _lowest(row.request) if row.id in allowed.accounts else row.request for row in rows}
        weights = self._renew_requests(set(texts.values()), kinds)
        known, self._shapes = self._shapes, {}
        queue = {}
        for row in rows:
            request = self._requests[texts[row.id]]
            access = resources.access_of(row.user_id, runtimes.needed(row.options))
            access, avoided = _avoid(request, access, failed.get(row.id), idle)
            planned_s = self.run_times.planned(row.user_id, row.title, time_limits.limit_s(row.options))
            key = texts[row.id], access, planned_s, self._mode(row.options), avoided
            shape = self._shapes.get(key) or known.get(key)
            if shape is None or shape.request is not request:
                shape = Shape(request, *key[1:])
            self._shapes[key] = shape
            priority = PRIORITY_OF.get(row.options.get("priority") or "normal", 0)
            cost, group = weights[texts[row.id]] * planned_s, row.group_name or ""
            array = array_of(row.id) if row.array_next is not None or is_element(row.id) else 0
            for number in numbers[row.id]:
                queue[number] = Waiting(number, shape, row.name, group, priority, cost, array)
        return queue

    def _mode(self, options: Mapping[str, object]) -> str:
        """How to place a job: as its options say, or as usual here."""
        chosen = [mode for mode in (PACK, SPREAD) if options.get(mode)]
        return chosen[0] if chosen else self._settings.placement

    def _renew_requests(self, texts: set[str], kinds: Mapping[str, str]) -> dict[str, float]:
        """Parse the requests, with the same object for an equal request; returns their weights."""
        known, self._requests, weights = self._requests, {}, {}
        for text in texts:
            request = _parse(text).with_defaults(self._defaults).renamed(kinds)
            self._requests[text] = known[text] if known.get(text) == request else request
            weights[text] = self._fair_share.weights.of_request(request)
        return weights


_WAITING = (
    select(Job.id, Job.request, Job.user_id, Job.options, Job.attempt, Job.title, Job.since)
    .add_columns(Job.array_next)
    .add_columns(User.name, User.is_active, Group.name.label("group_name"))
    .join(User, User.id == Job.user_id)
    .outerjoin(Group, Group.id == User.share_group_id)
    .where(Job.state.in_(OPEN), or_(Job.state == JobState.WAITING, Job.array_next.is_not(None)))
    .order_by(Job.id)
)


def _avoid(
    request: Request, access: Access, nodes: frozenset[int] | None, idle: list[NodeView]
) -> tuple[Access, tuple[str, ...]]:
    """Leave out the nodes on which the job failed, if there are others; and their names."""
    if not nodes or not can_avoid(request, access, nodes, idle):
        return access, ()
    names = tuple(view.name for view in idle if view.id in nodes)
    return replace(access, closed_nodes=access.closed_nodes | nodes), names
