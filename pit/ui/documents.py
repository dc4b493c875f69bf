"""What `--json` prints where a command composes it; everything else is an answer of the head."""

from msgspec import UNSET, Struct, UnsetType

from pit_protocol.answers.files import PathName, TrashEntry
from pit_protocol.answers.jobs import DiffStat, VariablesDiff
from pit_protocol.answers.nodes import Node
from pit_protocol.answers.snapshots import OfferAnswer
from pit_protocol.arrays.numbers import is_element, job_name


class Document(Struct, frozen=True):
    """One line of JSON on stdout."""


def shown_number(number: int) -> int | str:
    """The number of a job, or `190.7` for an element of an array."""
    return job_name(number) if is_element(number) else number


class GroupChange(Document, frozen=True):
    entity: str
    group: str


class FileText(PathName, frozen=True, kw_only=True):
    domain: str
    text: str | UnsetType = UNSET
    base64: str | UnsetType = UNSET  # instead of `text`, if the file is not UTF-8


class Checkout(Document, frozen=True):
    number: int | str
    directory: str
    worktree: bool


class Connected(Document, frozen=True):
    url: str
    pins: tuple[str, ...]
    user: str | None


class LoggedOut(Document, frozen=True):
    url: str
    user: str


class Trusted(Document, frozen=True):
    url: str
    pins: tuple[str, ...]


class ConnectFile(Document, frozen=True):
    url: str
    certificates: tuple[str, ...]
    pins: tuple[str, ...]


class Profile(Document, frozen=True):
    name: str
    url: str
    pins: tuple[str, ...]
    in_use: bool | UnsetType = UNSET


class ProfileList(Document, frozen=True):
    profiles: list[Profile]


class JobDiff(Document, frozen=True):
    number: int | str
    other: int | str | None
    settings: dict[str, tuple[object, object]]  # name -> value of each job
    variables: VariablesDiff | None
    diff: str | UnsetType
    stat: DiffStat | UnsetType = UNSET


class ClusterUp(Document, frozen=True):
    url: str
    node: Node


class ClusterDown(Document, frozen=True):
    stopped: list[str]  # daemons
    jobs: list[int]


class Download(Document, frozen=True):
    number: int | str
    file: str
    bytes: int


class Mount(Document, frozen=True):
    entity: str
    path: str
    read_only: bool


class Transfer(Document, frozen=True):
    files: int
    bytes: int
    target: str


class SyncResult(Document, frozen=True):
    sent: list[str]
    removed: list[str]
    dry_run: bool


class RemovedEntity(Document, frozen=True):
    removed: str
    lost: list[int] | UnsetType = UNSET  # jobs that were lost with a node
    trash: TrashEntry | UnsetType = UNSET
    purged: bool | UnsetType = UNSET  # deleted for good


class ChangedFile(Document, frozen=True):
    letter: str
    path: str
    size: int


class DryRun(Document, frozen=True):
    """What `pit run --dry-run` would send."""

    remote: str | None
    remote_name: str | None
    base: str | None
    commit: str | None
    branch: str | None
    tree: str
    diff_lines: int
    changes: list[ChangedFile]
    left_out: list[ChangedFile]
    odd: list[str]
    large_files: int
    head: OfferAnswer | None
