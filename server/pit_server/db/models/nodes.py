"""Tables of nodes, their resources and what these are called."""

from typing import Any

from sqlalchemy import ForeignKey, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from pit_server.db.models.base import Base


class Node(Base):
    __tablename__ = "node"
    __table_args__ = ({"sqlite_autoincrement": True},)
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    state: Mapped[str]
    since: Mapped[float]
    epoch: Mapped[int] = mapped_column(default=0)  # +1 at each session; beats of older sessions are refused
    revision: Mapped[int] = mapped_column(default=0)  # +1 at each change of its orders
    boot_id: Mapped[str] = mapped_column(default="")
    spool: Mapped[str] = mapped_column(default="")  # name of the spool of its worker
    hello_count: Mapped[int] = mapped_column(default=0)  # of the last hello from that spool
    address: Mapped[str] = mapped_column(default="")
    cores: Mapped[int] = mapped_column(default=0)
    memory_mib: Mapped[int] = mapped_column(default=0)
    slots: Mapped[int | None]  # None: max(8, 2 x cores)
    labels: Mapped[dict[str, Any]] = mapped_column(default=dict)
    service: Mapped[str] = mapped_column(default="online")  # the state its admin wants
    service_reason: Mapped[str] = mapped_column(default="")  # why its admin took it out of service
    maintenance_start: Mapped[float | None]  # of a window in which it takes no new processes
    maintenance_end: Mapped[float | None]
    fixed_address: Mapped[str] = mapped_column(default="")  # set by its admin; overrides the worker's own
    removed_at: Mapped[float | None]  # the row stays, because old jobs refer to it; it can be added again
    runtime: Mapped[str] = mapped_column(default="process")
    overlay: Mapped[str] = mapped_column(default="")  # overlay network of its containers
    separates_users: Mapped[bool] = mapped_column(
        default=False
    )  # its worker can run processes as their users
    account: Mapped[str] = mapped_column(default="")  # that its worker runs as
    shared_account: Mapped[bool] = mapped_column(default=False)  # set by its admin: users may share `account`
    failures: Mapped[dict[str, Any]] = mapped_column(default=dict)  # jobs that failed there in a row, by user
    trouble: Mapped[str] = mapped_column(default="")  # why it takes no new processes, as its worker reports
    site_allocation_id: Mapped[int | None] = mapped_column(index=True)  # of a pilot: what it runs in
    host: Mapped[str] = mapped_column(default="")  # of a pilot: what its site calls the machine


class Resource(Base):
    """One allocatable unit of a node, such as a GPU."""

    __tablename__ = "resource"
    __table_args__ = (UniqueConstraint("node_id", "unit"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    node_id: Mapped[int] = mapped_column(ForeignKey("node.id"))
    position: Mapped[int]
    unit: Mapped[str]
    model: Mapped[str]
    kind: Mapped[str]  # the folded model: lower case, without spaces
    is_present: Mapped[bool] = mapped_column(default=True)
    memory_mib: Mapped[int] = mapped_column(default=0)
    pci: Mapped[str] = mapped_column(default="")
    trouble: Mapped[str] = mapped_column(default="")  # why it is not allocated


class NodeGroup(Base):
    """A group that a node is reserved for."""

    __tablename__ = "node_group"
    node_id: Mapped[int] = mapped_column(ForeignKey("node.id"), primary_key=True)
    group_id: Mapped[int] = mapped_column(ForeignKey("people_group.id"), primary_key=True)


class ResourceGroup(Base):
    """A group that a single resource is reserved for."""

    __tablename__ = "resource_group"
    resource_id: Mapped[int] = mapped_column(ForeignKey("resource.id"), primary_key=True)
    group_id: Mapped[int] = mapped_column(ForeignKey("people_group.id"), primary_key=True)


class Alias(Base):
    """A short name of a model, as requests write it."""

    __tablename__ = "alias"
    name: Mapped[str] = mapped_column(primary_key=True)
    model: Mapped[str]
