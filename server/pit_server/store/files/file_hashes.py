"""Hashes of files, computed once for each version of a file."""

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from pit_server import cancellation

BLOCK = 1024 * 1024
MOST = 10_000  # versions that are remembered

Version = tuple[int, int, int, int, int]
_known: OrderedDict[Version, str] = OrderedDict()
_lock = threading.Lock()
_turns = tuple(threading.Lock() for _ in range(64))
ASK_S = 1.0  # how often one who waits for a turn looks whether that is still wanted


@contextmanager
def turn_of(user_id: int) -> Iterator[None]:
    """Hash one file of a user at a time, so that the cores are shared by users, not by requests."""
    turn = _turns[user_id % len(_turns)]
    while not turn.acquire(timeout=ASK_S):
        cancellation.check()
    try:
        yield
    finally:
        turn.release()


def digest_of(descriptor: int) -> str:
    """The sha256 of a whole open file."""
    version = _version(descriptor)
    if known := _known.get(version):
        return known
    digest = hashlib.sha256()
    buffer = bytearray(BLOCK)
    view = memoryview(buffer)
    offset = 0
    while size := os.preadv(descriptor, [buffer], offset):
        cancellation.check()
        digest.update(view[:size])
        offset += size
    if _version(descriptor) == version:
        remember(descriptor, digest.hexdigest())
    return digest.hexdigest()


def remember(descriptor: int, digest: str) -> None:
    """Cache the hash of a file's current version; any change makes another version."""
    with _lock:
        _known[_version(descriptor)] = digest
        while len(_known) > MOST:
            _known.popitem(last=False)


def _version(descriptor: int) -> Version:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
