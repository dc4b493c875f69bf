"""Elements of arrays: rows of those that have begun, and what is known of those that have not."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import inspect, select, update
from sqlalchemy.orm import Session

from pit_protocol.arrays.elements import Elements, only, parse_elements
from pit_protocol.arrays.numbers import array_of, element_number, index_of, is_element, job_name
from pit_protocol.problem import Problem
from pit_protocol.states import JobEvent, JobState, Outcome
from pit_server.db.database import insert_all, note_event, notify_after_commit
from pit_server.db.models import Job
from pit_server.services.jobs import lifecycle
from pit_server.services.jobs.lifecycle import LockedJob
from pit_server.wakeups import STATUS, job_topic

KEY_LENGTH = 80  # longer than the key of any submission, so none can be equal
OPEN = (JobState.WAITING, JobState.STARTING, JobState.RUNNING)  # arrays that may start elements
_COLUMNS = [column.key for column in inspect(Job).column_attrs]


def elements_of(options: Mapping[str, Any]) -> Elements:
    """The elements of an array, by its stored options."""
    found = parse_elements(options.get("array"), options.get("sweep") or ())
    assert found is not None  # noqa: S101 - the caller has an array
    return found


def element(session: Session, array: Job, number: int) -> Job:
    """One element of an array; a row that is not in the database if it has not begun."""
    index = index_of(number) or 0
    if array.array_size is None:
        raise _no_element(number, f"job {array.id} is not an array")
    if index not in elements_of(array.options):
        raise _no_element(number, f"`pit show {array.id}` names its elements")
    found = session.execute(select(Job).where(Job.id == number)).scalar_one_or_none()
    if found is not None:
        return found
    if array.state in OPEN:
        return Job(**_row(_values(array), index, JobState.WAITING, array.since))
    state = JobState.ENDED if array.state == JobState.STOPPING else JobState(array.state)
    outcome = Outcome(array.outcome) if array.outcome else None
    return Job(**_row(_values(array), index, state, array.since, outcome, array.reason))


def list_begun(session: Session, array: Job) -> list[int]:
    """The numbers of the elements that have a row, in order; none if the job is not an array."""
    if array.array_size is None:
        return []
    query = select(Job.id).where(Job.array_job == array.id).order_by(Job.array_index)
    return list(session.execute(query).scalars())


def list_taken(session: Session, arrays: Mapping[int, int]) -> dict[int, set[int]]:
    """The indices of elements that have a row, by array, from the given index on."""
    taken: defaultdict[int, set[int]] = defaultdict(set)
    for number, first in arrays.items():
        query = select(Job.array_index).where(Job.array_job == number, Job.array_index >= first)
        taken[number].update(index for index in session.execute(query).scalars() if index is not None)
    return taken


class NewElements:
    """Makes rows of elements, in order and each once; locks their arrays until the transaction ends."""

    def __init__(self, session: Session, numbers: Iterable[int]) -> None:
        self._session = session
        self._made: list[dict[str, Any]] = []  # rows that `finish` stores
        wanted = [number for number in numbers if is_element(number)]
        arrays = {array_of(number) for number in wanted}
        self._arrays = _lock_arrays(session, arrays) if arrays else {}
        self._next = {number: array["array_next"] for number, array in self._arrays.items()}
        known = select(Job.id).where(Job.id.in_(wanted))
        self._rows = set(session.execute(known).scalars()) if wanted else set()
        self._taken = list_taken(session, {key: at for key, at in self._next.items() if at is not None})

    def is_new(self, number: int) -> bool:
        """Whether it is an element without a row."""
        return is_element(number) and number not in self._rows

    def start(self, number: int, *, now: float, reason: str) -> LockedJob:
        """Make the row of an element that is placed; raises StaleState unless it is the next one."""
        array, index = self._arrays[array_of(number)], index_of(number) or 0
        if array["state"] not in OPEN or self._next[array["id"]] != index:
            raise lifecycle.StaleState(f"{job_name(number)} is not the next element of its array")
        if array["state"] == JobState.WAITING:
            locked = lifecycle.lock(self._session, array["id"])
            first = "its first element"
            moved = lifecycle.advance(self._session, locked, JobEvent.PLACED, now=now, reason=first)
            array["state"] = moved.state
        self._add(number, JobState.STARTING, now)
        self._note(number, JobEvent.PLACED, JobState.STARTING, now=now, reason=reason)
        return LockedJob(number, JobState.STARTING, 1, None, "", options=array["options"])

    def end(self, number: int, outcome: Outcome, *, now: float, reason: str, actor: str) -> None:
        """Make the row of an element that never starts."""
        self._add(number, JobState.ENDED, now, outcome, reason)
        self._note(number, JobEvent.STOP, JobState.ENDED, now=now, reason=reason, actor=actor)

    def finish(self) -> None:
        """Store the rows, and which element of each array is next."""
        if self._made:
            insert_all(self._session, Job, self._made)
            self._made = []
        for number, index in self._next.items():
            if index != self._arrays[number]["array_next"]:
                self._session.execute(update(Job).where(Job.id == number).values(array_next=index))

    def _add(
        self,
        number: int,
        state: JobState,
        now: float,
        outcome: Outcome | None = None,
        reason: str = "",
    ) -> None:
        array, index = self._arrays[array_of(number)], index_of(number) or 0
        self._made.append(_row(array, index, state, now, outcome, reason))
        self._rows.add(number)
        self._taken[array["id"]].add(index)
        elements, following = elements_of(array["options"]), self._next[array["id"]]
        while following is not None and following in self._taken[array["id"]]:
            following = elements.following(following)
        self._next[array["id"]] = following

    def _note(
        self,
        number: int,
        event: JobEvent,
        state: JobState,
        *,
        now: float,
        reason: str,
        actor: str = lifecycle.HEAD,
    ) -> None:
        note_event(
            self._session,
            job_id=number,
            attempt=1,
            event=event,
            from_state=None,
            to_state=state,
            actor=actor,
            reason=reason,
            at=now,
        )
        notify_after_commit(self._session, job_topic(number), job_topic(array_of(number)), STATUS)


def _lock_arrays(session: Session, numbers: Collection[int]) -> dict[int, dict[str, Any]]:
    # In the order in which elements are locked elsewhere, which prevents deadlocks.
    query = select(Job.__table__).where(Job.id.in_(numbers)).order_by(Job.id.desc())
    rows = session.execute(query.with_for_update()).mappings()
    return {row["id"]: dict(row) for row in rows}


def _values(array: Job) -> dict[str, Any]:
    return {name: getattr(array, name) for name in _COLUMNS}


def _row(
    array: Mapping[str, Any],
    index: int,
    state: JobState,
    now: float,
    outcome: Outcome | None = None,
    reason: str = "",
) -> dict[str, Any]:
    """The columns of an element: those of its array, with its own place, state and options."""
    number = element_number(array["id"], index)
    options = array["options"]
    mine = only(options.get("array"), options.get("sweep") or (), [index])
    return {
        **array,
        "id": number,
        "submission_key": job_name(number).rjust(KEY_LENGTH),
        "options": {**options, "array": mine},
        "state": state,
        "outcome": outcome,
        "reason": reason,
        "created_at": now,
        "since": now,
        "array_size": None,
        "array_next": None,
        "array_job": array["id"],
        "array_index": index,
        "results": None,
        "notify": "",  # the array tells of its end
    }


def _no_element(number: int, hint: str) -> Problem:
    return Problem("no_such_job", f"there is no element {job_name(number)}", hint, status=404)
