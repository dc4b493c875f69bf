"""Reading an untrusted tar stream: headers are checked, contents are passed on in pieces.

By hand, because `tarfile` is slow with many small files, and has written outside its target before
(CVE-2025-4517).
"""

import hashlib
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pit_protocol.problem import Problem

BLOCK = 512
PIECE = 256 * 1024
GZIP = b"\x1f\x8b"
GZIP_WINDOW = 31  # zlib's name for a gzip header and trailer
LONGEST_HEADER = 1024 * 1024  # of extended headers: names, not contents
LONGEST_NAME = 512 * 1024
LATEST = 2.0**35  # every file system can store this time
SEAL, SEAL_BEGINS = b"comment", b"sha256:"  # of a last directory: the hash of all before it

FILE, DIRECTORY, LINK = b"0", b"5", b"2"
_EXTENDED, _GLOBAL, _LONG_NAME, _LONG_LINK = b"x", b"g", b"L", b"K"


@dataclass(frozen=True, slots=True)
class Member:
    name: str
    kind: bytes
    mode: int
    size: int
    mtime: float
    target: str  # of a link


def bad_archive(why: str) -> Problem:
    return Problem("bad_archive", f"the archive cannot be trusted: {why}", "try again, or ask its author")


class TarReader:
    """Members one after the other; the content of each must be read by `pieces` before the next."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = _plain(iter(chunks))
        self._rest = memoryview(b"")
        self._hash = hashlib.sha256()
        self.is_sealed = False  # whether the archive's own hash was there, and right

    def members(self) -> Iterator[Member]:
        names: dict[bytes, bytes] = {}  # what extended headers say about the next member
        while True:
            sealed = self._hash.copy()
            header = bytes(self._take(BLOCK))
            if not header.strip(b"\0"):
                self._drain()
                return
            kind, size = _check(header)
            if kind == _EXTENDED:
                names.update(_records(self._text(size)))
                self._judge(names.pop(SEAL, b""), sealed.hexdigest())
            elif kind == _GLOBAL:
                self._text(size)
            elif kind in (_LONG_NAME, _LONG_LINK):
                names[b"path" if kind == _LONG_NAME else b"linkpath"] = self._text(size).rstrip(b"\0")
            else:
                yield _member(header, names)
                names = {}

    def pieces(self, size: int) -> Iterator[memoryview]:
        """The content of the member whose header was read last."""
        padding = -size % BLOCK
        while size:
            piece = self._some(min(size, PIECE))
            size -= len(piece)
            yield piece
        if padding:
            self._take(padding)

    def content(self, size: int) -> memoryview:
        """The same in one piece, for small members."""
        taken = self._take(size + -size % BLOCK)
        return taken[:size]

    def _judge(self, seal: bytes, digest: str) -> None:
        if seal.startswith(SEAL_BEGINS):
            if seal != SEAL_BEGINS + digest.encode():
                raise bad_archive("its hash does not match its content")
            self.is_sealed = True

    def _text(self, size: int) -> bytes:
        if size > LONGEST_HEADER:
            raise bad_archive("a header is too long")
        return bytes(self.content(size))

    def _take(self, size: int) -> memoryview:
        """Exactly `size` bytes."""
        if len(self._rest) >= size:
            return self._some(size)
        whole = bytearray()
        while len(whole) < size:
            whole += self._some(size - len(whole))
        return memoryview(bytes(whole))

    def _some(self, most: int) -> memoryview:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                raise bad_archive("it is truncated")
            self._rest = memoryview(chunk)
        piece, self._rest = self._rest[:most], self._rest[most:]
        self._hash.update(piece)
        return piece

    def _drain(self) -> None:
        """Read to the end of the stream, to notice a transfer that breaks off there."""
        for _ in self._chunks:
            pass


def _plain(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The stream, decompressed if it is gzip; a small piece never expands to a huge one."""
    first = b""
    for chunk in chunks:
        first += chunk
        if len(first) >= len(GZIP):
            break
    if not first.startswith(GZIP):
        yield first
        yield from chunks
        return
    unzip = zlib.decompressobj(GZIP_WINDOW)
    try:
        for chunk in _chain(first, chunks):
            rest = chunk
            while rest and not unzip.eof:
                if piece := unzip.decompress(rest, PIECE):
                    yield piece
                rest = unzip.unconsumed_tail
    except zlib.error as error:
        raise bad_archive("its compression is broken") from error
    if not unzip.eof:
        raise bad_archive("it is truncated")


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _check(header: bytes) -> tuple[bytes, int]:
    """Kind and size of a member; raises a Problem if the header's checksum is wrong."""
    if sum(header) - sum(header[148:156]) + 8 * 32 != _number(header[148:156]):
        raise bad_archive("a header is damaged")
    size = _number(header[124:136])
    if size < 0:
        raise bad_archive("a size is negative")
    return header[156:157], size


def _member(header: bytes, names: dict[bytes, bytes]) -> Member:
    kind = header[156:157]
    if kind in (b"\0", b"7"):
        kind = FILE
    name = header[:100].partition(b"\0")[0]
    if header[257:262] == b"ustar" and header[345:346] != b"\0" and header[257:265] != b"ustar  \0":
        name = header[345:500].partition(b"\0")[0] + b"/" + name
    try:
        size = int(names.get(b"size") or _number(header[124:136])) if kind == FILE else 0
        mtime = float(names.get(b"mtime") or _number(header[136:148]))
    except ValueError as error:
        raise bad_archive("a header has no number where one belongs") from error
    if size < 0 or not 0 <= mtime < LATEST:
        raise bad_archive("a size or time is out of range")
    target = names.get(b"linkpath", header[157:257].partition(b"\0")[0])
    path = names.get(b"path", name)
    if not 0 < len(path) <= LONGEST_NAME or len(target) > LONGEST_NAME:
        raise bad_archive("a name is missing or too long")
    return Member(os.fsdecode(path), kind, _number(header[100:108]), size, mtime, os.fsdecode(target))


def _number(field: bytes) -> int:
    if field[0] in (0x80, 0xFF):  # GNU's encoding for what does not fit into octal digits
        return int.from_bytes(field[1:], "big", signed=field[0] == 0xFF)
    try:
        return int(field.strip(b" \0") or b"0", 8)
    except ValueError as error:
        raise bad_archive("a header has no number where one belongs") from error


def _records(text: bytes) -> dict[bytes, bytes]:
    """`LENGTH NAME=VALUE\\n`, one after the other; a value may hold anything."""
    found: dict[bytes, bytes] = {}
    while text:
        digits, blank, _ = text.partition(b" ")
        length = int(digits) if digits.isdigit() and len(digits) < 10 else 0
        name, equals, value = text[len(digits) + 1 : length - 1].partition(b"=")
        if not blank or not equals or not 0 < length <= len(text):
            raise bad_archive("an extended header is damaged")
        found[name] = value
        text = text[length:]
    return found
