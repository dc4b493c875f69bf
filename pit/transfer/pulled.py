"""Which directories here are copies of which directories on a head.

`pit pull home d x` makes a copy `x`, if there is no `x`, and `x/d`, if there is one. So a repeated pull has
to know that `x` is the copy that it made. A cache: if it is lost, `pit pull -c` copies into `x` again.
"""

import json
import os
from contextlib import suppress
from pathlib import Path

from pit_protocol.atomic_file import write_atomic

MOST = 1000  # the oldest are forgotten
Copies = dict[str, tuple[str, int, int]]  # by path: the source, and the directory's device and inode


def note(source: str, target: Path) -> None:
    """Remember a complete copy; only a convenience, so nothing fails if that fails."""
    with suppress(OSError):
        path, status = target.resolve(), target.stat()
        copies = {name: copy for name, copy in _read().items() if name != str(path)}
        copies[str(path)] = (source, status.st_dev, status.st_ino)
        _file().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(_file(), json.dumps(dict(list(copies.items())[-MOST:])))


def is_copy(source: str, target: Path) -> bool:
    """Whether a directory is a copy of that source, and no other directory that has its name since."""
    try:
        path, status = target.resolve(), target.stat()
    except OSError:
        return False
    return _read().get(str(path)) == (source, status.st_dev, status.st_ino)


def _read() -> Copies:
    try:
        return {name: (str(copy[0]), int(copy[1]), int(copy[2])) for name, copy in _load().items()}
    except (OSError, ValueError, AttributeError, LookupError, TypeError):
        return {}


def _load() -> dict[str, list[str | int]]:
    found: dict[str, list[str | int]] = json.loads(_file().read_text())
    return found


def _file() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pit" / "pulled.json"
