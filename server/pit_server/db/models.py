"""The tables. Usage is always a sum over allocation rows, never a counter."""

from typing import Any, ClassVar

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Float,
    ForeignKey,
    Index,
    Integer,
    Text,
    UniqueConstraint,
    literal_column,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        str: Text,
        float: Float(53),
        dict[str, Any]: JSON,
        # SQLite counts keys up by itself only if they are plain integers, which hold 64 bits there.
        int: BigInteger().with_variant(Integer, "sqlite"),
    }


class Fact(Base):
    """Single values about the whole cluster, such as its id."""

    __tablename__ = "fact"
    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]


class User(Base):
    __tablename__ = "user_account"
    __table_args__ = (Index("user_account_uid", "uid", unique=True), {"sqlite_autoincrement": True})
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    full_name: Mapped[str] = mapped_column(default="")
    email: Mapped[str] = mapped_column(default="")
    password_hash: Mapped[str | None]  # None: only by token
    is_admin: Mapped[bool] = mapped_column(default=False)
    is_active: Mapped[bool] = mapped_column(default=True)
    created_at: Mapped[float]
    approved_at: Mapped[float | None]
    removed_at: Mapped[float | None]  # the row stays: nobody else gets the name, and with it the jobs
    uid: Mapped[int | None]  # by an admin; None: one that goes with the id
    quota_mib: Mapped[int | None]  # how much his home may hold; None: no limit


class Group(Base):
    """People who share access; nodes and resources can be kept for them."""

    __tablename__ = "people_group"
    __table_args__ = (Index("people_group_gid", "gid", unique=True), {"sqlite_autoincrement": True})
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    title: Mapped[str] = mapped_column(default="")
    created_at: Mapped[float]
    gid: Mapped[int | None]  # as a user's uid
    quota_mib: Mapped[int | None]  # how much its directory may hold


class Membership(Base):
    __tablename__ = "membership"
    user_id: Mapped[int] = mapped_column(ForeignKey("user_account.id"), primary_key=True)
    group_id: Mapped[int] = mapped_column(ForeignKey("people_group.id"), primary_key=True, index=True)
    autoshares: Mapped[bool] = mapped_column(default=False)  # new jobs of the user with the group


class JobGroup(Base):
    """A group that a job is shared with."""

    __tablename__ = "job_group"
    job_id: Mapped[int] = mapped_column(ForeignKey("job.id"), primary_key=True)
    group_id: Mapped[int] = mapped_column(ForeignKey("people_group.id"), primary_key=True, index=True)


class NodeGroup(Base):
    """A group that a node is kept for."""

    __tablename__ = "node_group"
    node_id: Mapped[int] = mapped_column(ForeignKey("node.id"), primary_key=True)
    group_id: Mapped[int] = mapped_column(ForeignKey("people_group.id"), primary_key=True)


class ResourceGroup(Base):
    """A group that a single resource is kept for."""

    __tablename__ = "resource_group"
    resource_id: Mapped[int] = mapped_column(ForeignKey("resource.id"), primary_key=True)
    group_id: Mapped[int] = mapped_column(ForeignKey("people_group.id"), primary_key=True)


class Alias(Base):
    """A short name of a model, as requests write it."""

    __tablename__ = "alias"
    name: Mapped[str] = mapped_column(primary_key=True)
    model: Mapped[str]


class Audit(Base):
    """Who did what when; triggers keep anyone from changing or deleting it."""

    __tablename__ = "audit"
    __table_args__ = ({"sqlite_autoincrement": True},)
    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[float]
    actor: Mapped[str]  # a user's name, `node:<name>`, or `-` for somebody unknown
    act: Mapped[str]
    object: Mapped[str]  # such as `user:anna`
    detail: Mapped[str]
    address: Mapped[str]


class Secret(Base):
    """What a user gave the head to use on his behalf; sealed with a key that is not in the database."""

    __tablename__ = "secret"
    user_id: Mapped[int] = mapped_column(ForeignKey("user_account.id"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)  # such as `git.github.com`
    sealed: Mapped[str]


class Token(Base):
    """A bearer token of a user or of a node's worker; only the hash of its secret is kept."""

    __tablename__ = "token"
    __table_args__ = (
        CheckConstraint("(user_id IS NULL) <> (node_id IS NULL)", name="token_has_one_owner"),
        Index("token_by_attempt", "attempt_id"),
        {"sqlite_autoincrement": True},
    )
    id: Mapped[int] = mapped_column(primary_key=True)
    user_id: Mapped[int | None] = mapped_column(ForeignKey("user_account.id"))
    node_id: Mapped[int | None] = mapped_column(ForeignKey("node.id"))
    secret_sha256: Mapped[str]
    label: Mapped[str] = mapped_column(default="")
    created_at: Mapped[float]
    expires_at: Mapped[float | None]
    last_used_at: Mapped[float | None]
    joins: Mapped[bool] = mapped_column(default=False)  # good for nothing but to join its node, once
    attempt_id: Mapped[int | None]  # a job's own: its user's data alone, and only while this runs


class Node(Base):
    __tablename__ = "node"
    __table_args__ = ({"sqlite_autoincrement": True},)
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    state: Mapped[str]
    since: Mapped[float]
    epoch: Mapped[int] = mapped_column(default=0)  # +1 at each session: an older one cannot speak
    revision: Mapped[int] = mapped_column(default=0)  # +1 at each change of its orders
    boot_id: Mapped[str] = mapped_column(default="")
    address: Mapped[str] = mapped_column(default="")
    cores: Mapped[int] = mapped_column(default=0)
    memory_mib: Mapped[int] = mapped_column(default=0)
    slots: Mapped[int | None]  # None: max(8, 2 x cores)
    labels: Mapped[dict[str, Any]] = mapped_column(default=dict)
    service: Mapped[str] = mapped_column(default="online")  # what its admin wants of it
    fixed_address: Mapped[str] = mapped_column(default="")  # by its admin; wins over the worker's own
    removed_at: Mapped[float | None]  # the row stays, for old jobs name it; it can be added again
    runtime: Mapped[str] = mapped_column(default="process")
    overlay: Mapped[str] = mapped_column(default="")  # network that its containers may join
    trouble: Mapped[str] = mapped_column(default="")  # why it takes no new processes, by its worker


class Resource(Base):
    """One allocatable thing of a node, such as a GPU."""

    __tablename__ = "resource"
    __table_args__ = (UniqueConstraint("node_id", "unit"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    node_id: Mapped[int] = mapped_column(ForeignKey("node.id"))
    position: Mapped[int]
    unit: Mapped[str]
    model: Mapped[str]
    kind: Mapped[str]  # the model with blanks and case folded away
    is_present: Mapped[bool] = mapped_column(default=True)
    memory_mib: Mapped[int] = mapped_column(default=0)
    pci: Mapped[str] = mapped_column(default="")
    trouble: Mapped[str] = mapped_column(default="")  # why it is not given away


class Job(Base):
    __tablename__ = "job"
    __table_args__ = (
        UniqueConstraint("user_id", "submission_key"),
        Index("job_by_state", "state", "id"),
        Index("job_by_since", "state", "since"),
        # A job number is never given twice, even after the newest was removed.
        {"sqlite_autoincrement": True},
    )
    id: Mapped[int] = mapped_column(primary_key=True)  # its number
    user_id: Mapped[int] = mapped_column(ForeignKey("user_account.id"), index=True)
    submission_key: Mapped[str]
    body_sha256: Mapped[str]
    title: Mapped[str]
    request: Mapped[str]  # canonical
    command: Mapped[str | None]
    is_private: Mapped[bool]
    continues: Mapped[int | None]
    remote: Mapped[str | None]
    remote_name: Mapped[str | None]
    branch: Mapped[str | None]
    commit_hash: Mapped[str | None]
    tree_hash: Mapped[str]
    committed_hash: Mapped[str | None]  # the tree without what was not committed
    base_hash: Mapped[str | None]  # commit that the head had or fetched
    store_id: Mapped[int | None]  # user whose store has the snapshot; None: of an older version, and gone
    reruns: Mapped[int | None]  # number of the job whose snapshot this is
    diff_lines: Mapped[int]
    diff_files: Mapped[int | None]  # what was not committed, as counted by the head
    diff_added: Mapped[int | None]
    diff_removed: Mapped[int | None]
    pack_sha256: Mapped[str | None]
    state: Mapped[str]
    outcome: Mapped[str | None]  # known from the moment it stops
    reason: Mapped[str] = mapped_column(default="")
    attempt: Mapped[int] = mapped_column(default=1)  # the current one; older ones change nothing
    created_at: Mapped[float]
    since: Mapped[float]  # when it came into its state
    removed_at: Mapped[float | None]
    image: Mapped[str | None]  # None: whatever is the default where it runs
    is_kept: Mapped[bool] = mapped_column(default=False)  # its directory is not thrown away with age
    variables: Mapped[dict[str, Any]] = mapped_column(default=dict)  # name -> sealed value


class Attempt(Base):
    """One try at running a job; its number is the epoch that orders and reports carry."""

    __tablename__ = "attempt"
    __table_args__ = (UniqueConstraint("job_id", "number"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("job.id"))
    number: Mapped[int]
    master_port: Mapped[int]
    created_at: Mapped[float]
    network: Mapped[str] = mapped_column(default="")  # by which its containers reach each other


class Process(Base):
    __tablename__ = "process"
    __table_args__ = (
        UniqueConstraint("attempt_id", "group_index", "process_index"),
        Index(
            "process_live",
            "node_id",
            sqlite_where=text("state <> 'ended'"),
            postgresql_where=text("state <> 'ended'"),
        ),
        # Process ids name spool directories on nodes: never given twice.
        {"sqlite_autoincrement": True},
    )
    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("job.id"), index=True)
    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempt.id"))
    group_index: Mapped[int]
    process_index: Mapped[int]
    rank: Mapped[int]
    node_id: Mapped[int] = mapped_column(ForeignKey("node.id"))
    host: Mapped[str]
    state: Mapped[str]
    stop_by: Mapped[str | None]  # on whose behalf it was told to stop
    # How it ended, as facts: 137 or 255 alone mean nothing.
    exit_code: Mapped[int | None]
    signal: Mapped[int | None]
    oom: Mapped[bool] = mapped_column(default=False)
    killed_by: Mapped[str | None]
    reason: Mapped[str] = mapped_column(default="")
    started_at: Mapped[float | None]
    ended_at: Mapped[float | None]
    image: Mapped[str] = mapped_column(default="")  # what it ran in, by digest


class Sample(Base):
    """How much of its GPUs a process used around a moment."""

    __tablename__ = "sample"
    process_id: Mapped[int] = mapped_column(ForeignKey("process.id"), primary_key=True)
    at: Mapped[float] = mapped_column(primary_key=True)
    gpu_percent: Mapped[float]
    memory_percent: Mapped[float]


# Written out, not bound as a parameter: only then does SQLite use the partial index.
IS_LIVE = Process.state != literal_column("'ended'")


class Allocation(Base):
    """A resource bound to a process until released.

    `unit` names a single thing (a GPU, a port), which only one process can hold: the partial
    unique index makes that so whatever the code does, and by whatever alias it was asked for.
    For amounts (cpu, mem) it is NULL.
    """

    __tablename__ = "allocation"
    __table_args__ = (
        Index(
            "allocation_once",
            "node_id",
            "unit",
            unique=True,
            sqlite_where=text("released_at IS NULL"),
            postgresql_where=text("released_at IS NULL"),
        ),
    )
    id: Mapped[int] = mapped_column(primary_key=True)
    process_id: Mapped[int] = mapped_column(ForeignKey("process.id"), index=True)
    node_id: Mapped[int] = mapped_column(ForeignKey("node.id"))
    kind: Mapped[str]
    unit: Mapped[str | None]
    amount: Mapped[int]  # 1 for a unit, thousandths of a core for cpu, MiB for mem
    released_at: Mapped[float | None]


class Event(Base):
    """One change of a job or of one of its processes; written with it, never changed."""

    __tablename__ = "event"
    __table_args__ = (Index("event_by_job", "job_id", "id"), {"sqlite_autoincrement": True})
    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("job.id"))
    process_id: Mapped[int | None] = mapped_column(ForeignKey("process.id"))
    attempt: Mapped[int]
    event: Mapped[str]
    from_state: Mapped[str | None]
    to_state: Mapped[str]
    actor: Mapped[str]  # a user's name, `head`, or `node:<name>`
    reason: Mapped[str] = mapped_column(default="")
    at: Mapped[float]


class Discard(Base):
    """Something in the trash, and where it came from."""

    __tablename__ = "discard"
    __table_args__ = (Index("discard_by_domain", "domain"), {"sqlite_autoincrement": True})
    id: Mapped[int] = mapped_column(primary_key=True)
    domain: Mapped[str]  # `user:anna`, `group:lab`, `job:7`
    path: Mapped[str]  # below the domain, as in URLs; empty: all of it
    place: Mapped[str] = mapped_column(unique=True)  # its name in the trash
    actor: Mapped[str]
    at: Mapped[float]
