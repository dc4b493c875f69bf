"""Writing a tar stream, entry by entry; the last one has the hash of all before it.

By hand, because `tarfile` takes longer to make a header than the system to read a small file.
"""

import hashlib
import os
import struct
from collections.abc import Iterable, Iterator

from pit_protocol.transport.tar_reader import BLOCK, DIRECTORY, FILE, SEAL, SEAL_BEGINS, Member

_HEADER = struct.Struct("100s8s8s8s12s12s8s1s100s8s32s32s8s8s155s12x")
_LONGEST_NAME = 100
_LARGEST = 8**11  # first size that does not fit into octal digits
_END = b"\0" * (2 * BLOCK)


def header(member: Member) -> bytes:
    """The header of a member."""
    name, target = os.fsencode(member.name), os.fsencode(member.target)
    long = [
        (key, value) for key, value in ((b"path", name), (b"linkpath", target)) if len(value) > _LONGEST_NAME
    ]
    extended = _extended(long) if long else b""
    return (
        extended
        + _block(
            name[:_LONGEST_NAME],
            member.kind,
            member.size if member.kind == FILE else 0,
            member.mode & 0o777,  # without setuid and setgid
            max(0, int(member.mtime)),
            target[:_LONGEST_NAME],
        )
    )


def padding(size: int) -> bytes:
    """The padding of a content to whole blocks."""
    return b"\0" * (-size % BLOCK)


def ended(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """An archive without a hash, where something else checks it."""
    yield from pieces
    yield _END


def sealed(pieces: Iterable[bytes], root: str = ".") -> Iterator[bytes]:
    """A complete archive of headers and contents, with its hash and end marker.

    The hash is a field of `root`, a directory that comes last: `tarfile` would take a header without
    a member for a broken archive.
    """
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
        yield piece
    seal = _extended([(SEAL, SEAL_BEGINS + digest.hexdigest().encode())])
    yield seal + _block(os.fsencode(root), DIRECTORY, 0, mode=0o755) + _END


def _extended(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The header before a header, for names that do not fit into it."""
    text = b"".join(_record(key, value) for key, value in pairs)
    if not _is_utf8(text):
        text = _record(b"hdrcharset", b"BINARY") + text
    return _block(b"names", b"x", len(text)) + text + padding(len(text))


def _record(key: bytes, value: bytes) -> bytes:
    """`LENGTH KEY=VALUE\\n`, where the length counts its own digits, too."""
    rest = b" " + key + b"=" + value + b"\n"
    length = len(rest)
    while length != len(rest) + len(str(length)):
        length = len(rest) + len(str(length))
    return str(length).encode() + rest


def _block(
    name: bytes, kind: bytes, size: int, mode: int = 0o644, mtime: int = 0, target: bytes = b""
) -> bytes:
    large = b"\x80" + size.to_bytes(11, "big") if size >= _LARGEST else b"%011o\0" % size
    fields = [name, b"%07o\0" % mode, b"0000000\0", b"0000000\0", large, b"%011o\0" % mtime]
    rest = (kind, target, b"ustar\x0000", b"", b"", b"0000000\0", b"0000000\0", b"")
    total = sum(_HEADER.pack(*fields, b" " * 8, *rest))
    return _HEADER.pack(*fields, b"%06o\0 " % total, *rest)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
