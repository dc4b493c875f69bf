"""What the head has of a directory, as it looked here when it had it: by which the changes are found."""

import json
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from pit_worker import footing
from pit_worker.entry import write_whole

# Kind, size, times and inode: what stays the same only if nothing was changed.
Look = tuple[int, int, int, int, int]


@dataclass(frozen=True)
class Changes:
    changed: tuple[str, ...]  # parents before what is in them
    gone: tuple[str, ...]  # also what is of another kind now


@dataclass
class Manifest:
    known: dict[str, Look] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)  # directories that could not be looked into, and why

    def compare(self, root: Path) -> tuple[Changes, "Manifest"]:
        """What is different from what the head has, and how it looks now."""
        now = scan(root)
        changed = sorted(path for path, look in now.known.items() if self.known.get(path) != look)
        # A directory that is still one has nothing to tell but its content.
        changed = [path for path in changed if not (_is_directory(now, path) and _is_directory(self, path))]
        others = (
            path for path in changed if path in self.known and self.known[path][0] != now.known[path][0]
        )
        # What is in a directory that cannot be read may be there or not.
        hidden = tuple(f"{path}/" for path in now.unread)
        gone = [path for path in self.known if path not in now.known and not path.startswith(hidden)]
        return Changes(tuple(changed), tuple(sorted({*gone, *others}))), now

    def save(self, file: Path) -> None:
        write_whole(file, json.dumps(self.known))


def load(file: Path) -> Manifest:
    """What was saved; nothing if nothing was."""
    try:
        known = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return Manifest()
    return Manifest({path: (*map(int, look),) for path, look in known.items()})  # type: ignore[misc]


def scan(root: Path) -> Manifest:
    handle = os.open(root, footing.DIRECTORY)
    unread: dict[str, str] = {}
    try:
        return Manifest({path: look_of(status) for path, status in footing.walk(handle, unread)}, unread)
    finally:
        os.close(handle)


def look_of(status: os.stat_result) -> Look:
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFDIR:
        return kind, 0, 0, 0, 0
    return kind, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _is_directory(manifest: Manifest, path: str) -> bool:
    look = manifest.known.get(path)
    return look is not None and look[0] == stat.S_IFDIR
