"""Directories that are taken as they are, without a history."""

from pathlib import Path

from pit.looking import TAGGED
from pit.project import Project, Remote


class Folder(Project):
    """A directory, whether git knows of it or not."""

    paths: dict[str, Path] = {}  # noqa: RUF012 - there is no repository
    config: dict[str, list[str]] = {}  # noqa: RUF012 - nor settings of one
    head = None
    branch = None
    tags = b""  # what git tracks in it, as of `ls-files -v`
    forced: tuple[bytes, ...] = ()  # what is taken though it is ignored

    def list_remotes(self) -> list[Remote]:
        return []


class Foreign(Folder):
    """The work tree of a repository whose objects ours cannot refer to: all that git would take of it."""

    def __init__(self, project: Project) -> None:
        super().__init__(project.top)
        self.config = project.config
        self.paths = {"info/exclude": project.paths["info/exclude"]}
        self.tags = project.run(*TAGGED)
        tracked = project.run("ls-files", "-z", "--cached", "--ignored", "--exclude-standard")
        self.forced = tuple(name for name in tracked.split(b"\0") if name)


def is_foreign(project: Project) -> bool:
    """Whether the repository names its objects in another way than trees of snapshots do."""
    return project.setting("extensions.objectformat") == "sha256"
