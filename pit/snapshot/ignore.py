"""`.pitignore`: files that are not sent, also in submodules and nested repositories.

Git reads ignore patterns relative to the directory of their file. For a nested repository they are
rewritten relative to its top.
"""

import fnmatch
import re
from collections.abc import Iterator

IGNORE_FILE = ".pitignore"
_ANY_DEPTH = b"**"


def literal_pattern(path: bytes) -> bytes:
    """The ignore pattern that matches only this path; a newline becomes `?`, which matches any character."""
    return b"/" + re.sub(rb"([\\\\*?\\[!# ])", rb"\\\1", path).replace(b"\n", b"?")


def patterns_below(patterns: bytes, path: bytes) -> bytes:
    """The same patterns relative to the directory `path`."""
    return b"".join(
        line + b"\n" for text in patterns.splitlines() for line in _relative_to(text, path.split(b"/"))
    )


def _relative_to(text: bytes, path: list[bytes]) -> Iterator[bytes]:
    sign, body = (b"!", text[1:]) if text.startswith(b"!") else (b"", text)
    body = re.sub(rb"(?<!\\) +$", b"", body)
    bare = body.strip(b"/")
    if not bare or body.startswith(b"#"):
        return
    if b"/" not in body.rstrip(b"/"):  # matches a name at any depth
        yield text
        rests: list[list[bytes]] = [[]] if any(_matches(name, bare) for name in path) else []
    else:
        rests = list(_rests(bare.split(b"/"), path))
    for rest in rests:
        if rest:
            yield sign + b"/" + b"/".join(rest) + (b"/" if body.endswith(b"/") else b"")
        elif not sign:  # the directory itself is ignored, so all its files; `!` would not bring them back
            yield b"*"


def _rests(pattern: list[bytes], path: list[bytes]) -> Iterator[list[bytes]]:
    """The rest of a pattern whose start matches the path; empty if it matches the path or a parent."""
    if not path or not pattern:
        yield pattern
    elif pattern[0] == _ANY_DEPTH:
        yield from _rests(pattern[1:], path)
        yield from _rests(pattern, path[1:])
    elif _matches(path[0], pattern[0]):
        yield from _rests(pattern[1:], path[1:])


def _matches(name: bytes, pattern: bytes) -> bool:
    """Whether a pattern without slashes matches this name."""
    python = re.sub(rb"\\(.)", rb"[\1]", pattern).replace(b"[^", b"[!")
    return fnmatch.fnmatchcase(name, python)
