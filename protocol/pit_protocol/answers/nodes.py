"""Nodes, their resources, aliases of models, and what a node's worker gets."""

from typing import Annotated

from msgspec import field

from pit_protocol.wire import SECRET, Answer, Float, Int


class NodeResource(Answer, frozen=True):
    """One GPU, or another thing that a process gets as a whole."""

    index: Int
    model: str
    kind: str
    aliases: list[str]
    unit: str
    memory_mib: Int
    pci: str
    trouble: str  # why it is out of use, or empty
    groups: list[str]  # that it is kept for
    free: bool
    job: Int | None  # that holds it; None: none, or the caller may not see the job
    user: str = ""  # whose job holds it
    usable: bool = True  # whether it is not kept for groups that the caller is no member of


class NodeJob(Answer, frozen=True):
    """A job with processes on a node; None where the caller may not see it."""

    number: Int | None
    user: str
    title: str | None


class Node(Answer, frozen=True):
    name: str
    state: str
    since: Float
    epoch: Int  # how many sessions its worker began
    address: str
    cores: Int
    memory_mib: Int
    slots: Int
    free_slots: Int
    labels: dict[str, str]
    groups: list[str]  # that it is kept for
    runtime: str
    run_as: str  # `user`: each process as its user; otherwise the account of all of them
    shared_account: bool  # whether users may share that account
    trouble: str  # why it takes no new processes, or empty
    resources: list[NodeResource]
    free_cores: Float = 0.0
    free_memory_mib: Int = 0
    reason: str = ""  # why its admin took it out of service
    maintenance: str = ""  # a window that is not over yet: `2026-12-01T07:00:00+00:00/4h`
    jobs: list[NodeJob] = field(default_factory=list)  # with processes there; the first of many
    host: str = ""  # of a pilot: what its site calls the machine
    ends_at: Float | None = None  # of a pilot: when its allocation ends


class NodeList(Answer, frozen=True):
    nodes: list[Node]


class NodeAdded(Answer, frozen=True):
    node: Node
    join_code: Annotated[str, SECRET]
    expires_at: Float  # of the code


class NodeRemoved(Answer, frozen=True):
    name: str
    lost: list[Int]  # jobs that are lost with it


class Alias(Answer, frozen=True):
    name: str
    model: str


class AliasList(Answer, frozen=True):
    aliases: list[Alias]


class Joined(Answer, frozen=True):
    """What a machine gets that becomes a node."""

    node: str
    cluster: str
    token: Annotated[str, SECRET]


class AttemptToken(Answer, frozen=True):
    """By which a job's processes reach their user's data."""

    token: Annotated[str, SECRET]


class FilesWritten(Answer, frozen=True):
    written: Int


class FilesRemoved(Answer, frozen=True):
    removed: Int
