"""Whether a request that nobody has submitted could start now, tried by the real plan."""

import time

from sqlalchemy.orm import Session

from pit_grammar import Request, RequestError, parse
from pit_grammar.request import Need, ProcessGroup
from pit_protocol.answers.why import RequestCheck
from pit_protocol.problem import Problem
from pit_server.scheduler.demand import Shape
from pit_server.scheduler.explain import refusal_reason
from pit_server.scheduler.order import Waiting
from pit_server.scheduler.plan import Given, plan
from pit_server.services.jobs.records import delays
from pit_server.services.nodes.aliases import KindNames
from pit_server.services.scheduling.last_pass import LastPass
from pit_server.services.scheduling.nodes import free_nodes, idle_nodes
from pit_server.services.scheduling.queue import default_needs
from pit_server.services.users.access import ResourceAccess
from pit_server.services.users.tokens import Caller
from pit_server.settings import Settings

NUMBER = 1  # of the job that is only tried
BUDGET_S = 0.3


def try_request(
    session: Session, caller: Caller, text: str, last: LastPass, settings: Settings, *, now: float
) -> RequestCheck:
    """What the request means, and whether it would start if nothing else waited; a Problem if it is wrong."""
    try:
        wanted = parse(text)
    except RequestError as error:
        raise Problem("bad_request", str(error), status=422) from error
    request = wanted.with_defaults(default_needs(settings)).renamed(KindNames(session).kinds())
    access = ResourceAccess(session).access_of(caller.user_id or 0)
    idle = idle_nodes(session, now=now)
    words, ahead = explain(wanted), len(last.reasons)
    if refused := refusal_reason(request, idle, access):
        return RequestCheck(str(wanted), words, possible=False, reason=refused, waiting=ahead)
    free = free_nodes(session, last.run_times, now=now)
    shape = Shape(request, access, settings.planned_hours * 3600, settings.placement)
    over_at = time.monotonic() + BUDGET_S
    made = plan(
        Given({NUMBER: Waiting(NUMBER, shape)}, free, idle, now=now),
        None,
        lambda: time.monotonic() >= over_at,
    )
    if not made.placements:
        reason = made.reasons.get(NUMBER)
        told = reason.render(delays.job_names(session, caller, reason.jobs)) if reason else ""
        return RequestCheck(str(wanted), words, possible=True, reason=told, waiting=ahead)
    names = {view.id: view.name for view in free}
    nodes = sorted({names[process.node_id] for process in made.placements[0].processes})
    return RequestCheck(str(wanted), words, possible=True, starts_now=True, nodes=nodes, waiting=ahead)


def explain(request: Request) -> list[str]:
    """The request in words, a sentence for each group of processes."""
    return [_explain(group) for group in request.groups]


def _explain(group: ProcessGroup) -> str:
    many = str(group.count) != "1"
    processes = f"{str(group.count).replace('-', ' to ')} processes" if many else "one process"
    needs = ", ".join(map(_need, group.needs)) or "no GPU, and no cores or memory of its own"
    where = ""
    if group.placement:
        place = group.placement
        node = f"on node {place.name}"
        where = node if place.value is None else f"on nodes whose label {place.name} is {place.value}"
    return " ".join(filter(None, (processes, "each with" if many else "with", needs, where)))


def _need(need: Need) -> str:
    count = str(need).partition(":")[0] if ":" in str(need) else "1"
    if need.kind == "cpu":
        return f"{count} core{'' if count == '1' else 's'}"
    if need.kind == "mem":
        return f"{count} GiB of memory"
    return f"{count.replace('-', ' to ')} {need.kind}"
