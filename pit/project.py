"""The git project around a directory: its settings, history and remotes. Nothing in it is ever changed."""

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, urlsplit

from pit.files import read_text
from pit_protocol.problem import Problem
from pit_protocol.submission import MAX_HISTORY

# Where there is no git, GitPython would fail at import; `Project.run` finds better words.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

import git

# What a git that runs us, as in a hook, means for itself; for us it would lead into the user's index.
for _name in (
    *("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_NAMESPACE"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH"),
    *("GIT_GRAFT_FILE", "GIT_SHALLOW_FILE", "GIT_REPLACE_REF_BASE", "GIT_NO_REPLACE_OBJECTS"),
):
    os.environ.pop(_name, None)

# A hook or a monitor of the user's must not run, nor an index be written in parts.
_PLAIN = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.safecrlf=false")
_WHOLE = (
    "-c",
    "core.splitIndex=false",
    "-c",
    "core.untrackedCache=false",
    "-c",
    "advice.addEmbeddedRepo=false",
)
# Objects as they are, not what `git replace` shows in their place: the head knows only those.
# Nor is anything fetched for the user: what a partial clone has not got is not in his work tree.
_ENV = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_NO_LAZY_FETCH": "1"}
PATHS = ("HEAD", "index", "objects", "info/exclude", "info/attributes", "lfs/objects")
_BRANCH = "ref: refs/heads/"
_MISSING = re.compile(
    r"(?:missing \w+ object|unable to read(?: tree)?|could not fetch|bad \w+ object|invalid object \d+)"
    r" [('\"]?([0-9a-f]{40})"
)


@dataclass(frozen=True)
class Remote:
    name: str
    url: str


@dataclass(frozen=True)
class Base:
    """The newest commit of a history that a remote has, as far as is known here."""

    remote: Remote
    commit: str


class Project:
    """A work tree; `run` is the only way to git."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self._git = git.Git(str(top))

    @classmethod
    def find(cls, start: Path) -> "Project":
        try:
            with git.Repo(start, search_parent_directories=True) as repo:
                top = repo.working_tree_dir
        except (git.InvalidGitRepositoryError, git.NoSuchPathError):
            raise Problem(
                "no_project",
                f"{start} is not in a git repository",
                "`git init` makes one of it, or `pit run -a` sends the directory as it is",
            ) from None
        if top is None:
            raise Problem("no_project", f"{start} is in a bare git repository", "go to a work tree of it")
        return cls(Path(top))

    def run(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        stdin: BinaryIO | bytes | None = None,
        stdout: BinaryIO | None = None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> bytes:
        """What git prints, as it is; raises a Problem with git's own words. `warn` gets its warnings."""
        # As bytes and unstripped: a name need not be UTF-8, and may end in a newline.
        try:
            with _as_file(stdin) as file:
                _, printed, said = self._git.execute(
                    ["git", *_PLAIN, *_WHOLE, *arguments],
                    env={**_ENV, **(env or {})},
                    istream=file,
                    output_stream=stdout,
                    stdout_as_string=False,
                    strip_newline_in_stdout=False,
                    with_extended_output=True,
                )
        except git.GitCommandNotFound:
            raise Problem(
                "no_git", "there is no `git` on this machine", "install git 2.25 or newer"
            ) from None
        except git.GitCommandError as error:
            raise _git_problem(arguments, error) from error
        if said:
            warn(said if isinstance(said, str) else said.decode("utf-8", "replace"))
        return printed if isinstance(printed, bytes) else b""

    def line(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        return self.run(*arguments, env=env).decode("utf-8", "surrogateescape").rstrip("\n")

    def lines(self, *arguments: str) -> list[str]:
        return self.line(*arguments).splitlines()

    def get_line(self, *arguments: str) -> str | None:
        """Like `line`, for questions that git answers with an exit code."""
        try:
            return self.line(*arguments)
        except Problem:
            return None

    @cached_property
    def config(self) -> dict[str, list[str]]:
        """All settings of git that hold here; a name has as many values as were given to it."""
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
        """Whether objects may be missing that only its remote has."""
        return bool(self.setting("extensions.partialclone")) or any(
            name.startswith("remote.") and name.endswith((".promisor", ".partialclonefilter"))
            for name in self.config
        )

    @cached_property
    def _layout(self) -> tuple[list[str], list[str], list[str]]:
        """Where things are, which commits origin is known to have, and what HEAD is.

        Asked in one go, for git takes longer to begin than to answer. HEAD comes last: what follows a
        name that means nothing is not looked at.
        """
        asked = [word for name in PATHS for word in ("--git-path", name)]
        revisions = (
            "--revs-only",
            "--remotes=origin",
            "--is-inside-work-tree",
            "HEAD^{commit}",
            "HEAD^{tree}",
        )
        printed = self.lines("rev-parse", *asked, *revisions)
        end = printed.index("true", len(PATHS))
        return printed[: len(PATHS)], printed[len(PATHS) : end], printed[end + 1 :]

    @cached_property
    def paths(self) -> dict[str, Path]:
        """Where the repository keeps what is in `PATHS`."""
        return dict(zip(PATHS, map(self.top.__truediv__, self._layout[0]), strict=True))

    @cached_property
    def head(self) -> tuple[str, str] | None:
        """HEAD's commit and its tree; None in a repository without commits."""
        found = self._layout[2]
        return (found[0], found[1]) if len(found) == 2 else None

    @cached_property
    def branch(self) -> str | None:
        text = (read_text(self.paths["HEAD"]) or "").strip()
        if not text.startswith("ref: ") or text.endswith("/.invalid"):  # as where refs are kept in tables
            return self.get_line("symbolic-ref", "--short", "--quiet", "HEAD")
        return text.removeprefix(_BRANCH)

    def list_remotes(self) -> list[Remote]:
        """All remotes; first the current branch's, then origin."""
        names = [name[7:-4] for name in self.config if name.startswith("remote.") and name.endswith(".url")]
        favourites = [self.setting(f"branch.{self.branch}.remote"), "origin"]
        ordered = [name for name in favourites if name in names]
        return [Remote(name, self._remote_url(name)) for name in dict.fromkeys([*ordered, *names])]

    def find_base(self) -> Base | None:
        """HEAD itself in whichever remote has it, else the newest commit that the first of them has."""
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
        """HEAD and, if that is not the base, what came before it, newest first."""
        if self.head is None:
            return ()
        if base and base.commit == self.head[0]:
            return (base.commit,)
        return tuple(self.lines("rev-list", "--first-parent", f"--max-count={MAX_HISTORY}", self.head[0]))

    def _newest_of(self, remote: Remote, commit: str) -> str | None:
        if remote.name == "origin" and commit in self._layout[1]:
            return commit
        found = self.lines("rev-list", "--boundary", commit, "--not", f"--remotes={remote.name}")
        if not found:
            return commit
        shared = [line[1:] for line in found if line.startswith("-")]
        return self.line("rev-list", "--no-walk", "--max-count=1", *shared) if shared else None

    def _remote_url(self, name: str) -> str:
        url = self.setting(f"remote.{name}.url")
        if any(key.startswith("url.") for key in self.config):  # some are to be written otherwise
            url = self.line("remote", "get-url", "--", name)
        # For a head, a path that is relative to this work tree leads nowhere.
        if "://" not in url and (self.top / url).exists():
            return f"file://{quote(str((self.top / url).resolve()))}"
        return url


@contextmanager
def _as_file(stdin: BinaryIO | bytes | None) -> Iterator[BinaryIO | None]:
    if not isinstance(stdin, bytes):
        yield stdin
        return
    with tempfile.TemporaryFile() as file:
        file.write(stdin)
        file.seek(0)
        yield file


def secret_in(remote: Remote) -> str:
    """Why the head must not learn of this URL, as a sentence; empty if it may."""
    if "://" not in remote.url:
        return ""
    try:
        parts = urlsplit(remote.url)
    except ValueError:
        return f"the URL of remote {remote.name} is none"
    is_ssh = parts.scheme in ("ssh", "git+ssh", "ssh+git")
    if parts.password is None and (is_ssh or parts.username is None) and not parts.query:
        return ""
    bare = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return f"the URL of remote {remote.name} ({bare}) has a user or a secret in it that the head would keep"


def lost(name: str) -> Problem:
    return Problem(
        "not_whole",
        f"object {name[:12]} of this repository is not here, as in a partial clone, or lost",
        "`git fetch --refetch --no-filter` brings all that the remote has, once it can be reached",
    )


def _git_problem(arguments: Sequence[str], error: git.GitCommandError) -> Problem:
    stderr = error.stderr.decode("utf-8", "replace") if isinstance(error.stderr, bytes) else str(error.stderr)
    # GitPython wraps what git said as `stderr: '…'`.
    said = stderr.strip().removeprefix("stderr:").strip().strip("'").strip()
    if missing := _MISSING.search(said):
        return lost(missing[1])
    lines = [line for line in said.splitlines() if not line.startswith("warning: ")] or said.splitlines()
    words = [line.removeprefix("fatal: ").removeprefix("error: ") for line in lines]
    first = words[0] if words else f"exit code {error.status}"
    verb = next(word for word in arguments if not word.startswith("-") and "=" not in word)
    return Problem("git", f"`git {verb}`: {first}", "\n".join(words[1:5]))
