"""Tables of users, groups and their secrets."""

from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from pit_server.db.models.base import Base


class User(Base):
    __tablename__ = "user_account"
    __table_args__ = (Index("user_account_uid", "uid", unique=True), {"sqlite_autoincrement": True})
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    full_name: Mapped[str] = mapped_column(default="")
    email: Mapped[str] = mapped_column(default="")
    password_hash: Mapped[str | None]  # None: login only by token
    is_admin: Mapped[bool] = mapped_column(default=False)
    is_active: Mapped[bool] = mapped_column(default=True)
    created_at: Mapped[float]
    approved_at: Mapped[float | None]
    removed_at: Mapped[float | None]  # the row stays, so that nobody else gets the name and with it the jobs
    uid: Mapped[int | None]  # set by an admin; None: derived from the id
    quota_mib: Mapped[int | None]  # of the home; None: no limit
    share_group_id: Mapped[int | None]  # group that is charged for what the user's jobs use
    max_priority: Mapped[str] = mapped_column(default="normal")  # that they may give their jobs
    limits: Mapped[dict[str, Any]] = mapped_column(default=dict)  # that an admin has set, by name
    notify: Mapped[str] = mapped_column(default="")  # events of their jobs that they are told of


class Group(Base):
    """Users who share access; nodes and resources can be reserved for them."""

    __tablename__ = "people_group"
    __table_args__ = (Index("people_group_gid", "gid", unique=True), {"sqlite_autoincrement": True})
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    title: Mapped[str] = mapped_column(default="")
    created_at: Mapped[float]
    gid: Mapped[int | None]  # like a user's uid
    quota_mib: Mapped[int | None]  # of its directory
    limits: Mapped[dict[str, Any]] = mapped_column(default=dict)  # of its members together


class Membership(Base):
    __tablename__ = "membership"
    user_id: Mapped[int] = mapped_column(ForeignKey("user_account.id"), primary_key=True)
    group_id: Mapped[int] = mapped_column(ForeignKey("people_group.id"), primary_key=True, index=True)
    autoshares: Mapped[bool] = mapped_column(default=False)  # share the user's new jobs with the group


class Secret(Base):
    """A secret of a user for the head to use; encrypted with a key that is not in the database."""

    __tablename__ = "secret"
    user_id: Mapped[int] = mapped_column(ForeignKey("user_account.id"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)  # such as `git.github.com`
    sealed: Mapped[str]


class Notification(Base):
    """A message to a user that is to be sent, was sent, or was given up."""

    __tablename__ = "notification"
    __table_args__ = (
        Index("notification_by_user", "user_id", "channel", "ended_at"),
        Index("notification_by_job", "job_id", "event"),
        Index(
            "notification_due",
            "next_at",
            sqlite_where=text("ended_at IS NULL"),
            postgresql_where=text("ended_at IS NULL"),
        ),
        {"sqlite_autoincrement": True},
    )
    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(unique=True)  # by which a receiver recognizes what it got twice
    user_id: Mapped[int] = mapped_column(ForeignKey("user_account.id"))
    job_id: Mapped[int | None] = mapped_column(ForeignKey("job.id"))
    attempt: Mapped[int] = mapped_column(default=0)
    event: Mapped[str]
    channel: Mapped[str]
    message: Mapped[dict[str, Any]]  # what it says
    created_at: Mapped[float]
    next_at: Mapped[float]  # when it is tried next
    tries: Mapped[int] = mapped_column(default=0)
    error: Mapped[str] = mapped_column(default="")  # of the latest try
    ended_at: Mapped[float | None]  # when it was sent or given up
    is_sent: Mapped[bool] = mapped_column(default=False)


class Token(Base):
    """A bearer token of a user, a node's worker or a site's agent; only the hash of its secret is stored."""

    __tablename__ = "token"
    __table_args__ = (
        CheckConstraint(
            "(user_id IS NOT NULL AND node_id IS NULL AND site_id IS NULL) OR "
            "(user_id IS NULL AND (node_id IS NULL) <> (site_id IS NULL))",
            name="token_has_one_owner",
        ),
        Index("token_by_attempt", "attempt_id"),
        {"sqlite_autoincrement": True},
    )
    id: Mapped[int] = mapped_column(primary_key=True)
    user_id: Mapped[int | None] = mapped_column(ForeignKey("user_account.id"))
    node_id: Mapped[int | None] = mapped_column(ForeignKey("node.id"))
    site_id: Mapped[int | None] = mapped_column(ForeignKey("site.id"))
    secret_sha256: Mapped[str]
    label: Mapped[str] = mapped_column(default="")
    created_at: Mapped[float]
    expires_at: Mapped[float | None]
    last_used_at: Mapped[float | None]
    joins: Mapped[bool] = mapped_column(
        default=False
    )  # a join code: valid once, and only to join as its node
    attempt_id: Mapped[int | None]  # a job's own: gives its user's data while the attempt runs
