"""Clean checkouts of trees: a later job of the same tree gets a copy, without git.

Where the file system can share blocks (Btrfs, XFS), a copy takes no space until somebody writes to it.
Elsewhere it is a real copy, so only small trees are kept: of large ones git is as fast.
Nothing here is synced, so what was made before a reboot is not used.
"""

import errno
import fcntl
import logging
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pit_protocol.system import tree_delete
from pit_server import cancellation

FICLONE = 0x40049409
CANNOT_CLONE = (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.EPERM, errno.ENOSYS)
COPIED_FILES, COPIED_BYTES = 500, 16 * 1024 * 1024  # most of a tree that is kept without shared blocks
MOST_TREES = 200
SIZE = ".size"  # a file beside each tree with its bytes; its time is that of the last use

log = logging.getLogger(__name__)


class CannotShare(Exception):
    """The file system has no shared blocks."""


class _Known(NamedTuple):
    used_at: float
    size: int
    tree: Path


@dataclass(frozen=True)
class TreeCache:
    """The trees of one store: nobody gets a tree that their store does not have."""

    folder: Path  # of all stores, since the last boot of the machine
    store_id: int
    most_bytes: int

    def has(self, tree: str) -> bool:
        return self._place(tree).is_dir()

    def copy(self, tree: str, target: Path) -> bool:
        """Make the new directory `target` a copy of the tree; False if that is not here."""
        source = self._place(tree)
        try:
            os.utime(f"{source}{SIZE}")
            _copy(str(source), str(target), shares_only=False)
        except OSError as error:
            # Not here, or evicted at this moment; or a disk error, which git then meets, too.
            if error.errno != errno.ENOENT:
                log.warning("the cached tree %s cannot be copied: %s", tree, error)
            shutil.rmtree(target, ignore_errors=True)
            return False
        return True

    def add(self, tree: str, checkout: Path) -> None:
        """Keep a copy of a clean checkout, if that is cheap; what fails is not kept."""
        place = self._place(tree)
        if not self.most_bytes or self.has(tree):
            return
        partial = place.with_name(f"{tree}.{os.getpid()}.{id(self)}.part")
        try:
            partial.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            files, size = _measure(str(checkout))
            if size > self.most_bytes:
                return
            _copy(str(checkout), str(partial), shares_only=files > COPIED_FILES or size > COPIED_BYTES)
            Path(f"{place}{SIZE}").write_text(str(size))
            partial.rename(place)
        except (OSError, CannotShare) as error:
            log.debug("tree %s is not kept: %s", tree, error)
            tree_delete.delete(partial)
            return
        self._evict()

    def _place(self, tree: str) -> Path:
        return self.folder / str(self.store_id) / tree

    def _evict(self) -> None:
        """Delete the trees that were not used for longest, until the rest is small enough."""
        known = sorted(_list_known(self.folder))
        total = sum(each.size for each in known)
        while known and (total > self.most_bytes or len(known) > MOST_TREES):
            oldest = known.pop(0)
            total -= oldest.size
            with suppress(OSError):
                Path(f"{oldest.tree}{SIZE}").unlink(missing_ok=True)
                gone = oldest.tree.with_name(f"{oldest.tree.name}.old")
                oldest.tree.rename(gone)
                tree_delete.delete(gone)


def open_cache(cache: Path, boot_id: str, store_id: int, most_bytes: int) -> TreeCache:
    """The cache of a store, below the directory of all caches; that of earlier boots is deleted."""
    if not boot_id:
        return TreeCache(cache / "trees" / "unknown", store_id, 0)
    folder = cache / "trees" / boot_id
    if not folder.is_dir():
        for old in (cache / "trees").glob("*"):
            tree_delete.delete(old)
    return TreeCache(folder, store_id, most_bytes)


def _list_known(folder: Path) -> Iterator[_Known]:
    for file in folder.glob(f"*/*{SIZE}"):
        with suppress(OSError, ValueError):  # evicted by another thread
            yield _Known(file.stat().st_mtime, int(file.read_text()), file.with_suffix(""))


def _measure(directory: str) -> tuple[int, int]:
    """How many files there are, and their bytes."""
    files = size = 0
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                more, larger = _measure(entry.path)
                files, size = files + more, size + larger
            else:
                files, size = files + 1, size + entry.stat(follow_symlinks=False).st_size
    return files, size


def _copy(source: str, target: str, *, shares_only: bool) -> None:
    """Copy a directory that nobody writes to; raises CannotShare if blocks must be shared and cannot."""
    os.mkdir(target, stat.S_IMODE(os.stat(source).st_mode))  # noqa: PTH102, PTH116
    cancellation.check()
    with os.scandir(source) as entries:
        for entry in entries:
            place = f"{target}/{entry.name}"
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), place)  # noqa: PTH115, PTH211
            elif entry.is_dir(follow_symlinks=False):
                _copy(entry.path, place, shares_only=shares_only)
            else:
                _copy_file(entry.path, place, shares_only=shares_only)


def _copy_file(source: str, target: str, *, shares_only: bool) -> None:
    given = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        status = os.fstat(given)
        copy = os.open(
            target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, stat.S_IMODE(status.st_mode)
        )
        try:
            if status.st_size and not _share(given, copy):
                if shares_only:
                    raise CannotShare
                while os.copy_file_range(given, copy, COPIED_BYTES):
                    pass
        finally:
            os.close(copy)
    finally:
        os.close(given)


def _share(source: int, copy: int) -> bool:
    """Let a new file have the blocks of another one; False if the file system cannot do that."""
    try:
        fcntl.ioctl(copy, FICLONE, source)
    except OSError as error:
        if error.errno not in CANNOT_CLONE:
            raise
        return False
    return True
