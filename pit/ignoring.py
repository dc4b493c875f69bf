"""`.pitignore`: what stays, inside of repositories in the project too.

Git reads a file of patterns as relative to where it lies; for a repository inside, they are told
anew as seen from there.
"""

import fnmatch
import re
from collections.abc import Iterator

IGNORE_FILE = ".pitignore"
_DEEP = b"**"


def exactly(path: bytes) -> bytes:
    """The pattern that means this path of a project, but for a newline, which stands for any letter."""
    return b"/" + re.sub(rb"([\\\\*?\\[!# ])", rb"\\\1", path).replace(b"\n", b"?")


def patterns_below(patterns: bytes, path: bytes) -> bytes:
    """The same patterns for who stands in the directory `path`."""
    return b"".join(
        line + b"\n" for text in patterns.splitlines() for line in _seen_from(text, path.split(b"/"))
    )


def _seen_from(text: bytes, path: list[bytes]) -> Iterator[bytes]:
    sign, body = (b"!", text[1:]) if text.startswith(b"!") else (b"", text)
    body = re.sub(rb"(?<!\\) +$", b"", body)
    bare = body.strip(b"/")
    if not bare or body.startswith(b"#"):
        return
    if b"/" not in body.rstrip(b"/"):  # holds for a name at any depth
        yield text
        rests: list[list[bytes]] = [[]] if any(_fits(name, bare) for name in path) else []
    else:
        rests = list(_rests(bare.split(b"/"), path))
    for rest in rests:
        if rest:
            yield sign + b"/" + b"/".join(rest) + (b"/" if body.endswith(b"/") else b"")
        elif not sign:  # a directory around is ignored, so all in it; to take that back says nothing of files
            yield b"*"


def _rests(pattern: list[bytes], path: list[bytes]) -> Iterator[list[bytes]]:
    """What can be left of a pattern when its beginning stands for the path; nothing: for one above it."""
    if not path or not pattern:
        yield pattern
    elif pattern[0] == _DEEP:
        yield from _rests(pattern[1:], path)
        yield from _rests(pattern, path[1:])
    elif _fits(path[0], pattern[0]):
        yield from _rests(pattern[1:], path[1:])


def _fits(name: bytes, pattern: bytes) -> bool:
    """Whether a pattern without slashes means this name."""
    python = re.sub(rb"\\(.)", rb"[\1]", pattern).replace(b"[^", b"[!")
    return fnmatch.fnmatchcase(name, python)
