"""Dependencies: jobs that wait until others have ended, and how.

The end of a job writes its outcome to the rows that need it, in its own transaction. The scheduling thread,
woken by that end, looks only at these rows: a dependency that is met is deleted, and one that can no longer
be met ends its job. That end may be the one that others wait for, so it goes on with their rows.
"""

from collections import defaultdict
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from sqlalchemy import delete, exists, func, insert, select
from sqlalchemy.orm import Session

from pit_protocol.arrays.numbers import array_of, is_element, job_name
from pit_protocol.dependencies import Dependency as Wanted
from pit_protocol.dependencies import When, check_dependencies
from pit_protocol.problem import Problem
from pit_protocol.states import JOB_MOVES, JobEvent, JobState, Outcome
from pit_server.db.database import Database, notify_after_commit
from pit_server.db.memo import remembered
from pit_server.db.models import Dependency, Job
from pit_server.scheduler.reason import Reason, naming
from pit_server.services.jobs import lifecycle
from pit_server.services.users import access
from pit_server.services.users.tokens import Caller
from pit_server.wakeups import PREPARER

# It begins with the keep directory of a job that it waits for, so it is prepared after that.
NEEDS_KEEP = exists(
    select(Dependency.job_id).where(
        Dependency.job_id == Job.id, Dependency.needs_id == Job.options["continues"].as_integer()
    )
)
AT_ONCE = 50  # jobs in one transaction, so that it is short


def check(wanted: Sequence[Wanted], most: int) -> None:
    """Refuse what needs no database to be wrong."""
    if len(wanted) > most:
        raise Problem(
            "bad_after",
            f"--after names {len(wanted):,} jobs, and `max_dependencies` of the head allows {most:,}",
            status=422,
        )
    if elements := [each.job for each in wanted if is_element(each.job)]:
        raise Problem(
            "bad_after",
            f"--after waits for whole arrays, not for {job_name(elements[0])}",
            f"write {array_of(elements[0])}",
            status=422,
        )
    check_dependencies(wanted)


def find(session: Session, caller: Caller, wanted: Sequence[Wanted]) -> list[Wanted]:
    """What a new job has to wait for. These jobs are locked, so that none ends unnoticed meanwhile."""
    if not wanted:
        return []
    query = select(Job.id, Job.state, Job.outcome).where(
        Job.id.in_([each.job for each in wanted]), access.visible(caller)
    )
    found = {row.id: row for row in session.execute(query.order_by(Job.id).with_for_update(of=Job))}
    if missing := sorted({each.job for each in wanted} - set(found)):
        raise _unknown(session, missing[0])
    ended = {number: Outcome(row.outcome) for number, row in found.items() if row.state == JobState.ENDED}
    for each in wanted:
        if each.job in ended and not each.when.is_met(ended[each.job]):
            reason = (
                f"job {each.job} {_how(ended[each.job])} already, and this job needs it to {each.when.verb}"
            )
            raise Problem("bad_after", reason, f"`pit show {each.job}` says how it ended", status=409)
    return [each for each in wanted if each.job not in ended]


def store(session: Session, number: int, wanted: Sequence[Wanted]) -> None:
    rows = [{"job_id": number, "needs_id": each.job, "when": each.when} for each in wanted]
    if rows:
        session.execute(insert(Dependency), rows)


def list_unmet(session: Session) -> dict[int, Reason]:
    """The jobs that wait for others, and for what."""
    query = select(Dependency.job_id, Dependency.needs_id, Dependency.when)

    def read(reader: Session) -> dict[int, Reason]:
        found: defaultdict[int, defaultdict[When, list[int]]] = defaultdict(lambda: defaultdict(list))
        for row in reader.execute(query.order_by(Dependency.job_id, Dependency.needs_id)):
            found[row.job_id][When(row.when)].append(row.needs_id)
        return {number: _reason(needed) for number, needed in found.items()}

    return remembered(session, "unmet dependencies", (Dependency,), read)


def resolve(database: Database, *, now: float) -> None:
    """Go on with the jobs for which somebody has ended."""
    while True:
        with database.read() as session:
            numbers = remembered(session, "due dependencies", (Dependency,), _list_due)
        if not numbers:
            return
        with database.write() as session:
            _resolve_all(session, list(numbers), now=now)


def _list_due(session: Session) -> list[int]:
    due = select(Dependency.job_id).where(Dependency.outcome.is_not(None)).distinct()
    return list(session.execute(due.order_by(Dependency.job_id).limit(AT_ONCE)).scalars())


def _resolve_all(session: Session, numbers: list[int], *, now: float) -> None:
    """In the order of their numbers, in which jobs are always locked: who needs a job is newer than it."""
    heapify(numbers)
    done = set[int]()
    while numbers and len(done) < AT_ONCE:
        number = heappop(numbers)
        if number in done:
            continue
        done.add(number)
        if _resolve(session, number, now=now):
            needing = select(Dependency.job_id).where(Dependency.needs_id == number)
            for each in session.execute(needing).scalars():
                heappush(numbers, each)


def _resolve(session: Session, number: int, *, now: float) -> bool:
    """Delete what is met of a job's dependencies, or end it; whether it has ended."""
    job = lifecycle.lock(session, number)
    is_due = (Dependency.job_id == number) & Dependency.outcome.is_not(None)
    rows = session.execute(select(Dependency).where(is_due).order_by(Dependency.needs_id)).scalars().all()
    unmet = [row for row in rows if not When(row.when).is_met(Outcome(row.outcome or ""))]
    if unmet and (job.state, JobEvent.UNMET) in JOB_MOVES:
        reason = _why_unmet(unmet[0])
        lifecycle.advance(session, job, JobEvent.UNMET, now=now, reason=reason, outcome=Outcome.STOPPED)
        return True
    session.execute(delete(Dependency).where(is_due))
    if job.state is JobState.PREPARING:
        notify_after_commit(session, PREPARER)
    return False


def _why_unmet(row: Dependency) -> str:
    return (
        f"job {job_name(row.needs_id)} {_how(row.outcome)}, and this job needed it to {When(row.when).verb}"
    )


def _how(outcome: str | None) -> str:
    return {Outcome.STOPPED: "was stopped", Outcome.LOST: "was lost"}.get(
        Outcome(outcome or ""), str(outcome)
    )


def _reason(needed: dict[When, list[int]]) -> Reason:
    when, jobs = next(iter(needed.items()))
    others = sum(map(len, needed.values())) - len(jobs)
    more = f", and for {others} other job{'s' if others > 1 else ''}" if others else ""
    return naming(f"waits for {{jobs}} to {when.verb}{more}", jobs)


def _unknown(session: Session, number: int) -> Problem:
    newest = session.execute(select(func.max(Job.id))).scalar_one() or 0
    if number > newest:
        hint = "a job waits for jobs that were submitted before it, not for itself or later ones"
        return Problem("bad_after", f"there is no job {number} yet", hint, status=422)
    return Problem("no_such_job", f"there is no job {number}", "`pit status` lists jobs", status=404)
