"""Allocations of sites: asked for, seen, dropped, ended. Each is for one attempt of a job at a time."""

from collections.abc import Sequence

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from pit_protocol.messages.site import MAX_OUTPUT, AllocationState, Refusal, SeenAllocation
from pit_protocol.states import NodeState
from pit_server.db.database import notify_after_commit
from pit_server.db.models import IS_LIVE, Node, Process, Site, SiteAllocation
from pit_server.services import cluster
from pit_server.services.jobs import lifecycle
from pit_server.services.jobs.processes import lost_processes
from pit_server.services.jobs.processes.report_batch import release
from pit_server.services.nodes import nodes
from pit_server.services.sites.properties import settings_of
from pit_server.services.sites.shape import Shape
from pit_server.services.users import tokens
from pit_server.services.validation import storable
from pit_server.wakeups import SCHEDULER, STATUS, site_topic

TRIES = 3  # for an attempt, and allocations in a row that pause a site
REFUSED = "refused"  # as the word of an allocation: the site will never give it
MAX_TEXT = 300
IS_THERE = SiteAllocation.state != AllocationState.ENDED


def list_live(session: Session, site_id: int | None = None) -> Sequence[SiteAllocation]:
    query = select(SiteAllocation).where(IS_THERE).order_by(SiteAllocation.id)
    if site_id is not None:
        query = query.where(SiteAllocation.site_id == site_id)
    return session.execute(query).scalars().all()


def list_pilots(session: Session, allocation_id: int) -> Sequence[Node]:
    query = select(Node).where(Node.site_allocation_id == allocation_id, Node.removed_at.is_(None))
    return session.execute(query.order_by(Node.id)).scalars().all()


def list_begun(session: Session) -> set[int]:
    """Allocations that run: the site says so, or a pilot is there already."""
    running = select(SiteAllocation.id).where(SiteAllocation.state == AllocationState.RUNNING)
    joined = select(Node.site_allocation_id).where(
        Node.site_allocation_id.is_not(None), Node.state == NodeState.ONLINE
    )
    return {found for query in (running, joined) for found in session.execute(query).scalars() if found}


def ask(
    session: Session,
    site: Site,
    number: int,
    attempt: int,
    user_id: int,
    shape: Shape,
    tries: int,
    *,
    now: float,
) -> SiteAllocation:
    """Want an allocation for an attempt of a job; its pilots are nodes from now on."""
    name = f"pit-{cluster.find_id(session)}-{number}-{attempt}" + (f".{tries}" if tries > 1 else "")
    found = SiteAllocation(
        site_id=site.id,
        name=name,
        job_id=number,
        attempt=attempt,
        user_id=user_id,
        tries=tries,
        shape=shape.to_json(),
        state=AllocationState.WANTED,
        created_at=now,
    )
    session.add(found)
    session.flush()
    for index in range(shape.nodes):
        # Named again once the site has numbered the allocation.
        pilot = Node(name=f"{site.name}/~{found.id}.{index}", labels={}, cores=0, memory_mib=0)
        pilot.state, pilot.since, pilot.service = NodeState.NEW, now, NodeState.ONLINE
        pilot.site_allocation_id = found.id
        pilot.shared_account = settings_of(site).shared_account
        session.add(pilot)
    session.flush()
    change(session, site.id)
    return found


def change(session: Session, site_id: int) -> None:
    """Mark that what is wanted of the site has changed; its agent's held beat is answered at the commit."""
    session.execute(update(Site).where(Site.id == site_id).values(revision=Site.revision + 1))
    notify_after_commit(session, site_topic(site_id), SCHEDULER, STATUS)


def drop(session: Session, allocation_id: int, why: str) -> None:
    """Want an allocation no longer; one that was never seen is over with that."""
    found = session.get(SiteAllocation, allocation_id, with_for_update=True)
    if found is None or not found.is_wanted:
        return
    found.is_wanted, found.reason = False, why[:MAX_TEXT]
    session.flush()
    change(session, found.site_id)


def has_processes(session: Session, allocation_id: int) -> bool:
    query = (
        select(Process.id)
        .join(Node, Node.id == Process.node_id)
        .where(Node.site_allocation_id == allocation_id, IS_LIVE)
    )
    return session.execute(query.limit(1)).first() is not None


def is_news(known: SiteAllocation, seen: SeenAllocation) -> bool:
    before = (
        known.state,
        known.number,
        known.word,
        known.reason,
        known.starts_at,
        known.ends_at,
        known.hosts,
    )
    after = (
        seen.state,
        seen.id,
        seen.word,
        _text(seen.reason),
        seen.starts_at,
        seen.ends_at,
        _text(seen.hosts),
    )
    return before != after and not (not known.is_wanted and seen.state is not AllocationState.ENDED)


def note(session: Session, site: Site, known_id: int, seen: SeenAllocation, *, now: float) -> None:
    """Store what the site says of an allocation."""
    if seen.state is AllocationState.ENDED:
        text = f"{seen.word}: {seen.reason}" if seen.reason else seen.word
        end(session, site, known_id, seen.word, text, storable(seen.output), now=now)
        return
    known = session.get(SiteAllocation, known_id, with_for_update=True)
    if known is None or known.state == AllocationState.ENDED:
        return
    if not known.number:
        known.number = storable(seen.id)[:MAX_TEXT]
        _name_pilots(session, site.name, known)
    if seen.state is AllocationState.RUNNING and known.running_at is None:
        known.running_at = now
    known.state, known.word = seen.state, storable(seen.word)[:MAX_TEXT]
    if known.is_wanted:
        known.reason = _text(seen.reason)
    known.starts_at, known.ends_at, known.hosts = seen.starts_at, seen.ends_at, _text(seen.hosts)
    session.flush()
    notify_after_commit(session, SCHEDULER, STATUS)


def refuse(session: Session, site: Site, known_id: int, refusal: Refusal, *, now: float) -> None:
    """The site will never give this one."""
    known = session.get(SiteAllocation, known_id)
    if known is not None and known.state == AllocationState.WANTED:
        end(session, site, known_id, REFUSED, _text(refusal.text), "", now=now)


def end(
    session: Session, site: Site, allocation_id: int, word: str, text: str, output: str, *, now: float
) -> None:
    """An allocation is over, as its site says: what still runs in it is lost, its pilots are removed."""
    allocation = session.get(SiteAllocation, allocation_id)
    if allocation is None or allocation.state == AllocationState.ENDED:
        return
    pilots = list_pilots(session, allocation_id)
    reason = f"{site.name} ended its allocation {allocation.number}: {text}"
    for pilot in pilots:
        lost_processes.mark_lost(session, pilot.id, reason, now=now, actor=lifecycle.HEAD)
    for pilot in pilots:
        # The site has ended everything in it, so nothing keeps what it held.
        if gone := lost_processes.list_gone(session, pilot.id, ()):
            release(session, gone, now=now)
        tokens.revoke_all(session, node_id=pilot.id)
        nodes.mark_removed(session, pilot, now=now)
    session.refresh(allocation, with_for_update=True)
    is_failure = allocation.is_wanted and allocation.joined_at is None and word != REFUSED
    allocation.state, allocation.word, allocation.output = (
        AllocationState.ENDED,
        word[:MAX_TEXT],
        output[-MAX_OUTPUT:],
    )
    if allocation.is_wanted:
        allocation.reason = text[:MAX_TEXT]
    session.flush()
    if is_failure:
        note_failure(session, site.id, f"{allocation.name}: {last_words(allocation) or text}")
    change(session, site.id)


def note_failure(session: Session, site_id: int, text: str) -> None:
    """Pilots did not join; a site at which that happens again and again gets no more jobs."""
    site = session.execute(select(Site).where(Site.id == site_id).with_for_update()).scalar_one()
    site.failures += 1
    if site.failures >= TRIES and not site.paused:
        site.paused = (
            f"{site.failures} allocations in a row ended before their pilots joined; the last one, {text}"[
                : 2 * MAX_TEXT
            ]
        )
    session.flush()
    notify_after_commit(session, STATUS)


def note_joined(session: Session, allocation_id: int, *, now: float) -> None:
    found = session.get(SiteAllocation, allocation_id, with_for_update=True)
    if found is not None and found.joined_at is None:
        found.joined_at = now
        session.execute(update(Site).where(Site.id == found.site_id).values(failures=0))
        session.flush()
        if found.state != AllocationState.RUNNING:
            # Its pilots were faster than the agent's look, which alone tells until when it runs.
            change(session, found.site_id)


def last_words(allocation: SiteAllocation) -> str:
    """The last lines that its pilots wrote."""
    return " / ".join(line.strip() for line in allocation.output.splitlines()[-3:] if line.strip())


def _name_pilots(session: Session, site: str, allocation: SiteAllocation) -> None:
    pilots = list_pilots(session, allocation.id)
    names = [f"{site}/{allocation.number}.{index}" for index in range(len(pilots))]
    if session.execute(select(Node.id).where(Node.name.in_(names))).first():
        # The site began to count anew.
        names = [f"{site}/{allocation.number}-{allocation.id}.{index}" for index in range(len(pilots))]
    for pilot, name in zip(pilots, names, strict=True):
        pilot.name = name
    session.flush()


def _text(text: str) -> str:
    return storable(text)[:MAX_TEXT]
