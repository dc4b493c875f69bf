"""Uploads, stored under their sha256; they come in pieces and can be resumed."""

import contextlib
import hashlib
import os
import re
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pit_protocol.problem import Problem
from pit_server.store.files.upload_parts import Readable

SHA256 = re.compile(r"[0-9a-f]{64}")
BLOCK = 256 * 1024
MIB = 1024 * 1024
_locks = tuple(threading.Lock() for _ in range(64))


class WrongOffset(Problem):
    """Bytes before those that were sent are missing."""

    def __init__(self, offset: int) -> None:
        super().__init__("wrong_offset", f"the upload continues at {offset}", "send from there", status=409)
        self.offset = offset

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "offset": self.offset}


@dataclass(frozen=True)
class Progress:
    size: int  # bytes that have arrived
    complete: bool


def check_name(sha256: str) -> None:
    if not SHA256.fullmatch(sha256):
        raise Problem(
            "bad_hash", f"{sha256[:70]!r} is not a sha256", "64 hexadecimal digits name an upload", status=422
        )


def progress(target: Path) -> Progress:
    """How much of an upload has arrived."""
    for path, complete in ((target, True), (_partial(target), False)):
        try:
            return Progress(path.stat().st_size, complete)
        except FileNotFoundError:
            continue
    return Progress(0, complete=False)


def check_size(total: int, max_mib: int) -> None:
    if total > max_mib * MIB:
        raise Problem(
            "too_large",
            f"the upload is larger than {max_mib} MiB",
            "let git ignore large files, or keep them in Git LFS; an admin can raise `max_upload_mib`",
            status=413,
        )


def receive(stream: Readable, target: Path, *, offset: int, total: int) -> Progress:
    """Append a piece that begins at `offset`; the last of `total` bytes completes the upload."""
    known = progress(target)
    if known.complete:
        return known
    if offset > known.size:
        raise WrongOffset(known.size)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    position = offset
    while position <= total and (block := stream.read(min(BLOCK, total - position + 1))):
        if position + len(block) > total:
            raise Problem("too_large", f"the body is longer than the announced {total} bytes", status=422)
        _append(target, block, position)
        position += len(block)
    return _finished(target, total)


def delete_old(folder: Path, older_than_s: float, now: float | None = None) -> None:
    """Delete old uploads, complete or not."""
    limit = (time.time() if now is None else now) - older_than_s
    for path in folder.glob("*/*"):
        with contextlib.suppress(FileNotFoundError):  # its job was prepared meanwhile
            if path.stat().st_mtime < limit:
                path.unlink()


def _append(target: Path, block: bytes, position: int) -> None:
    """Append the new part of a block; another request may be sending the same upload."""
    with _lock(target):
        if target.exists():
            return
        with _partial(target).open("ab") as file:
            known = file.tell() - position
            if known < 0:
                raise WrongOffset(file.tell())
            file.write(block[known:])


def _finished(target: Path, total: int) -> Progress:
    """Complete an upload if all bytes are here; a Problem if its hash is wrong."""
    with _lock(target):
        known = progress(target)
        if known.complete or known.size < total:
            return known
        partial = _partial(target)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != target.name:
            partial.unlink()
            raise Problem(
                "hash_differs",
                f"the upload's sha256 is {found}, not {target.name}",
                "send it again from the beginning",
                status=422,
            )
        partial.replace(target)
    return Progress(total, complete=True)


def _partial(target: Path) -> Path:
    return target.with_name(f"{target.name}.part")


def _lock(target: Path) -> threading.Lock:
    return _locks[hash(target) % len(_locks)]
