"""Writing files that are whole or absent, and that survive a power failure where that matters."""

import os
import threading
from pathlib import Path


def write_atomic(path: Path, content: str | bytes, *, mode: int = 0o600, sync: bool = False) -> None:
    """Replace `path` in one step: no reader sees half of it, or one with wider permissions than `mode`.

    With `sync` the content is on disk before it takes the name; the name itself lasts after `sync_directory`.
    """
    # Threads are numbered like processes: no two that run have the same number.
    partial = path.with_name(f"{path.name}.{threading.get_native_id()}.part")
    partial.unlink(missing_ok=True)
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
            if sync:
                file.flush()
                os.fsync(descriptor)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write everything: a disk that fills up takes a part without an error, and fails with the rest."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def move(source: Path, target: Path) -> None:
    """Rename something so that it survives a power failure, under one name or the other."""
    source.rename(target)
    sync_directory(target.parent)
    sync_directory(source.parent)


def sync_directory(directory: Path | int) -> None:
    """Make the names in a directory survive a power failure; a descriptor may be one opened with O_PATH."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    descriptor = (
        os.open(".", flags, dir_fd=directory) if isinstance(directory, int) else os.open(directory, flags)
    )
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
