"""Hashes of files, computed once for each version of a file."""

import hashlib
import os
import threading
from collections import OrderedDict

BLOCK = 1024 * 1024
MOST = 10_000  # versions that are remembered

Version = tuple[int, int, int, int, int]
_known: OrderedDict[Version, str] = OrderedDict()
_lock = threading.Lock()


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
