"""Run git in a work tree without the user's hooks, monitors and caches."""

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from pit_protocol.problem import Problem

# Without git installed, GitPython would fail at import; `GitCommand.run` raises a better error.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

# Variables that git sets when it runs pit, for example from a hook. They would point pit at the user's index.
for _name in (
    *("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_NAMESPACE"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH"),
    *("GIT_GRAFT_FILE", "GIT_SHALLOW_FILE", "GIT_REPLACE_REF_BASE", "GIT_NO_REPLACE_OBJECTS"),
):
    os.environ.pop(_name, None)

# The user's hooks and file system monitor must not run, and an index must be one file.
_NO_HOOKS = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.safecrlf=false")
_NO_CACHES = (
    "-c",
    "core.splitIndex=false",
    "-c",
    "core.untrackedCache=false",
    "-c",
    "advice.addEmbeddedRepo=false",
)
# Ignore `git replace`: the head knows only the original objects. Fetch nothing: objects that a partial
# clone does not have are not in the work tree either.
_ENV = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_NO_LAZY_FETCH": "1"}
_ENGLISH = {"LANGUAGE": "C", "LC_ALL": "C"}  # what git says is read
_MISSING = re.compile(
    r"(?:missing \w+ object|unable to read(?: tree)?|could not fetch|bad \w+ object|invalid object \d+)"
    r" [('\"]?([0-9a-f]{40})"
)


class GitCommand:
    """Git in the directory `top`; pit runs git only through this class."""

    def __init__(self, top: Path) -> None:
        self.top = top

    def run(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        stdin: BinaryIO | bytes | None = None,
        stdout: BinaryIO | None = None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> bytes:
        """Return git's stdout unchanged and pass its warnings to `warn`; raise a Problem with git's error."""
        # Bytes, not stripped: a file name need not be UTF-8 and may end with a newline.
        with _as_file(stdin) as file:
            try:
                done = subprocess.run(
                    ["git", *_NO_HOOKS, *_NO_CACHES, *arguments],
                    cwd=self.top,
                    env={**os.environ, **_ENGLISH, **_ENV, **(env or {})},
                    stdin=file or subprocess.DEVNULL,
                    stdout=stdout or subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
            except FileNotFoundError as error:
                if error.filename != "git":  # but the work tree
                    raise
                raise Problem(
                    "no_git", "git is not installed on this machine", "install git 2.25 or newer"
                ) from None
        said = done.stderr.decode("utf-8", "replace").strip()
        if done.returncode != 0:
            raise _git_problem(arguments, done.returncode, said)
        if said:
            warn(said)
        return done.stdout or b""

    def line(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        return self.run(*arguments, env=env).decode("utf-8", "surrogateescape").rstrip("\n")

    def lines(self, *arguments: str) -> list[str]:
        return self.line(*arguments).splitlines()

    def get_line(self, *arguments: str) -> str | None:
        """Like `line`, but return None when git exits with an error."""
        try:
            return self.line(*arguments)
        except Problem:
            return None


def find_work_tree(start: Path) -> Path:
    """The top directory of the work tree around `start`; raise a Problem if there is none."""
    if plain := _plain_work_tree(start):
        return plain
    import git  # only here, because that takes longer than all other imports together

    try:
        with git.Repo(start, search_parent_directories=True) as repo:
            top = repo.working_tree_dir
    except (git.InvalidGitRepositoryError, git.NoSuchPathError):
        raise Problem(
            "no_project",
            f"{start} is not in a git repository",
            "run `git init`, or send the directory as it is with `pit run -a`",
        ) from None
    if top is None:
        raise Problem("no_project", f"{start} is in a bare git repository", "change to one of its work trees")
    return Path(top)


def _plain_work_tree(start: Path) -> Path | None:
    """The nearest directory that has its repository in `.git`; None if GitPython has to look closer."""
    for top in (start, *start.parents):
        git_dir = top / ".git"
        if git_dir.is_dir() and (git_dir / "HEAD").is_file() and (git_dir / "objects").is_dir():
            return top
        if os.path.lexists(git_dir) or os.path.lexists(top / "HEAD"):
            return None
    return None


def missing_object(name: str) -> Problem:
    return Problem(
        "not_whole",
        f"object {name[:12]} is missing from this repository (a partial clone, or damaged)",
        "`git fetch --refetch --no-filter` fetches every object that the remote has",
    )


@contextmanager
def _as_file(stdin: BinaryIO | bytes | None) -> Iterator[BinaryIO | None]:
    if not isinstance(stdin, bytes):
        yield stdin
        return
    with tempfile.TemporaryFile() as file:
        file.write(stdin)
        file.seek(0)
        yield file


def _git_problem(arguments: Sequence[str], code: int, text: str) -> Problem:
    if missing := _MISSING.search(text):
        return missing_object(missing[1])
    lines = [line for line in text.splitlines() if not line.startswith("warning: ")] or text.splitlines()
    sentences = [line.removeprefix("fatal: ").removeprefix("error: ") for line in lines]
    first = sentences[0] if sentences else f"exit code {code}"
    verb = next(word for word in arguments if not word.startswith("-") and "=" not in word)
    return Problem("git", f"`git {verb}`: {first}", "\n".join(sentences[1:5]))
