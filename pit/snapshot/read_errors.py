"""Errors when a work tree cannot be read: they name the file and say what to do."""

import re

from pit_protocol.problem import Problem

SKIPPED_DIRECTORY = "could not open directory"  # git's warning
_LEAVE_OUT = "name it in .gitignore or .pitignore"
_UNREADABLE = re.compile(r"(?:open|readlink)\(\"(.*)\"\): Permission denied", re.DOTALL)
_BAD_NAME = re.compile(r"invalid path '(.*?)'")
# The file was deleted, truncated or replaced after git had listed its directory.
_CHANGED = (
    re.compile(
        r"(?:open|readlink)\(\"(.*)\"\): (?:No such file|Not a directory|Invalid argument|No such device)"
    ),
    re.compile(r"(?:unable to stat|pathspec|unable to index file) '(.*?)'"),
    re.compile(r"short read while indexing (.*)"),
    re.compile(r"(?:error: )?(.*): can only add regular files"),
)


class WorktreeChanged(Problem):
    """A file changed while it was read; another attempt may succeed."""

    def __init__(self, name: str) -> None:
        hint = f"try again when nothing writes to it, or {_LEAVE_OUT}"
        super().__init__("worktree_changed", f"{name} changed while it was read", hint)


def unreadable(name: str) -> Problem:
    return Problem("unreadable", f"{name} cannot be read", f"`chmod` it, or {_LEAVE_OUT}")


def raise_if_unreadable(warnings: str) -> None:
    """Raise a Problem if git skipped a directory; its files would silently be left out."""
    found = next((line for line in warnings.splitlines() if SKIPPED_DIRECTORY in line), "")
    if found:
        raise unreadable(found.partition("'")[2].rpartition("'")[0])


def explain_add_error(problem: Problem) -> Problem:
    """Turn the error of `git add` into one about the file."""
    text = f"{problem.message.partition('`: ')[2]}\n{problem.hint}"
    if found := _UNREADABLE.search(text):
        return unreadable(found[1])
    if found := _BAD_NAME.search(text):
        return Problem(
            "bad_name", f"git does not accept the file name {found[1]}", f"rename it, or {_LEAVE_OUT}"
        )
    if "No space left on device" in text:
        return Problem(
            "no_space",
            "there is no space left for a copy of the changed files",
            "set TMPDIR to a directory with more space",
        )
    found = next((match for pattern in _CHANGED if (match := pattern.search(text))), None)
    return WorktreeChanged(found[1]) if found else problem
