"""Why a job waits, from the pass of the scheduler that decided it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
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
from pit_protocol.arrays.numbers import array_of
from pit_server.db.models import Job, User
from pit_server.scheduler.explain import Explainer
from pit_server.scheduler.order import Factors, Waiting
from pit_server.scheduler.reason import Reason
from pit_server.services.jobs import time_limits
from pit_server.services.jobs.records import delays
from pit_server.services.nodes.aliases import kind_names
from pit_server.services.scheduling import arrays
from pit_server.services.scheduling.last_pass import LastPass, nodes_after
from pit_server.services.scheduling.queue import default_needs
from pit_server.services.scheduling.why import shortage
from pit_server.services.scheduling.why.shortage import Holding
from pit_server.services.scheduling.why.smaller_requests import Search
from pit_server.services.users.access import visible
from pit_server.services.users.tokens import Caller
from pit_server.settings import Settings

MAX_NAMED = 3  # jobs of one factor, and jobs that hold something
_NO_USER = "somebody"
_FACTORS = (PRIORITY, GROUP_USE, USER_USE, ARRIVAL)


def explain(session: Session, caller: Caller, job: Job, last: LastPass) -> Queued:
    """What the job waits for, who holds it, and who is ahead; an array: its next element."""
    key = _known_as(job, last)
    if key is None:
        return Queued(as_of=None)
    number = arrays.first_in(last.given.queue, key)
    as_of = last.plan.as_of.get(number, last.given.now)
    waiting, reason = last.given.queue.get(number), last.reasons[key]
    if waiting is None:  # something else than the scheduler holds it
        return Queued(as_of, _render(session, caller, reason))
    nodes = nodes_after(last)
    missing = shortage.find_missing(waiting.shape, nodes)
    holdings = shortage.find_holders(waiting.shape, missing, nodes)
    ahead = list_ahead(number, last)
    shown = {holding.job for holding in holdings[:MAX_NAMED]}
    names = _names(session, caller, shown.union(*(numbers[:MAX_NAMED] for numbers in ahead.values())))
    limited = _find_limited(session, shown)
    if missing and reason.jobs:  # which may have ended since a pass found the reason
        reason = arrays.as_known(Explainer(nodes, last.given.idle).explain(number, waiting.shape))
    return Queued(
        as_of=as_of,
        reason=_render(session, caller, reason),
        missing=missing,
        holders=[_holder(holding, names, limited) for holding in holdings[:MAX_NAMED]],
        more_holders=len({holding.job for holding in holdings} - shown),
        place=sum(map(len, ahead.values())) + 1 if number in last.plan.factors else None,
        length=len({array_of(each) for each in last.given.queue if each in last.reasons}),
        ahead=[
            Ahead(factor, len(ahead[factor]), [names[number] for number in ahead[factor][:MAX_NAMED]])
            for factor in _FACTORS
            if ahead[factor]
        ],
    )


def _known_as(job: Job, last: LastPass) -> int | None:
    """Under which number a pass knows why the job waits; of an element that is not its turn, its array's."""
    return next((number for number in (job.id, array_of(job.id)) if number in last.reasons), None)


def search(session: Session, job: Job, last: LastPass, settings: Settings) -> Search | None:
    """A search for smaller requests that would start now, to be run without a session."""
    key = _known_as(job, last)
    waiting = None if key is None else last.given.queue.get(arrays.first_in(last.given.queue, key))
    if waiting is None:
        return None
    resolve = partial(_resolve, kinds=kind_names(session).kinds(), defaults=default_needs(settings))
    return Search(last, waiting, parse(job.request), resolve)


def _render(session: Session, caller: Caller, reason: Reason) -> str:
    return reason.render(delays.job_names(session, caller, reason.jobs))


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
    seen = {array_of(number)}  # an array is ahead once, and not of its own elements
    for theirs in before:
        if theirs.arrival not in seen:
            seen.add(theirs.arrival)
            ahead[_factor(theirs, queue[theirs.number], mine, queue[number])].append(theirs.arrival)
    return ahead


def _factor(theirs: Factors, other: Waiting, mine: Factors, job: Waiting) -> str:
    if theirs.priority != mine.priority:
        return PRIORITY
    # A user's own jobs are charged in the order of their arrival.
    if other.user == job.user or theirs[:-2] == mine[:-2]:
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


def _find_limited(session: Session, numbers: Set[int]) -> Set[int]:
    """Those with a time limit."""
    rows = session.execute(select(Job.id, Job.options).where(Job.id.in_(numbers)))
    return {row.id for row in rows if time_limits.limit_s(row.options) is not None}


def _holder(holding: Holding, names: Mapping[int, OtherJob], limited: Set[int]) -> Holder:
    return Holder(
        job=names[holding.job],
        kind=holding.kind,
        amount=holding.amount,
        nodes=holding.nodes,
        until=shortage.known_end(holding.until),
        has_limit=holding.job in limited,
    )


def _resolve(request: Request, *, kinds: Mapping[str, str], defaults: tuple[Need, ...]) -> Request:
    """The request as the scheduler sees it."""
    return request.with_defaults(defaults).renamed(kinds)
