"""One pass over the queue: first come, first served; all or nothing; no job is starved by those behind it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pit_grammar import Request
from pit_server.scheduler.capacity import EVERYTHING, Access, FreeCapacity, NodeView
from pit_server.scheduler.explain import add_troubles, describe_shortage, refusal_reason
from pit_server.scheduler.placement import ProcessPlacement, fit
from pit_server.scheduler.reason import Reason


class Waiting(NamedTuple):
    """One job of the queue."""

    number: int
    request: Request
    access: Access = EVERYTHING
    avoid: frozenset[int] = frozenset()  # nodes that could not start it


@dataclass(frozen=True)
class JobPlacement:
    number: int
    processes: tuple[ProcessPlacement, ...]


@dataclass(frozen=True)
class Plan:
    placements: tuple[JobPlacement, ...]
    reasons: Mapping[int, Reason]  # why each of the others waits


def plan(queue: Iterable[Waiting], views: Sequence[NodeView], idle: Sequence[NodeView] = ()) -> Plan:
    """Place what fits of the queue, in its order; `idle` is what all nodes would have if nothing ran.

    A job that does not fit withholds what it names from all jobs behind it, on every node where it
    might run. They start only if they need nothing that it waits for, so it cannot starve.
    """
    free = {view.id: FreeCapacity(view) for view in views}  # without what this pass has placed
    offered = {view.id: FreeCapacity(view) for view in views}  # also without what jobs ahead withhold
    placements = []
    reasons: dict[int, Reason] = {}
    # A request that did not fit will not fit later in the pass.
    known: dict[tuple[Request, Access], Reason] = {}
    for job in queue:
        number, request, access = job.number, job.request, _access_of(job, idle)
        if (request, access) in known:
            reasons[number] = known[request, access]
            continue
        placed = fit(request, offered, access)
        if placed is not None:
            for placement in placed:
                free[placement.node_id].subtract(placement.share, number)
            placements.append(JobPlacement(number, placed))
            continue
        # The request may have become impossible since it was accepted.
        impossible = refusal_reason(request, idle, access) if idle else ""
        shortage = Reason(impossible) if impossible else describe_shortage(request, free, access, idle)
        reason = add_troubles(shortage, request, idle, access) if shortage else _behind(reasons)
        reasons[number] = reason if access == job.access else _avoiding(reason, job, idle)
        known[request, access] = Reason("waits behind {jobs}, which needs the same", (number,))
        for group in request.groups:
            for node in offered.values():
                if node.allows(group, access):
                    node.withhold(group, access)
    return Plan(tuple(placements), reasons)


def _access_of(job: Waiting, idle: Sequence[NodeView]) -> Access:
    """What the job may use: not the nodes that could not start it, if there are others."""
    if not job.avoid:
        return job.access
    narrow = replace(job.access, closed_nodes=job.access.closed_nodes | job.avoid)
    others = {view.id: FreeCapacity(view) for view in idle if view.is_open}
    return job.access if fit(job.request, others, narrow) is None else narrow


def _avoiding(reason: Reason, job: Waiting, idle: Sequence[NodeView]) -> Reason:
    names = ", ".join(view.name for view in idle if view.id in job.avoid)
    return reason._replace(text=f"{reason.text}; {names} could not start it")


def _behind(reasons: Mapping[int, Reason]) -> Reason:
    numbers = list(reasons)
    return Reason("waits behind {jobs}", (numbers[0],), len(numbers) - 1)
