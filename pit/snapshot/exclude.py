"""Keep what comes from the head out of git and of the next snapshot, by `.git/info/exclude`."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pit.snapshot.ignore import literal_pattern
from pit.snapshot.repository import Repository
from pit.ui import output
from pit.ui.plural import plural
from pit_protocol.problem import Problem


@contextmanager
def leaving_out(targets: Iterable[Path]) -> Iterator[None]:
    """Leave out what this block creates at or below the targets, even if it does not finish."""
    new = list(dict.fromkeys(_outermost_new(target) for target in targets if not os.path.lexists(target)))
    try:
        yield
    finally:
        leave_out([path for path in new if os.path.lexists(path)])


def leave_out(targets: list[Path]) -> None:
    """Let the project around the targets ignore them, unless it does so already."""
    if not targets:
        return
    places = [target.parent.resolve() / target.name for target in targets]
    try:
        around = Repository.find(places[0].parent)
    except Problem:
        return
    inside = [place for place in places if place.is_relative_to(around.top)]
    paths = [_pattern_path(place, around.top) for place in inside]
    ignored = _ignored(around, paths)
    left = [path for path in paths if path not in ignored]
    if not left:
        return
    file = around.paths["info/exclude"]
    file.parent.mkdir(exist_ok=True)
    with file.open("ab") as lines:
        lines.write(b"\n" + b"".join(_pattern(path) for path in left))
    named = file.relative_to(around.top) if file.is_relative_to(around.top) else file
    what = f"{targets[0]} is" if len(left) == 1 else f"{plural(len(left), 'new path')} are"
    them = "it" if len(left) == 1 else "them"
    output.note(f"{what} ignored by git and `pit run` from now on: {named} names {them}")


def _outermost_new(path: Path) -> Path:
    """The path, or the first directory above it that does not exist either."""
    while not os.path.lexists(path.parent):
        path = path.parent
    return path


def _pattern_path(place: Path, top: Path) -> bytes:
    is_directory = place.is_dir() and not place.is_symlink()
    return os.fsencode(place.relative_to(top)) + (b"/" if is_directory else b"")


def _pattern(path: bytes) -> bytes:
    return literal_pattern(path.rstrip(b"/")) + (b"/" if path.endswith(b"/") else b"") + b"\n"


def _ignored(around: Repository, paths: list[bytes]) -> set[bytes]:
    try:
        found = around.run("check-ignore", "--no-index", "-z", "--stdin", stdin=b"\0".join(paths))
    except Problem:  # git's answer if none is ignored
        return set()
    return set(found.split(b"\0"))
