"""Why a job waits, from the pass of the scheduler that decided it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_grammar import Need, Request, parse
from pit_protocol.answers.why import (
    ARRIVAL,
    GROUP_USE,
    PRIORITY,
    USER_USE,
    Ahead,
    Holder,
    OtherJob,
    Queued,
)
from pit_server.db.models import Job, User
from pit_server.scheduler.order import Factors, Waiting
from pit_server.services.nodes.aliases import KindNames
from pit_server.services.scheduling import shortage
from pit_server.services.scheduling.last_pass import LastPass, NodesAfterPass
from pit_server.services.scheduling.queue import default_needs
from pit_server.services.scheduling.shortage import Holding
from pit_server.services.scheduling.smaller_requests import Search
from pit_server.services.users.access import visible
from pit_server.services.users.tokens import Caller
from pit_server.settings import Settings

MAX_NAMED = 3  # jobs of one factor, and jobs that hold something
_NO_USER = "somebody"
_FACTORS = (PRIORITY, GROUP_USE, USER_USE, ARRIVAL)


def explain(session: Session, caller: Caller, job: Job, last: LastPass) -> Queued:
    """What the job waits for, who holds it, and who is ahead."""
    if job.id not in last.reasons:
        return Queued(as_of=None)
    as_of = last.plan.as_of.get(job.id, last.given.now)
    waiting = last.given.queue.get(job.id)
    if waiting is None:
        return Queued(as_of=as_of)  # something else than the scheduler holds it
    nodes = NodesAfterPass(last)
    missing = shortage.find_missing(waiting.shape, nodes)
    holdings = shortage.find_holders(waiting.shape, missing, nodes)
    ahead = list_ahead(job.id, last)
    shown = {holding.job for holding in holdings[:MAX_NAMED]}
    names = _names(session, caller, shown.union(*(numbers[:MAX_NAMED] for numbers in ahead.values())))
    return Queued(
        as_of=as_of,
        missing=missing,
        holders=[_holder(holding, names) for holding in holdings[:MAX_NAMED]],
        more_holders=len({holding.job for holding in holdings} - shown),
        place=sum(map(len, ahead.values())) + 1,
        length=sum(number in last.reasons for number in last.given.queue),
        ahead=[
            Ahead(factor, len(ahead[factor]), [names[number] for number in ahead[factor][:MAX_NAMED]])
            for factor in _FACTORS
            if ahead[factor]
        ],
    )


def search(session: Session, job: Job, last: LastPass, settings: Settings) -> Search | None:
    """A search for smaller requests that would start now, to be run without a session."""
    waiting = last.given.queue.get(job.id)
    if waiting is None or job.id not in last.reasons:
        return None
    resolve = partial(_resolve, kinds=KindNames(session).kinds(), defaults=default_needs(settings))
    return Search(last, waiting, parse(job.request), resolve)


def list_ahead(number: int, last: LastPass) -> Mapping[str, list[int]]:
    """The waiting jobs ahead of this one in their order, by the factor that puts them there."""
    factors, queue = dict(last.plan.factors), last.given.queue  # copied: a pass may add to it
    ahead: defaultdict[str, list[int]] = defaultdict(list)
    mine = factors.get(number)
    if mine is None:
        return ahead
    before = sorted(
        theirs
        for other, theirs in factors.items()
        if theirs < mine and other in queue and other in last.reasons
    )
    for theirs in before:
        ahead[_factor(theirs, queue[theirs.number], mine, queue[number])].append(theirs.number)
    return ahead


def _factor(theirs: Factors, other: Waiting, mine: Factors, job: Waiting) -> str:
    if theirs.priority != mine.priority:
        return PRIORITY
    # A user's own jobs are charged in the order of their arrival.
    if other.user == job.user or theirs[:-1] == mine[:-1]:
        return ARRIVAL
    return GROUP_USE if theirs.group_use != mine.group_use and other.group != job.group else USER_USE


def _names(session: Session, caller: Caller, numbers: Iterable[int]) -> dict[int, OtherJob]:
    wanted = set(numbers)
    rows = session.execute(
        select(Job.id, User.name, (visible(caller) & Job.removed_at.is_(None)).label("is_visible"))
        .join(User, User.id == Job.user_id)
        .where(Job.id.in_(wanted))
    )
    found = {row.id: OtherJob(row.id if row.is_visible else None, row.name) for row in rows}
    return {number: found.get(number, OtherJob(None, _NO_USER)) for number in wanted}


def _holder(holding: Holding, names: Mapping[int, OtherJob]) -> Holder:
    return Holder(
        job=names[holding.job],
        kind=holding.kind,
        amount=holding.amount,
        nodes=holding.nodes,
        until=shortage.known_end(holding.until),
    )


def _resolve(request: Request, *, kinds: Mapping[str, str], defaults: tuple[Need, ...]) -> Request:
    """The request as the scheduler sees it."""
    return request.with_defaults(defaults).renamed(kinds)
