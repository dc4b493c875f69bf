"""How states are made; each begins with a project that has one pushed commit."""

from collections.abc import Callable
from pathlib import Path

from tests.client.projects import git

# Makes the state; returns another directory than the project's, if the work tree is there.
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


def again(top: Path) -> None:
    """Let git write all tracked files anew, by the attributes that hold now."""
    for name in git(top, "ls-files", "-z").split("\0"):
        if name:
            (top / name).unlink(missing_ok=True)
    git(top, "checkout", "-q", "--", ".")
