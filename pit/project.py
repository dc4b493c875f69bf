"""The git project around a directory: its top, its branch, its remote. Nothing in it is ever changed."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, urlsplit

from pit_protocol.problem import Problem

# Where there is no git, GitPython would fail at import; `Project.run` finds better words.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

import git

# A hook or a monitor of the user's must not run, nor see the scratch index.
_PLAIN = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.safecrlf=false")
# A split index would put its shared part into the user's .git.
_WHOLE = ("-c", "core.splitIndex=false", "-c", "advice.addEmbeddedRepo=false")


@dataclass(frozen=True)
class Remote:
    name: str
    url: str


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
                "no_project", f"{start} is not in a git repository", "`git init` makes one of it"
            ) from None
        if top is None:
            raise Problem("no_project", f"{start} is in a bare git repository", "go to a work tree of it")
        return cls(Path(top))

    def run(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        stdin: BinaryIO | None = None,
        stdout: BinaryIO | None = None,
    ) -> bytes:
        """What git prints, as it is; raises a Problem with git's own words."""
        # As bytes and unstripped: a diff need not be UTF-8, and its last newline belongs to it.
        try:
            printed = self._git.execute(
                ["git", *_PLAIN, *_WHOLE, *arguments],
                env={"GIT_OPTIONAL_LOCKS": "0", **(env or {})},
                istream=stdin,
                output_stream=stdout,
                stdout_as_string=False,
                strip_newline_in_stdout=False,
            )
        except git.GitCommandNotFound:
            raise Problem(
                "no_git", "there is no `git` on this machine", "install git 2.25 or newer"
            ) from None
        except git.GitCommandError as error:
            raise _git_problem(arguments, error) from error
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

    def get_commit(self) -> str | None:
        return self.get_line("rev-parse", "--verify", "--quiet", "HEAD^{commit}")

    def get_branch(self) -> str | None:
        return self.get_line("symbolic-ref", "--short", "--quiet", "HEAD")

    def get_remote(self) -> Remote | None:
        """The current branch's remote, else origin, else the first."""
        names = self.lines("remote")
        branch = self.get_branch()
        upstream = self.get_line("config", f"branch.{branch}.remote") if branch else None
        name = next((name for name in (upstream, "origin", *names) if name in names), None)
        return Remote(name, self._remote_url(name)) if name else None

    def find_base(self, remote: Remote, commit: str) -> str | None:
        """The newest commit of `commit`'s history that the remote has, as far as is known here."""
        found = self.lines("rev-list", "--boundary", commit, "--not", f"--remotes={remote.name}")
        if not found:
            return commit
        shared = [line[1:] for line in found if line.startswith("-")]
        return self.line("rev-list", "--no-walk", "--max-count=1", *shared) if shared else None

    def git_path(self, name: str) -> Path:
        return self.top / self.line("rev-parse", "--git-path", name)

    def _remote_url(self, name: str) -> str:
        url = self.line("remote", "get-url", "--", name)
        # For a head, a path that is relative to this work tree leads nowhere.
        if "://" not in url and (self.top / url).exists():
            return f"file://{quote(str((self.top / url).resolve()))}"
        return url


def check_no_secret(remote: Remote) -> None:
    """Refuse a remote whose URL holds a password or token: it would be stored on the head."""
    if "://" not in remote.url:
        return
    try:
        parts = urlsplit(remote.url)
    except ValueError:
        raise Problem(
            "bad_remote", f"the URL of remote {remote.name} is none", "`git remote -v` shows it"
        ) from None
    is_ssh = parts.scheme in ("ssh", "git+ssh", "ssh+git")
    if parts.password is None and (is_ssh or parts.username is None) and not parts.query:
        return
    bare = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    raise Problem(
        "secret_in_remote",
        f"the URL of remote {remote.name} ({bare}) has a user or a secret in it that the head would keep",
        f"`git remote set-url {remote.name} {bare}` and a credential helper keep it here, "
        "or `--bundle` sends the commit's objects without the URL",
    )


def _git_problem(arguments: Sequence[str], error: git.GitCommandError) -> Problem:
    stderr = error.stderr.decode("utf-8", "replace") if isinstance(error.stderr, bytes) else str(error.stderr)
    # GitPython wraps what git said as `stderr: '…'`.
    said = stderr.strip().removeprefix("stderr:").strip().strip("'").strip()
    words = [line.removeprefix("fatal: ").removeprefix("error: ") for line in said.splitlines()]
    first = words[0] if words else f"exit code {error.status}"
    return Problem("git", f"`git {arguments[0]}`: {first}", "\n".join(words[1:5]))
