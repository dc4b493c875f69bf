"""Sites: adding, joining, properties, who may use them, removal."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from pit_protocol.messages.site import AllocationState
from pit_protocol.problem import Problem
from pit_server.db.database import notify_after_commit
from pit_server.db.models import Group, Membership, Node, Site, SiteAllocation, User
from pit_server.services import names
from pit_server.services.nodes.capacity import count_users
from pit_server.services.properties import Property
from pit_server.services.sites.properties import ONLINE, PAUSED, SiteSettings, settings_of
from pit_server.services.users import groups, tokens
from pit_server.wakeups import SCHEDULER, STATUS, site_topic

BY_ADMIN = "its admin has paused it"


def add(session: Session, name: str) -> Site:
    """Add a site; a removed one is added again as new. Requests name sites like nodes, so names differ."""
    names.check_name("site", name)
    if session.execute(select(Node.id).where(Node.name == name, Node.removed_at.is_(None))).first():
        raise Problem("exists", f"there is a node {name} already", "give the site another name", status=409)
    site = session.execute(select(Site).where(Site.name == name).with_for_update()).scalar_one_or_none()
    if site is not None and site.removed_at is None:
        raise names.exists("site", name)
    if site is None:
        site = Site(name=name, kind="", settings={})
        session.add(site)
    site.settings, site.session, site.account, site.trouble, site.paused = {}, "", "", "", ""
    site.failures, site.seen_at, site.removed_at = 0, None, None
    session.flush()
    return site


def find(session: Session, name: str, *, lock: bool = False) -> Site:
    query = select(Site).where(Site.name == name, Site.removed_at.is_(None))
    site = session.execute(query.with_for_update() if lock else query).scalar_one_or_none()
    if site is None:
        raise names.unknown("site", name)
    return site


def list_all(session: Session) -> list[Site]:
    return list(session.execute(select(Site).where(Site.removed_at.is_(None)).order_by(Site.name)).scalars())


def make_join_code(session: Session, site: Site, *, now: float, good_for_s: float) -> tuple[str, float]:
    """Create a code that lets one agent join; returns it and its expiry."""
    expires_at = now + good_for_s
    _, code = tokens.issue(session, site_id=site.id, now=now, expires_at=expires_at, label="join", joins=True)
    return code, expires_at


def join(session: Session, site_id: int, code_id: int, *, now: float) -> tuple[str, str]:
    """Consume a join code; returns the site's name and its agent's token. Older tokens are revoked."""
    site = session.execute(select(Site).where(Site.id == site_id).with_for_update()).scalar_one()
    tokens.use_up(session, code_id)
    tokens.revoke_all(session, site_id=site_id)
    _, text = tokens.issue(session, site_id=site_id, now=now, expires_at=None, label="agent")
    return site.name, text


def set_properties(session: Session, site: Site, values: Sequence[tuple[Property, str, Any]]) -> None:
    given = dict(site.settings)
    for _, name, value in values:
        if name == "kind":
            if site.kind and site.kind != value:
                hint = f"`pit remove site:{site.name}` first"
                raise Problem("bad_kind", "the kind of a site cannot change", hint, status=409)
            site.kind = value
        elif name == "state":
            site.paused, site.failures = (BY_ADMIN if value == PAUSED else ""), 0
        elif name == "groups":
            given[name] = [groups.find(session, group).name for group in value]
        else:
            given[name] = value
    site.settings = given
    session.flush()
    notify_after_commit(session, SCHEDULER, STATUS, site_topic(site.id))


def remove(session: Session, site: Site, *, now: float) -> None:
    """Remove a site without allocations, and revoke its agent's token."""
    live = select(SiteAllocation.job_id).where(
        SiteAllocation.site_id == site.id, SiteAllocation.state != AllocationState.ENDED
    )
    if numbers := list(session.execute(live.order_by(SiteAllocation.job_id)).scalars()):
        why = f"{names.jobs(numbers)} allocations there"
        raise names.in_use(
            f"site {site.name}", why, f"`pit set site:{site.name} state={PAUSED}` gives it no more"
        )
    tokens.revoke_all(session, site_id=site.id)
    site.removed_at = now
    session.flush()
    notify_after_commit(session, SCHEDULER, STATUS)


def state_of(site: Site, *, now: float, offline_after_s: float) -> str:
    if site.paused:
        return PAUSED
    if site.seen_at is None:
        return "new"
    return ONLINE if now - site.seen_at < offline_after_s else "offline"


def why_not(session: Session, site: Site, user_id: int) -> str:
    """Why a user may not use a site; empty if they may."""
    chosen = settings_of(site)
    if chosen.groups and not _is_member(session, user_id, chosen):
        return f"site {site.name} is for members of {', '.join(chosen.groups)}"
    if not chosen.shared_account and _count_users(session, chosen) > 1:
        return (
            f"all users' jobs would run as {site.account or 'one account'} at site {site.name}; "
            f"an admin can allow that: `pit set site:{site.name} shared_account=yes`"
        )
    return ""


def _is_member(session: Session, user_id: int, chosen: SiteSettings) -> bool:
    query = (
        select(Membership.user_id)
        .join(Group, Group.id == Membership.group_id)
        .where(Membership.user_id == user_id, Group.name.in_(chosen.groups))
    )
    return session.execute(query).first() is not None


def _count_users(session: Session, chosen: SiteSettings) -> int:
    if not chosen.groups:
        return count_users(session)
    members = (
        select(func.count(Membership.user_id.distinct()))
        .join(Group, Group.id == Membership.group_id)
        .join(User, User.id == Membership.user_id)
        .where(Group.name.in_(chosen.groups), User.is_active, User.removed_at.is_(None))
    )
    return session.execute(members).scalar_one()
