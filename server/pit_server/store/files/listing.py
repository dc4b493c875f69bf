"""Listing directories and matching patterns, one entry at a time."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from fnmatch import translate
from itertools import groupby

from pit_protocol.problem import Problem
from pit_server import cancellation
from pit_server.store.files.domain_files import DIRECTORY, Domain, Entry, Kind, entry_at, is_part, names_in
from pit_server.store.files.tree_walk import Trail

ANY_DEPTH = "**"
LONGEST_PATTERN = 1000
_BELOW = DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

# The parts of a pattern that may match the names in a directory, as indexes.
Places = frozenset[int]
# Whether to list a name in a directory with these places, and the places for what is below it, if any.
Step = Callable[[str, Places], tuple[bool, Places]]
_ANYWHERE: Places = frozenset([0])


def walk(domain: Domain, path: str, *, recursive: bool = False) -> Iterator[tuple[str, Entry]]:
    """Entries with their paths below `path`; directories before what is in them."""
    below: Places = _ANYWHERE if recursive else frozenset()
    with domain.directory(path) as root:
        yield from _walk(root, _ANYWHERE, lambda _name, _places: (True, below))


def match(domain: Domain, path: str, pattern: str) -> Iterator[tuple[str, Entry]]:
    """Entries below `path` that match `*.bin`, `run-?/loss`, `**/*.txt`; links are not followed."""
    if len(pattern) > LONGEST_PATTERN or ".." in pattern.split("/"):
        raise Problem("bad_glob", "that pattern is too long, or leads elsewhere", status=422)
    step = _Pattern([part for part in pattern.split("/") if part])
    with domain.directory(path) as root:
        yield from _walk(root, step.start, step)


def _walk(root: int, places: Places, step: Step) -> Iterator[tuple[str, Entry]]:
    """Visit each entry once; with an explicit stack, because a job may nest as deep as it likes."""
    trail = Trail(root)
    stack = [("", iter(names_in(root)), places)]
    try:
        while True:
            cancellation.check()
            above, names, places = stack[-1]
            name = next(names, None)
            if name is None:
                stack.pop()
                if not stack:
                    return
                trail.leave()
                del stack[len(trail.parts) + 1 :]
                continue
            is_listed, below = (False, frozenset()) if is_part(name) else step(name, places)
            if not (is_listed or below):
                continue
            try:
                entry = entry_at(trail.here, name)
            except FileNotFoundError:
                continue  # gone since
            if is_listed:
                yield above + name, entry
            if below and entry.kind is Kind.DIRECTORY:
                # Gone, replaced or not readable.
                with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                    trail.enter(name, os.open(name, _BELOW, dir_fd=trail.here))
                    stack.append((f"{above}{name}/", iter(names_in(trail.here)), below))
    finally:
        trail.close()


class _Pattern:
    """Matches all parts at once, so that a tree is walked once, whatever the pattern."""

    def __init__(self, parts: list[str]) -> None:
        # `**/**` means `**`.
        single = [part for part, same in groupby(parts) for part in ([part] if part == ANY_DEPTH else same)]
        self._fits = [None if part == ANY_DEPTH else _compile(part) for part in single]
        self.start = self._with_skipped([0])

    def __call__(self, name: str, places: Places) -> tuple[bool, Places]:
        fitting = {index for index in places if self._matches(index, name)}
        # After `**` comes the same again.
        following = [index if self._fits[index] is None else index + 1 for index in fitting]
        return len(self._fits) - 1 in fitting, self._with_skipped(following)

    def _matches(self, index: int, name: str) -> bool:
        fits = self._fits[index]
        return fits is None or fits(name)

    def _with_skipped(self, indexes: list[int]) -> Places:
        """Also the part after `**`, which may stand for no directory at all."""
        last = len(self._fits) - 1
        after = [index + 1 for index in indexes if index < last and self._fits[index] is None]
        return frozenset(index for index in (*indexes, *after) if index <= last)


def _compile(part: str) -> Callable[[str], bool]:
    fits = re.compile(translate(part)).match
    # As in a shell, a pattern matches hidden files only if it starts with a dot.
    return lambda name: bool(fits(name)) and (part.startswith(".") or not name.startswith("."))
