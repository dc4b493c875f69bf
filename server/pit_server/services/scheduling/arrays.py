"""Arrays in the queue: a pass sees the next few elements of each as jobs of their own."""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy.orm import Session

from pit_protocol.arrays.numbers import array_of, element_number, is_element
from pit_server.db.database import AnyRow
from pit_server.scheduler.limits import Limits
from pit_server.scheduler.reason import Reason
from pit_server.services.jobs.arrays import progress
from pit_server.services.jobs.arrays.elements import elements_of, list_taken

MOST = 256  # elements of one array in one pass; the next pass follows at once


def expand(session: Session, waiting: Sequence[AnyRow], room: int) -> dict[int, list[int]]:
    """The numbers under which each job takes part in a pass: an array with its next elements.

    `room` is how many processes could start at most. One more element waits, and has the reason.
    """
    arrays = {row.id: row.array_next for row in waiting if row.array_next is not None}
    taken = list_taken(session, arrays)
    live = progress.count(session, [row.id for row in waiting if limit_of(row) is not None])
    numbers = {row.id: [row.id] for row in waiting}
    for row in waiting:
        if row.array_next is None:
            continue
        most = min(MOST, room + 1)
        if (limit := limit_of(row)) is not None:
            most = min(most, limit - live[row.id].live)
        found = elements_of(row.options).list_from(row.array_next, most + len(taken[row.id]))
        free = [index for index in found if index not in taken[row.id]]
        numbers[row.id] = [element_number(row.id, index) for index in free[:most]]
    return numbers


def spread(limits: Limits, numbers: Mapping[int, Sequence[int]]) -> Limits:
    """Limits that count for an array count for each of its elements."""
    accounts = {each: limits.accounts[job] for job in limits.accounts for each in numbers.get(job, ())}
    limit_s = {each: limits.limit_s[job] for job in limits.limit_s for each in numbers.get(job, ())}
    return Limits(limits.left, {**limits.accounts, **accounts}, {**limits.limit_s, **limit_s})


def by_job(reasons: Mapping[int, Reason]) -> dict[int, Reason]:
    """The reasons as people know jobs: an array waits for what its first element waits for."""
    found: dict[int, Reason] = {}
    for number, reason in sorted(reasons.items()):
        found[number] = as_known(reason)
        if is_element(number):
            found.setdefault(array_of(number), found[number])
    return found


def as_known(reason: Reason) -> Reason:
    """The reason with arrays instead of their elements."""
    named = tuple(dict.fromkeys(map(array_of, reason.jobs)))
    return reason if named == reason.jobs else reason._replace(jobs=named)


def first_in(queue: Collection[int], number: int) -> int:
    """Under which number a job takes part in a pass: an array with the first of its elements."""
    if number in queue or is_element(number):
        return number
    return min((each for each in queue if is_element(each) and array_of(each) == number), default=number)


def limit_of(row: AnyRow) -> int | None:
    return None if row.array_next is None else elements_of(row.options).limit
