"""Why a work tree could not be read, in words that name the file and the way out."""

import re

from pit_protocol.problem import Problem

PASSED_OVER = "could not open directory"
_LEAVE_OUT = "name it in .gitignore or .pitignore"
_UNREADABLE = re.compile(r"(?:open|readlink)\(\"(.*)\"\): Permission denied", re.DOTALL)
_BAD_NAME = re.compile(r"invalid path '(.*?)'")
# Gone, cut short, or no file any more, since git saw it in its directory.
_UNSTEADY = (
    re.compile(
        r"(?:open|readlink)\(\"(.*)\"\): (?:No such file|Not a directory|Invalid argument|No such device)"
    ),
    re.compile(r"(?:unable to stat|pathspec|unable to index file) '(.*?)'"),
    re.compile(r"short read while indexing (.*)"),
    re.compile(r"(?:error: )?(.*): can only add regular files"),
)


class Unsteady(Problem):
    """A file is not what it was a moment ago; another try may well succeed."""

    def __init__(self, name: str) -> None:
        hint = f"try again when nothing writes to it, or {_LEAVE_OUT}"
        super().__init__("unsteady", f"{name} changes while it is read", hint)


def unreadable(name: str) -> Problem:
    return Problem("unreadable", f"{name} cannot be read", f"`chmod` it, or {_LEAVE_OUT}")


def refuse_unreadable(said: str) -> None:
    """Raise a Problem for a directory that git passed over: what it holds would silently be left out."""
    found = next((line for line in said.splitlines() if PASSED_OVER in line), "")
    if found:
        raise unreadable(found.partition("'")[2].rpartition("'")[0])


def explain(problem: Problem) -> Problem:
    """What git said when it could not add files, as a sentence about the file."""
    said = f"{problem.message.partition('`: ')[2]}\n{problem.hint}"
    if found := _UNREADABLE.search(said):
        return unreadable(found[1])
    if found := _BAD_NAME.search(said):
        return Problem(
            "bad_name", f"git takes no file by the name of {found[1]}", f"rename it, or {_LEAVE_OUT}"
        )
    if "No space left on device" in said:
        return Problem(
            "no_space", "there is no room for a copy of what is new", "TMPDIR names a place with more of it"
        )
    found = next((match for pattern in _UNSTEADY if (match := pattern.search(said))), None)
    return Unsteady(found[1]) if found else problem
