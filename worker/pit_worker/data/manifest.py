"""What the head has of a directory, with the local status at that time, to find changes."""

import json
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from pit_protocol.atomic_file import write_atomic
from pit_protocol.transport.dirfd import DirectoryTree
from pit_worker.data.tree_walk import walk

# Kind, size, times and inode: equal only if nothing was changed.
Look = tuple[int, int, int, int, int]


@dataclass(frozen=True)
class Changes:
    changed: tuple[str, ...]  # parents before their content
    gone: tuple[str, ...]  # also what has another kind now


@dataclass
class Manifest:
    known: dict[str, Look] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)  # directories that could not be read, and why

    def compare(self, root: Path) -> tuple[Changes, "Manifest"]:
        """The changes since the head got it, and the current manifest."""
        now = scan(root)
        changed = sorted(path for path, look in now.known.items() if self.known.get(path) != look)
        # A directory that is still one differs only in its content.
        changed = [path for path in changed if not (_is_directory(now, path) and _is_directory(self, path))]
        others = (
            path for path in changed if path in self.known and self.known[path][0] != now.known[path][0]
        )
        # The content of an unreadable directory is unknown, not gone.
        hidden = tuple(f"{path}/" for path in now.unread)
        gone = [path for path in self.known if path not in now.known and not path.startswith(hidden)]
        return Changes(tuple(changed), tuple(sorted({*gone, *others}))), now

    def save(self, file: Path) -> None:
        write_atomic(file, json.dumps(self.known))


def load(file: Path) -> Manifest:
    """The saved manifest; an empty one if there is none."""
    try:
        known = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return Manifest()
    return Manifest({path: (*map(int, look),) for path, look in known.items()})  # type: ignore[misc]


def scan(root: Path) -> Manifest:
    unread: dict[str, str] = {}
    with DirectoryTree.at(root, follow=False) as tree:
        return Manifest({path: look_of(status) for path, status in walk(tree, unread)}, unread)


def look_of(status: os.stat_result) -> Look:
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFDIR:
        return kind, 0, 0, 0, 0
    return kind, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _is_directory(manifest: Manifest, path: str) -> bool:
    look = manifest.known.get(path)
    return look is not None and look[0] == stat.S_IFDIR
