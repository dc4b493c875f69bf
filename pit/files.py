"""Small text files, read if they are there and written whole or not at all."""

import os
from pathlib import Path

from pit_protocol.problem import Problem


def read_text(path: Path) -> str | None:
    """The file's text, or None if there is no such file."""
    try:
        return path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        raise Problem("bad_file", f"{path} is no text", "delete it or write it anew") from None


def write_whole(path: Path, text: str, *, mode: int) -> None:
    """Replace `path` in one step; nobody sees half a file, or one with wider rights than `mode`."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    partial.unlink(missing_ok=True)
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
