"""Files of the domains, the trash, disk use, and uploads."""

from msgspec import UNSET, UnsetType

from pit_protocol.paths import unquote_path
from pit_protocol.wire import Answer, Float, Int


class PathName(Answer, frozen=True, kw_only=True):
    """A path; where it is no UTF-8, `name` only looks like it and `encoded` has it as in a URL."""

    name: str
    encoded: str | UnsetType = UNSET

    @property
    def path(self) -> str:
        """The path itself, as `os.fsdecode` gives it."""
        return self.name if isinstance(self.encoded, UnsetType) else unquote_path(self.encoded)


class FileEntry(PathName, frozen=True, kw_only=True, gc=False):  # a listing may have 100,000 of them
    kind: str  # `file`, `directory`, `link` or `other`
    size: Int | UnsetType = UNSET  # of a file
    mtime: Float
    mode: str  # `0644`
    target: PathName | UnsetType = UNSET  # of a link


class FileStat(FileEntry, frozen=True, kw_only=True):
    domain: str


class FileListing(PathName, frozen=True, kw_only=True):
    domain: str
    entries: list[FileEntry]


class FileHash(Answer, frozen=True):
    sha256: str
    etag: str


class PathWritten(PathName, frozen=True, kw_only=True):
    """A directory or link that was made."""

    domain: str


class PartArrived(Answer, frozen=True):
    """How much of a file is here."""

    offset: Int


class FileArrived(PathName, frozen=True, kw_only=True):
    """A file whose last part has arrived."""

    domain: str
    offset: Int


class TarArrived(Answer, frozen=True):
    count: Int
    bytes: Int


class TrashEntry(PathName, frozen=True, kw_only=True):
    id: Int
    domain: str
    by: str
    at: Float
    kind: str = "files"  # or all of a `job`, `user` or `group`
    until: Float | None = None  # when it is deleted for good; None: never


class TrashList(Answer, frozen=True):
    trash: list[TrashEntry]


class TrashEmptied(Answer, frozen=True):
    count: Int  # entries that are deleted for good


class DomainUsage(Answer, frozen=True):
    domain: str
    size: Int  # bytes
    files: Int
    quota: Int | None  # bytes
    at: Float  # when it was measured


class DiskUsage(Answer, frozen=True):
    free: Int
    total: Int


class Usage(Answer, frozen=True):
    domains: list[DomainUsage]
    disk: DiskUsage


class Upload(Answer, frozen=True):
    """How much of a pack is here."""

    sha256: str
    size: Int
    complete: bool
