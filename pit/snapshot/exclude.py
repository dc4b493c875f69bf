"""Keep what comes from the head out of git and of the next snapshot, by `.git/info/exclude`."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pit.snapshot.ignore import literal_pattern
from pit.snapshot.repository import Repository
from pit.ui import output
from pit.ui.plural import plural
from pit_protocol.atomic_file import write_all
from pit_protocol.problem import Problem
from pit_protocol.transport.dirfd import NO_FOLLOW, DirectoryTree


@contextmanager
def leaving_out(targets: Iterable[Path]) -> Iterator[None]:
    """Leave out what this block creates at or below the targets, even if it does not finish."""
    new = list(dict.fromkeys(_outermost_new(target) for target in targets if not os.path.lexists(target)))
    # Found now, because what comes may bring a `.git` of somebody else.
    around = _find_project(new)
    try:
        yield
    finally:
        if around:
            _leave_out([path for path in new if os.path.lexists(path)], around)


def leave_out(targets: list[Path]) -> None:
    """Let the project around the targets ignore them, unless it does so already."""
    if around := _find_project(targets):
        _leave_out(targets, around)


def _find_project(targets: list[Path]) -> Repository | None:
    try:
        return Repository.find(targets[0].parent.resolve()) if targets else None
    except Problem:
        return None


def _leave_out(targets: list[Path], around: Repository) -> None:
    places = [target.parent.resolve() / target.name for target in targets]
    inside = [place for place in places if place.is_relative_to(around.top)]
    paths = [_pattern_path(place, around.top) for place in inside]
    ignored = _ignored(around, paths)
    left = [path for path in paths if path not in ignored]
    if not left:
        return
    file = around.paths["info/exclude"]
    named = file.relative_to(around.top) if file.is_relative_to(around.top) else file
    try:
        _append(file, b"\n" + b"".join(_pattern(path) for path in left))
    except (OSError, Problem) as error:
        output.note(f"{targets[0]} is not ignored by git: {named} cannot be written: {error}")
        return
    what = f"{targets[0]} is" if len(left) == 1 else f"{plural(len(left), 'new path')} are"
    them = "it" if len(left) == 1 else "them"
    output.note(f"{what} ignored by git and `pit run` from now on: {named} names {them}")


def _append(file: Path, lines: bytes) -> None:
    """Add lines to a file in a directory of a repository; neither may be a link, which may lead anywhere."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | NO_FOLLOW
    with DirectoryTree.at(file.parent.parent) as tree:
        place = tree.directory([file.parent.name], make=0o777)
        descriptor = os.open(file.name, flags, 0o666, dir_fd=place)
    try:
        write_all(descriptor, lines)
    finally:
        os.close(descriptor)


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
