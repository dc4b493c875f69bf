"""Uploaded bodies, kept under their own hash: the same one sent twice is stored once."""

import hashlib
import os
import re
import tempfile
from pathlib import Path
from typing import BinaryIO

from pit_protocol.problem import Problem

SHA256 = re.compile(r"[0-9a-f]{64}")
BLOCK = 256 * 1024


def check_name(sha256: str) -> None:
    if not SHA256.fullmatch(sha256):
        raise Problem(
            "bad_hash", f"{sha256[:70]!r} is no sha256", "64 hexadecimal digits name an upload", status=422
        )


def receive(stream: BinaryIO, target: Path, max_bytes: int) -> bool:
    """Store the stream as `target`, named by its hash; False if it was there already."""
    if target.exists():
        return False
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, partial = tempfile.mkstemp(dir=target.parent, suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            found = _copy(stream, file, max_bytes)
            file.flush()
            os.fsync(file.fileno())
        if found != target.name:
            raise Problem(
                "hash_differs",
                f"the upload's sha256 is {found}, not {target.name}",
                "send it again",
                status=422,
            )
        Path(partial).replace(target)
    finally:
        Path(partial).unlink(missing_ok=True)
    return True


def _copy(source: BinaryIO, target: BinaryIO, max_bytes: int) -> str:
    digest = hashlib.sha256()
    size = 0
    while block := source.read(BLOCK):
        size += len(block)
        if size > max_bytes:
            limit = f"{max_bytes // (1024 * 1024)} MiB"
            raise Problem(
                "too_large", f"the upload is larger than {limit}", "ignore or push large files", status=413
            )
        digest.update(block)
        target.write(block)
    return digest.hexdigest()
