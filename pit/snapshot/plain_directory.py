"""Directories that are captured without a git history."""

from pathlib import Path

from pit.snapshot.git_status import LIST_TAGS
from pit.snapshot.repository import Remote, Repository


class PlainDirectory(Repository):
    """A directory that is captured as it is, with or without a git repository in it."""

    paths: dict[str, Path] = {}  # noqa: RUF012 - there is no repository
    config: dict[str, list[str]] = {}  # noqa: RUF012 - and so no settings
    head = None
    branch = None
    tags = b""  # the tracked files, as `ls-files -v` prints them
    forced: tuple[bytes, ...] = ()  # files to add although they are ignored

    def list_remotes(self) -> list[Remote]:
        return []


class Sha256WorkTree(PlainDirectory):
    """The work tree of a SHA-256 repository; a SHA-1 tree cannot refer to the objects of one."""

    def __init__(self, repo: Repository) -> None:
        super().__init__(repo.top)
        self.config = repo.config
        self.paths = {"info/exclude": repo.paths["info/exclude"]}
        self.tags = repo.run(*LIST_TAGS)
        tracked = repo.run("ls-files", "-z", "--cached", "--ignored", "--exclude-standard")
        self.forced = tuple(name for name in tracked.split(b"\0") if name)


def uses_sha256(repo: Repository) -> bool:
    """Whether the repository has SHA-256 object names; the trees of snapshots have SHA-1 names."""
    return repo.setting("extensions.objectformat") == "sha256"
