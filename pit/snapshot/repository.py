"""The git repository around a directory: its settings, HEAD, history and remotes. Read only."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import quote, urlsplit

from pit.snapshot.git_command import GitCommand, find_work_tree
from pit.text_files import read_text
from pit_protocol.messages.submission import MAX_HISTORY

PATHS = ("HEAD", "index", "objects", "info/exclude", "info/attributes", "lfs/objects")
_BRANCH = "ref: refs/heads/"


@dataclass(frozen=True)
class Remote:
    name: str
    url: str


@dataclass(frozen=True)
class Base:
    """The newest commit of HEAD's history that the remote has, judged by the remote-tracking branches."""

    remote: Remote
    commit: str


class Repository(GitCommand):
    """A repository with a work tree at `top`."""

    @classmethod
    def find(cls, start: Path) -> "Repository":
        return cls(find_work_tree(start))

    @cached_property
    def config(self) -> dict[str, list[str]]:
        """All git settings in effect; a setting that is given several times has several values."""
        found: dict[str, list[str]] = {}
        for entry in self.run("config", "--list", "-z").split(b"\0"):
            name, is_set, value = entry.decode("utf-8", "surrogateescape").partition("\n")
            if name:
                found.setdefault(name, []).append(value if is_set else "true")
        return found

    def setting(self, name: str) -> str:
        return self.config.get(name, [""])[-1]

    @property
    def is_partial(self) -> bool:
        """Whether it is a partial clone, which lacks objects that its remote has."""
        return bool(self.setting("extensions.partialclone")) or any(
            name.startswith("remote.") and name.endswith((".promisor", ".partialclonefilter"))
            for name in self.config
        )

    @cached_property
    def _rev_parse(self) -> tuple[list[str], list[str], list[str]]:
        """The paths in `PATHS`, the commits of origin's branches, and HEAD's commit and tree.

        One command, because git takes longer to start than to answer. HEAD comes last: git stops at
        the first revision that does not exist.
        """
        paths = [word for name in PATHS for word in ("--git-path", name)]
        revisions = (
            "--revs-only",
            "--remotes=origin",
            "--is-inside-work-tree",
            "HEAD^{commit}",
            "HEAD^{tree}",
        )
        printed = self.lines("rev-parse", *paths, *revisions)
        end = printed.index("true", len(PATHS))
        return printed[: len(PATHS)], printed[len(PATHS) : end], printed[end + 1 :]

    @cached_property
    def paths(self) -> dict[str, Path]:
        """Where the repository has the files in `PATHS`."""
        return dict(zip(PATHS, map(self.top.__truediv__, self._rev_parse[0]), strict=True))

    @cached_property
    def head(self) -> tuple[str, str] | None:
        """HEAD's commit and its tree; None in a repository without commits."""
        found = self._rev_parse[2]
        return (found[0], found[1]) if len(found) == 2 else None

    @cached_property
    def branch(self) -> str | None:
        text = (read_text(self.paths["HEAD"]) or "").strip()
        if not text.startswith("ref: ") or text.endswith("/.invalid"):  # detached, or refs stored as reftable
            return self.get_line("symbolic-ref", "--short", "--quiet", "HEAD")
        return text.removeprefix(_BRANCH)

    def list_remotes(self) -> list[Remote]:
        """All remotes; first the current branch's, then origin."""
        names = [name[7:-4] for name in self.config if name.startswith("remote.") and name.endswith(".url")]
        preferred = [self.setting(f"branch.{self.branch}.remote"), "origin"]
        ordered = [name for name in preferred if name in names]
        return [Remote(name, self._remote_url(name)) for name in dict.fromkeys([*ordered, *names])]

    def find_base(self) -> Base | None:
        """HEAD at the first remote that has it, else the newest commit that the first possible remote has."""
        if self.head is None:
            return None
        best = None
        for remote in self.list_remotes():
            commit = self._newest_of(remote, self.head[0])
            if commit == self.head[0]:
                return Base(remote, commit)
            best = best or (Base(remote, commit) if commit else None)
        return best

    def history(self, base: Base | None) -> tuple[str, ...]:
        """HEAD and, if HEAD is not the base, its first parents, newest first."""
        if self.head is None:
            return ()
        if base and base.commit == self.head[0]:
            return (base.commit,)
        return tuple(self.lines("rev-list", "--first-parent", f"--max-count={MAX_HISTORY}", self.head[0]))

    def _newest_of(self, remote: Remote, commit: str) -> str | None:
        if remote.name == "origin" and commit in self._rev_parse[1]:
            return commit
        found = self.lines("rev-list", "--boundary", commit, "--not", f"--remotes={remote.name}")
        if not found:
            return commit
        shared = [line[1:] for line in found if line.startswith("-")]
        return self.line("rev-list", "--no-walk", "--max-count=1", *shared) if shared else None

    def _remote_url(self, name: str) -> str:
        url = self.setting(f"remote.{name}.url")
        if any(key.startswith("url.") for key in self.config):  # `url.<base>.insteadOf` rewrites some URLs
            url = self.line("remote", "get-url", "--", name)
        # The head cannot resolve a path that is relative to this work tree.
        if "://" not in url and (self.top / url).exists():
            return f"file://{quote(str((self.top / url).resolve()))}"
        return url


def secret_in(remote: Remote) -> str:
    """Why this URL must not be sent to the head, as a sentence; empty if it may be sent."""
    if "://" not in remote.url:
        return ""
    try:
        parts = urlsplit(remote.url)
    except ValueError:
        return f"remote {remote.name} has no valid URL"
    is_ssh = parts.scheme in ("ssh", "git+ssh", "ssh+git")
    if parts.password is None and (is_ssh or parts.username is None) and not parts.query:
        return ""
    bare = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return (
        f"the URL of remote {remote.name} ({bare}) contains a user name or a secret that the head would store"
    )
