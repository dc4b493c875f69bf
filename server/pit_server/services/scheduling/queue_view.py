"""The queue as people see it: the order of the latest pass, with its factors."""

from collections.abc import Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.answers.queue import EstimateErrors, Queue, QueueEntry
from pit_protocol.arrays.numbers import array_of
from pit_protocol.job_options import NORMAL
from pit_server.db.models import Group, Job, User
from pit_server.scheduler.order import Factors
from pit_server.services.jobs.arrays.elements import OPEN
from pit_server.services.jobs.records import delays
from pit_server.services.scheduling.estimates.start_range import StartRange
from pit_server.services.scheduling.last_pass import LastPass
from pit_server.services.scheduling.queue import HOUR_S
from pit_server.services.users.access import visible
from pit_server.services.users.tokens import Caller

MAX_ROWS = 1_000


def show(
    session: Session,
    caller: Caller,
    last: LastPass,
    starts: Mapping[int, StartRange],
    errors: EstimateErrors,
    *,
    limit: int,
) -> Queue:
    """The first jobs of the queue, in the order in which the scheduler considers them."""
    plan, reasons = last.plan, last.reasons
    # Copied: a pass may add to them.
    found = sorted(factors for number, factors in dict(plan.factors).items() if number in reasons)
    order = _first_of_each(found)
    first = order[: min(limit, MAX_ROWS)]
    rows = {
        row.id: row
        for row in session.execute(
            select(Job.id, Job.request, Job.options, User.name, Group.name.label("group_name"))
            .add_columns(visible(caller).label("is_visible"))
            .join(User, User.id == Job.user_id)
            .outerjoin(Group, Group.id == User.share_group_id)
            .where(Job.id.in_([factors.arrival for factors in first]), Job.state.in_(OPEN))
        )
    }
    shown = [factors for factors in first if factors.arrival in rows]
    named = {job for factors in shown for job in reasons[factors.number].jobs}
    name = delays.job_names(session, caller, named)
    entries = []
    for place, factors in enumerate(shown, 1):
        row, reserved = rows[factors.arrival], plan.reservations.get(factors.number)
        entries.append(
            QueueEntry(
                place=place,
                number=row.id if row.is_visible else None,
                user=row.name,
                request=row.request if row.is_visible else "",
                priority=row.options.get("priority") or NORMAL,
                group=row.group_name or "",
                group_use=round(max(0.0, factors.group_use) / HOUR_S, 3),
                user_use=round(max(0.0, factors.user_use) / HOUR_S, 3),
                starts_by=reserved.start if reserved else None,
                starts=starts.get(factors.number),
                reason=reasons[factors.number].render(name) if row.is_visible else "",
                as_of=plan.as_of.get(factors.number),
            )
        )
    held = {array_of(number) for number in reasons} - {factors.arrival for factors in order}
    return Queue(entries, len(order), len(held), errors)


def _first_of_each(order: Sequence[Factors]) -> list[Factors]:
    """An array once, with the place of its first element."""
    return list({factors.arrival: factors for factors in reversed(order)}.values())[::-1]
