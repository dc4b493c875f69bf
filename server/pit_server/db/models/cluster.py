"""Tables of the whole cluster: single values, the audit, the trash."""

from typing import Any

from sqlalchemy import Index
from sqlalchemy.orm import Mapped, mapped_column

from pit_server.db.models.base import Base


class Fact(Base):
    """Single values about the whole cluster, such as its id."""

    __tablename__ = "fact"
    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]


class Audit(Base):
    """Who did what when; triggers prevent changes and deletion."""

    __tablename__ = "audit"
    __table_args__ = ({"sqlite_autoincrement": True},)
    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[float]
    actor: Mapped[str]  # a user's name, `node:<name>`, or `-` if unknown
    act: Mapped[str]
    object: Mapped[str]  # such as `user:anna`
    detail: Mapped[str]
    address: Mapped[str]


class Discard(Base):
    """Something in the trash, and where it came from.

    Files are moved to the trash. A job or user stays where it is, and its `removed_at` hides it.
    """

    __tablename__ = "discard"
    __table_args__ = (Index("discard_by_domain", "domain"), {"sqlite_autoincrement": True})
    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(default="files")  # or all of a `job`, `user` or `group`
    domain: Mapped[str]  # `user:anna`, `group:lab`, `job:7`
    path: Mapped[str]  # below the domain, as in URLs; empty: all of it
    place: Mapped[str] = mapped_column(unique=True)  # its name in the trash
    actor: Mapped[str]
    at: Mapped[float]
    record: Mapped[dict[str, Any]] = mapped_column(default=dict)  # what other tables had of it
    is_purged: Mapped[bool] = mapped_column(default=False)  # is being deleted for good
