"""Sites: clusters of others, which give allocations for jobs."""

from typing import Annotated

from msgspec import field

from pit_protocol.wire import SECRET, Answer, Float, Int


class SiteAllocation(Answer, frozen=True):
    name: str
    id: str  # as the site numbers it; empty before it is seen there
    job: Int | None  # None: none, or the caller may not see the job
    user: str
    state: str
    text: str  # what was asked for
    says: str  # why it waits, in the site's words
    starts_at: Float | None
    ends_at: Float | None


class Site(Answer, frozen=True):
    name: str
    kind: str
    state: str  # new, online, offline or paused
    since: Float | None  # its agent was heard last
    account: str  # that jobs run as there
    trouble: str  # why it takes no jobs, or empty
    properties: dict[str, str]
    allocations: list[SiteAllocation] = field(default_factory=list)


class SiteList(Answer, frozen=True):
    sites: list[Site]


class SiteAdded(Answer, frozen=True):
    site: Site
    join_code: Annotated[str, SECRET]
    expires_at: Float  # of the code


class SiteRemoved(Answer, frozen=True):
    name: str
