"""The beat of a site's agent: what it sees is stored, what is wanted is answered."""

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from pit_protocol.durations import DAY_S
from pit_protocol.messages.beat import STALE_EPOCH
from pit_protocol.messages.site import AllocationState, GpuNeed, SeenAllocation, SiteBeat, Wish, Wishes
from pit_protocol.problem import Problem
from pit_server.db.database import Database, notify_after_commit
from pit_server.db.models import Site, SiteAllocation
from pit_server.scheduler.kinds import ANY_GPU
from pit_server.services.nodes import nodes
from pit_server.services.sites import allocations
from pit_server.services.sites.properties import settings_of
from pit_server.services.sites.shape import Shape
from pit_server.services.users import tokens
from pit_server.services.validation import storable
from pit_server.settings import Settings
from pit_server.wakeups import SCHEDULER, STATUS

NOTE_SEEN_S = 15.0  # so that not every beat writes to the database
MAX_TEXT = 300
CODE_S = 30 * DAY_S  # an allocation may wait for long; its codes end with it at the latest
NOTICE_S = 15.0  # on top of the grace period
GONE = "the site no longer lists it"


def receive(database: Database, site_id: int, beat: SiteBeat, *, now: float) -> None:
    """Store what an agent reports; a beat of an older run of it is refused."""
    with database.read() as session:
        site = session.execute(select(Site).where(Site.id == site_id)).scalar_one()
        known = {each.name: each for each in allocations.list_live(session, site_id)}
        session.expunge_all()
    if not beat.begins and beat.session != site.session:
        raise Problem(STALE_EPOCH, f"another agent has taken over site {site.name}", status=409)
    _note_agent(database, site, beat, now=now)
    for refusal in beat.refusals:
        if found := known.get(refusal.name):
            with database.write() as session:
                allocations.refuse(session, site, found.id, refusal, now=now)
    if beat.allocations is None:
        return
    seen = {each.name: each for each in beat.allocations}
    for name, found in known.items():
        there = seen.get(name) or _absent(found)
        if there and allocations.is_news(found, there):
            with database.write() as session:
                allocations.note(session, site, found.id, there, now=now)


def _absent(known: SiteAllocation) -> SeenAllocation | None:
    """What it means that the site does not list an allocation."""
    if known.state == AllocationState.WANTED and known.is_wanted:
        return None  # the agent has not asked for it yet
    word = GONE if known.number else "never asked for"
    return SeenAllocation(known.name, known.number, AllocationState.ENDED, word)


def _note_agent(database: Database, site: Site, beat: SiteBeat, *, now: float) -> None:
    trouble, account = storable(beat.trouble)[:MAX_TEXT], storable(beat.account)[:MAX_TEXT]
    is_fresh = site.seen_at is not None and 0 <= now - site.seen_at < NOTE_SEEN_S
    if not beat.begins and is_fresh and (trouble, account) == (site.trouble, site.account):
        return
    values = {"seen_at": now, "trouble": trouble, "account": account, "session": storable(beat.session)[:64]}
    with database.write() as session:
        session.execute(update(Site).where(Site.id == site.id).values(**values))
        if not is_fresh or trouble != site.trouble:
            notify_after_commit(session, STATUS, SCHEDULER)


def revision_of(session: Session, site_id: int) -> int:
    return session.execute(select(Site.revision).where(Site.id == site_id)).scalar_one()


def make_wishes(
    database: Database, site_id: int, cluster: str, settings: Settings, *, now: float, may_ask: bool
) -> Wishes:
    """What is wanted of a site; each that the agent may ask for now has fresh join codes."""
    with database.read() as session:
        site = session.execute(select(Site).where(Site.id == site_id)).scalar_one()
        live = [each for each in allocations.list_live(session, site_id) if each.is_wanted]
        session.expunge_all()
    new = {each.id for each in live if each.state == AllocationState.WANTED}
    codes = _make_codes(database, new, now=now) if new and may_ask else {}
    notice_s = settings.grace_s + NOTICE_S
    chosen = settings_of(site)
    wishes = tuple(
        _wish(each, notice_s, chosen.keep_s, chosen.options, codes.get(each.id, ())) for each in live
    )
    return Wishes(site.name, cluster, site.revision, wishes)


def _make_codes(database: Database, allocation_ids: set[int], *, now: float) -> dict[int, tuple[str, ...]]:
    made = {}
    with database.write() as session:
        for allocation_id in sorted(allocation_ids):
            pilots = allocations.list_pilots(session, allocation_id)
            for pilot in pilots:
                tokens.revoke_all(session, node_id=pilot.id)
            made[allocation_id] = tuple(
                nodes.make_join_code(session, pilot, now=now, good_for_s=CODE_S)[0] for pilot in pilots
            )
    return made


def _wish(
    allocation: SiteAllocation,
    notice_s: float,
    keep_s: float,
    options: dict[str, str],
    codes: tuple[str, ...],
) -> Wish:
    shape = Shape.from_json(allocation.shape)
    return Wish(
        name=allocation.name,
        nodes=shape.nodes,
        cores=shape.cores,
        memory_mib=shape.memory_mib,
        gpus=tuple(GpuNeed("" if kind == ANY_GPU else kind, count) for kind, count in shape.gpus),
        time_s=shape.time_s,
        notice_s=notice_s,
        keep_s=keep_s,
        options=options,
        codes=codes,
    )
