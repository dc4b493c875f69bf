"""Listing directories and matching patterns, one entry at a time."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import translate

from pit_protocol.problem import Problem
from pit_server.store.files.domain_files import DIRECTORY, Domain, Entry, Kind, entry_at, is_part, names_in

ANY_DEPTH = "**"
LONGEST_PATTERN = 1000
_BELOW = DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def walk(domain: Domain, path: str, *, recursive: bool = False) -> Iterator[tuple[str, Entry]]:
    """Entries with their paths below `path`; directories before what is in them."""
    with domain.directory(path) as root:
        yield from _walk(root, "", recursive=recursive)


def match(domain: Domain, path: str, pattern: str) -> Iterator[tuple[str, Entry]]:
    """Entries below `path` that match `*.bin`, `run-?/loss`, `**/*.txt`; links are not followed."""
    if len(pattern) > LONGEST_PATTERN or ".." in pattern.split("/"):
        raise Problem("bad_glob", "that pattern is too long, or leads elsewhere", status=422)
    parts = [part for part in pattern.split("/") if part]
    with domain.directory(path) as root:
        yield from _match(root, "", parts)


def _walk(directory: int, prefix: str, *, recursive: bool) -> Iterator[tuple[str, Entry]]:
    stack = [(os.dup(directory), prefix, iter(names_in(directory)))]
    try:
        while stack:
            place, above, names = stack[-1]
            name = next(names, None)
            if name is None:
                os.close(stack.pop()[0])
                continue
            if is_part(name):
                continue
            try:
                entry = entry_at(place, name)
            except FileNotFoundError:
                continue  # gone since
            yield above + name, entry
            if recursive and entry.kind is Kind.DIRECTORY:
                # Gone, replaced or not readable.
                with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                    below = os.open(name, _BELOW, dir_fd=place)
                    stack.append((below, f"{above}{name}/", iter(names_in(below))))
    finally:
        for place, _, _ in stack:
            os.close(place)


def _match(directory: int, prefix: str, parts: list[str]) -> Iterator[tuple[str, Entry]]:
    part, *rest = parts
    if part == ANY_DEPTH:
        yield from _match_below(directory, prefix, rest)
        return
    fits = re.compile(translate(part)).match
    for name in names_in(directory):
        # As in a shell, a pattern matches hidden files only if it starts with a dot.
        if is_part(name) or not fits(name) or (name.startswith(".") and not part.startswith(".")):
            continue
        with suppress(FileNotFoundError, NotADirectoryError):
            if not rest:
                yield prefix + name, entry_at(directory, name)
            else:
                yield from _match_in(directory, name, prefix, rest)


def _match_below(directory: int, prefix: str, rest: list[str]) -> Iterator[tuple[str, Entry]]:
    """In this directory and in all below it."""
    if not rest:
        yield from _walk(directory, prefix, recursive=True)
        return
    yield from _match(directory, prefix, rest)
    for path, entry in _walk(directory, "", recursive=True):
        if entry.kind is Kind.DIRECTORY:
            with suppress(FileNotFoundError, NotADirectoryError):
                yield from _match_in(directory, path, prefix, rest)


def _match_in(directory: int, path: str, prefix: str, rest: list[str]) -> Iterator[tuple[str, Entry]]:
    place = os.dup(directory)
    try:
        for name in path.split("/"):
            below = os.open(name, _BELOW, dir_fd=place)
            os.close(place)
            place = below
        yield from _match(place, f"{prefix}{path}/", rest)
    finally:
        os.close(place)
