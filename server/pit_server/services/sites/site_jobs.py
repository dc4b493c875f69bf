"""Jobs that run at sites: which they are, what they wait for, and whether a site can take a new one."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_grammar import Request
from pit_protocol.job_options import ANY, PROCESS, JobOptions
from pit_protocol.messages.site import AllocationState, SiteKind
from pit_protocol.problem import Problem
from pit_protocol.wire import to_json
from pit_server.db.database import AnyRow
from pit_server.db.models import Node, Site, SiteAllocation
from pit_server.scheduler.reason import Reason
from pit_server.services.jobs import time_limits
from pit_server.services.jobs.processes import runtimes
from pit_server.services.sites import allocations, sites
from pit_server.services.sites.properties import SiteSettings, settings_of
from pit_server.services.sites.shape import Shape, names_of, shape_of

OFFLINE_S = 60.0  # of silence of an agent
MARGIN_S = 180.0  # of an allocation's time on top of its job's: to join, and to copy data in and out
WORDS = {SiteKind.SLURM: "Slurm"}
Parse = Callable[[str], Request]


class SiteJob(NamedTuple):
    """A waiting job that a site may run."""

    number: int
    attempt: int
    user_id: int
    site_id: int
    shape: Shape
    request: Request
    is_pinned: bool  # it names the site, and runs nowhere else
    needs_s: float  # of a kept allocation's time must be left


class SiteQueue(NamedTuple):
    jobs: Sequence[SiteJob] = ()
    reasons: Mapping[int, Reason] = {}  # of those that run nowhere else


def find(session: Session, rows: Sequence[AnyRow], parse: Parse, *, now: float) -> SiteQueue:
    """Those of the waiting jobs that sites may run."""
    known = {site.name: site for site in sites.list_all(session)}
    if not known:
        return SiteQueue()
    live = {(each.job_id, each.attempt): each for each in allocations.list_live(session)}
    jobs, reasons = [], {}
    for row in rows:
        request = parse(row.request)
        pinned = next((known[name] for name in names_of(request) if name in known), None)
        site = pinned or _overflow(session, known.values(), row, now)
        if site is None:
            continue
        chosen, limit_s = settings_of(site), time_limits.limit_s(row.options)
        shape = make_shape(request, limit_s, chosen)
        needs_s = chosen.time_s / 2 if limit_s is None else limit_s + MARGIN_S / 3
        job = SiteJob(row.id, row.attempt, row.user_id, site.id, shape, request, pinned is not None, needs_s)
        jobs.append(job)
        if pinned is not None:
            reasons[row.id] = _reason(session, site, job, live.get((row.id, row.attempt)), now)
    return SiteQueue(jobs, reasons)


def make_shape(request: Request, limit_s: float | None, chosen: SiteSettings) -> Shape:
    """What to ask for; an allocation that is kept has at least the site's time, for the jobs that follow."""
    time_s = chosen.time_s if limit_s is None else limit_s + MARGIN_S
    return shape_of(request, chosen.per_node, max(time_s, chosen.time_s) if chosen.keep_s else time_s)


def check(session: Session, user_id: int, request: Request, options: JobOptions) -> bool:
    """Whether a new job is for a site; a Problem if that site does not take it."""
    known = {site.name: site for site in sites.list_all(session)}
    named = names_of(request) & known.keys()
    if not named:
        return False
    places = {str(group.placement or "anywhere") for group in request.groups}
    name = min(named)
    if len(places) > 1:
        hint = f"write @{name} after each process group"
        raise Problem(
            "bad_place",
            f"a job runs at one site as a whole, not at {' and '.join(sorted(places))}",
            hint,
            status=422,
        )
    if why := sites.why_not(session, known[name], user_id):
        raise Problem("not_allowed", why, "`pit show sites` lists them", status=403)
    if runtimes.needed(to_json(options)) not in (ANY, PROCESS):
        raise Problem(
            "bad_runtime", f"site {name} runs no containers", "submit the job without an image", status=422
        )
    if options.array is not None or options.sweep:
        raise Problem(
            "bad_array",
            f"site {name} takes single jobs, not arrays",
            "submit its elements one by one",
            status=422,
        )
    return True


def _overflow(session: Session, known: Iterable[Site], row: AnyRow, now: float) -> Site | None:
    """The first site that takes a job which has waited for so long, and names no place."""
    if "@" in row.request or row.array_next is not None or row.id < 0:
        return None
    for site in known:
        after_s = settings_of(site).overflow_s
        is_due = after_s is not None and now - row.since >= after_s and not site.paused
        if (
            is_due
            and runtimes.needed(row.options) in (ANY, PROCESS)
            and not sites.why_not(session, site, row.user_id)
        ):
            return site
    return None


def _reason(
    session: Session, site: Site, job: SiteJob, allocation: SiteAllocation | None, now: float
) -> Reason:
    trouble = _trouble(site, now)
    if allocation is None:
        return Reason(f"waits to ask {site.name} for {job.shape}" + (f"; {trouble}" if trouble else ""))
    asked = f"asked {site.name} for {Shape.from_json(allocation.shape)}"
    if allocation.number:
        asked += f" as {allocation.number}"
    says = trouble or _says(session, site, allocation)
    return Reason(f"{asked}; {says}" if says else asked)


def _says(session: Session, site: Site, allocation: SiteAllocation) -> str:
    if allocation.state == AllocationState.RUNNING:
        query = select(Node.epoch).where(Node.site_allocation_id == allocation.id, Node.removed_at.is_(None))
        epochs = list(session.execute(query).scalars())
        where = f"it runs on {allocation.hosts}" if allocation.hosts else "it runs"
        return f"{where}, and {sum(map(bool, epochs))} of {len(epochs)} pilots have joined"
    if allocation.state != AllocationState.PENDING:
        return ""
    about = f", about {_clock(allocation.starts_at)}" if allocation.starts_at else ""
    return f"{WORDS[SiteKind(site.kind)]} says {allocation.reason or allocation.word}{about}"


def _trouble(site: Site, now: float) -> str:
    if site.paused:
        return f"site {site.name} is paused: {site.paused}"
    if site.seen_at is None:
        return f"the agent of site {site.name} has not joined yet"
    if now - site.seen_at > OFFLINE_S:
        return f"the agent of site {site.name} is silent since {_clock(site.seen_at)}"
    return f"site {site.name} is in trouble: {site.trouble}" if site.trouble else ""


def _clock(at: float) -> str:
    day = "" if abs(at - time.time()) < 12 * 3600 else "%Y-%m-%d "
    return time.strftime(f"{day}%H:%M", time.localtime(at))
