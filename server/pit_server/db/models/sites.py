"""Tables of sites and of the allocations that the head wants from them."""

from typing import Any

from sqlalchemy import ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from pit_server.db.models.base import Base


class Site(Base):
    """A cluster of others, such as one of Slurm, that runs jobs in allocations."""

    __tablename__ = "site"
    __table_args__ = ({"sqlite_autoincrement": True},)
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    kind: Mapped[str]
    settings: Mapped[dict[str, Any]] = mapped_column(default=dict)  # by property, as its admin wrote them
    session: Mapped[str] = mapped_column(default="")  # of its agent; beats of older ones are refused
    revision: Mapped[int] = mapped_column(default=0)  # +1 at each change of what is wanted
    account: Mapped[str] = mapped_column(default="")  # that its agent runs as
    seen_at: Mapped[float | None]  # the agent's last beat, to a minute
    trouble: Mapped[str] = mapped_column(default="")  # as its agent reports it
    failures: Mapped[int] = mapped_column(default=0)  # allocations in a row whose pilots did not join
    paused: Mapped[str] = mapped_column(default="")  # why it gets no jobs until its admin says so
    removed_at: Mapped[float | None]  # the row stays, because allocations refer to it


class SiteAllocation(Base):
    """Machines of a site for one attempt of a job; its pilots are nodes."""

    __tablename__ = "site_allocation"
    __table_args__ = (
        Index(
            "site_allocation_live",
            "site_id",
            sqlite_where=text("state <> 'ended'"),
            postgresql_where=text("state <> 'ended'"),
        ),
        Index("site_allocation_by_job", "job_id", "attempt"),
        {"sqlite_autoincrement": True},
    )
    id: Mapped[int] = mapped_column(primary_key=True)
    site_id: Mapped[int] = mapped_column(ForeignKey("site.id"))
    name: Mapped[str] = mapped_column(unique=True)
    job_id: Mapped[int]  # that it is for; a kept one gets another job
    attempt: Mapped[int]
    user_id: Mapped[int] = mapped_column(ForeignKey("user_account.id"))
    tries: Mapped[int] = mapped_column(default=1)  # the how manieth one for this attempt
    shape: Mapped[dict[str, Any]]  # what was asked for: a Shape of services/sites
    state: Mapped[str]  # an AllocationState
    is_wanted: Mapped[bool] = mapped_column(default=True)
    number: Mapped[str] = mapped_column(default="")  # as the site numbers it
    word: Mapped[str] = mapped_column(default="")  # the site's word for its state
    reason: Mapped[str] = mapped_column(
        default=""
    )  # why it waits, in the site's words, or why it was dropped
    output: Mapped[str] = mapped_column(default="")  # the end of what its pilots wrote
    hosts: Mapped[str] = mapped_column(default="")
    created_at: Mapped[float]
    running_at: Mapped[float | None]
    joined_at: Mapped[float | None]  # when all its pilots had joined
    idle_at: Mapped[float | None]  # since when it has no job
    starts_at: Mapped[float | None]  # the site's estimate
    ends_at: Mapped[float | None]  # by its time limit
