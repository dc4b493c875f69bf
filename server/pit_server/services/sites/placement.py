"""From a waiting job to processes on pilots: ask its site, wait for all pilots to join, place, let go."""

import logging
from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from pit_protocol.messages.site import AllocationState
from pit_protocol.states import JobEvent, JobState, NodeState, Outcome
from pit_server.db.database import Database
from pit_server.db.models import Job, Site, SiteAllocation
from pit_server.scheduler.demand import EVERYTHING, PACK, SPREAD
from pit_server.scheduler.demand import Shape as JobShape
from pit_server.scheduler.order import Waiting
from pit_server.scheduler.plan import FULL_PASS_S, Given, Plan, plan
from pit_server.services.jobs import lifecycle
from pit_server.services.jobs.processes import plan_commit
from pit_server.services.scheduling.nodes import pilot_nodes
from pit_server.services.sites import allocations
from pit_server.services.sites.properties import settings_of
from pit_server.services.sites.shape import Shape, at_site
from pit_server.services.sites.site_jobs import SiteJob
from pit_server.settings import Settings

JOIN_S = 120.0  # for all pilots, once the site has started an allocation
LEAVE_S = 15.0  # for the pilots to leave by themselves
LOOK_S = 2.0  # between two looks while something has a deadline

log = logging.getLogger(__name__)


def advance(database: Database, jobs: Sequence[SiteJob], settings: Settings, *, now: float) -> float | None:
    """Do what can be done now; returns when to look again, None if nothing is under way."""
    with database.read() as session:
        live = list(allocations.list_live(session))
        if not live and not jobs:
            return None
        needed = {(job.number, job.attempt): job for job in jobs}
        begun = allocations.list_begun(session)
        idle = [
            each for each in live if (each.job_id, each.attempt) not in needed and _is_idle(session, each)
        ]
        session.expunge_all()
    for allocation in idle:
        _let_go(database, allocation, now=now)
    mine = {(each.job_id, each.attempt): each for each in live}
    kept = [each for each in idle if each.joined_at is not None and each.is_wanted]
    for job in jobs:
        found = mine.get((job.number, job.attempt)) or _reuse(database, job, kept, now=now)
        if found is None:
            # The agent is about to say for how long it runs: a second one would be one too many.
            if not any(_may_serve(each, job) and each.state != AllocationState.RUNNING for each in kept):
                _ask(database, job, now=now)
        elif found.is_wanted and found.number and found.id in begun:
            _start(database, job, found, settings, now=now)
    is_urgent = idle or any(each.id in begun and each.joined_at is None for each in live)
    return LOOK_S if is_urgent else FULL_PASS_S


def _is_idle(session: Session, allocation: SiteAllocation) -> bool:
    """Whether nothing runs in an allocation, and its job does not wait for it."""
    job = session.execute(select(Job.state, Job.attempt).where(Job.id == allocation.job_id)).one_or_none()
    is_current = job is not None and job.attempt == allocation.attempt
    # A job that is held back for another reason keeps its place in the site's queue.
    if is_current and job and job.state == JobState.WAITING:
        return False
    return not allocations.has_processes(session, allocation.id)


def _let_go(database: Database, allocation: SiteAllocation, *, now: float) -> None:
    """Drop an allocation that has no job, or keep it for a while if its site says so."""
    with database.write() as session:
        found = session.get(SiteAllocation, allocation.id, with_for_update=True)
        if found is None or not found.is_wanted:
            return
        if found.idle_at is None:
            found.idle_at = allocation.idle_at = now
            session.flush()
        site = session.execute(select(Site).where(Site.id == found.site_id)).scalar_one()
        patience_s = settings_of(site).keep_s + LEAVE_S if found.joined_at is not None else 0.0
        if now - found.idle_at >= patience_s:
            allocations.drop(session, found.id, "its job needs it no more")


def _reuse(
    database: Database, job: SiteJob, kept: list[SiteAllocation], *, now: float
) -> SiteAllocation | None:
    """Give the job an allocation that an earlier job of the same user has left."""
    for allocation in list(kept):
        left_s = (allocation.ends_at or now) - now
        if left_s < job.needs_s or not _may_serve(allocation, job):
            continue
        kept.remove(allocation)
        with database.write() as session:
            found = session.get(SiteAllocation, allocation.id, with_for_update=True)
            if found is None or not found.is_wanted or found.state != AllocationState.RUNNING:
                continue
            found.job_id, found.attempt, found.idle_at = job.number, job.attempt, None
            session.flush()
            session.expunge(found)
        return found
    return None


def _may_serve(allocation: SiteAllocation, job: SiteJob) -> bool:
    """Whether a kept allocation is for the job's user, and large enough."""
    is_mine = allocation.site_id == job.site_id and allocation.user_id == job.user_id
    return is_mine and Shape.from_json(allocation.shape).serves(job.shape)


def _ask(database: Database, job: SiteJob, *, now: float) -> None:
    with database.write() as session:
        site = session.execute(select(Site).where(Site.id == job.site_id).with_for_update()).scalar_one()
        mine = (SiteAllocation.job_id == job.number) & (SiteAllocation.attempt == job.attempt)
        earlier = select(SiteAllocation).where(mine, SiteAllocation.site_id == site.id)
        before = list(session.execute(earlier.order_by(SiteAllocation.id)).scalars())
        failed = [each for each in before if each.joined_at is None]
        if failed and (failed[-1].word == allocations.REFUSED or len(failed) >= allocations.TRIES):
            if job.is_pinned:
                _refuse(session, job, site, failed, now=now)
            return
        count = select(func.count()).select_from(SiteAllocation)
        there = count.where(SiteAllocation.site_id == site.id, allocations.IS_THERE)
        if site.paused or session.execute(there).scalar_one() >= settings_of(site).most:
            return
        tries = len(before) + 1
        allocations.ask(session, site, job.number, job.attempt, job.user_id, job.shape, tries, now=now)


def _refuse(
    session: Session, job: SiteJob, site: Site, failed: Sequence[SiteAllocation], *, now: float
) -> None:
    """End a job that its site does not run."""
    last = failed[-1]
    said = allocations.last_words(last) or last.reason
    if last.word == allocations.REFUSED:
        reason = f"{site.name} refuses {job.shape}: {said}"
    else:
        reason = f"in {len(failed)} allocations of {site.name} not all pilots joined: {said}"
    locked = lifecycle.lock(session, job.number)
    if locked.state is JobState.WAITING:
        lifecycle.advance(session, locked, JobEvent.REFUSED, now=now, outcome=Outcome.FAILED, reason=reason)


def _start(
    database: Database, job: SiteJob, allocation: SiteAllocation, settings: Settings, *, now: float
) -> None:
    """Place the job once all pilots have joined; drop an allocation in which one is missing for too long."""
    with database.read() as session:
        pilots = allocations.list_pilots(session, allocation.id)
        missing = [pilot for pilot in pilots if pilot.state != NodeState.ONLINE]
        views = pilot_nodes(session, allocation.id, now=now)
        site = session.execute(select(Site).where(Site.id == job.site_id)).scalar_one()
        mode = SPREAD if settings_of(site).per_node == 1 else PACK
        troubles = [f"{pilot.name}: {pilot.trouble}" for pilot in pilots if pilot.trouble]
    waited_s = now - max(allocation.running_at or now, allocation.idle_at or 0.0)
    if missing or not pilots or len(views) < len(pilots):
        if waited_s >= JOIN_S:
            why = f"{len(missing)} of {len(pilots)} pilots are missing after {JOIN_S:g} s"
            _give_up(database, allocation, "; ".join([why, *troubles[:1]]))
        return
    shape = JobShape(at_site(job.request), EVERYTHING, mode=mode)
    made = plan(Given({job.number: Waiting(job.number, shape)}, views, views, now=now))
    if not made.placements:
        reason = next(iter(made.reasons.values()), None)
        _give_up(
            database, allocation, f"its pilots are too small: {reason.render() if reason else 'unknown'}"
        )
        return
    with database.write() as session:
        allocations.note_joined(session, allocation.id, now=now)
    plan_commit.commit(database, Plan(made.placements), settings, now=now)


def _give_up(database: Database, allocation: SiteAllocation, why: str) -> None:
    log.warning("allocation %s (%s) is dropped: %s", allocation.name, allocation.number, why)
    with database.write() as session:
        allocations.note_failure(session, allocation.site_id, f"{allocation.name}: {why}")
        allocations.drop(session, allocation.id, why)
