"""Sites as the API shows them."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.answers import sites as answers
from pit_protocol.messages.site import SiteKind
from pit_server.db.models import Job, Site, SiteAllocation, User
from pit_server.services.sites import allocations, sites
from pit_server.services.sites.properties import texts_of
from pit_server.services.sites.shape import Shape
from pit_server.services.sites.site_jobs import OFFLINE_S, WORDS
from pit_server.services.users.access import visible
from pit_server.services.users.tokens import Caller


def records(session: Session, caller: Caller, name: str | None = None, *, now: float) -> list[answers.Site]:
    """All sites, or one; a job that the caller may not see is not named."""
    found = [sites.find(session, name)] if name else sites.list_all(session)
    return [_record(session, caller, site, now) for site in found]


def _record(session: Session, caller: Caller, site: Site, now: float) -> answers.Site:
    query = (
        select(SiteAllocation, Job.id, User.name)
        .join(User, User.id == SiteAllocation.user_id)
        .outerjoin(Job, (Job.id == SiteAllocation.job_id) & visible(caller))
        .where(SiteAllocation.site_id == site.id, allocations.IS_THERE)
        .order_by(SiteAllocation.id)
    )
    return answers.Site(
        name=site.name,
        kind=site.kind,
        state=sites.state_of(site, now=now, offline_after_s=OFFLINE_S),
        since=site.seen_at,
        account=site.account,
        trouble=site.paused or site.trouble,
        properties=texts_of(site),
        allocations=[
            answers.SiteAllocation(
                name=allocation.name,
                id=allocation.number,
                job=job,
                user=user,
                state=allocation.state if allocation.is_wanted else "ending",
                text=str(Shape.from_json(allocation.shape)),
                says=f"{WORDS[SiteKind(site.kind)]} says {allocation.reason}" if allocation.reason else "",
                starts_at=allocation.starts_at,
                ends_at=allocation.ends_at,
            )
            for allocation, job, user in session.execute(query)
        ],
    )
