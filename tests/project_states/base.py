"""Register and build states; each starts from a project with one pushed commit."""

from collections.abc import Callable
from pathlib import Path

from tests.support.git_projects import git

# Creates the state; returns the work tree if it is not the project's directory.
State = Callable[[Path], Path | None]
STATES: dict[str, State] = {}


def state(make: State) -> State:
    STATES[make.__name__] = make
    return make


def commit(top: Path, text: str = "more") -> None:
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", text)


def push(top: Path) -> None:
    git(top, "push", "-q", "origin", "HEAD")


def checkout_again(top: Path) -> None:
    """Check out all tracked files again, with the current attributes."""
    for name in git(top, "ls-files", "-z").split("\0"):
        if name:
            (top / name).unlink(missing_ok=True)
    git(top, "checkout", "-q", "--", ".")
