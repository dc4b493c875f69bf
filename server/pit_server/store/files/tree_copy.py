"""Copying a directory that somebody may still write to, such as the files of a job whose node is lost.

Both sides go by descriptor and follow no link, so what is swapped meanwhile is never read from, or written
to, another place. Links are copied as links; devices, pipes and sockets are left out.
"""

import errno
import os
import stat
from pathlib import Path

from pit_protocol.problem import Problem
from pit_protocol.transport.dirfd import NO_FOLLOW, DirectoryTree
from pit_server import cancellation
from pit_server.store.files.domain_files import target_of
from pit_server.store.files.tree_walk import Visit, walk

MOST_LEVELS = 1000
REPLACED = (errno.ENOENT, errno.ELOOP, errno.ENXIO)  # gone, a link, or a socket by now
BLOCK = 1024 * 1024


def copy_tree(source: Path, target: Path) -> None:
    """Copy a directory to a new one; a Problem if it is nested too deep."""
    target.mkdir(mode=0o700)
    with DirectoryTree.at(target, follow=False) as tree:
        for visit in walk(source, strict=True):
            if len(visit.parts) > MOST_LEVELS:
                raise Problem("too_deep", f"{source.name} has directories nested over {MOST_LEVELS:,} deep")
            _copy_entries(visit, tree)


def _copy_entries(visit: Visit, tree: DirectoryTree) -> None:
    place = tree.directory(visit.parts, make=0o700)
    status = os.fstat(visit.directory)
    for name, found in visit.entries:
        if stat.S_ISREG(found.st_mode):
            _copy_file(visit.directory, name, tree, [*visit.parts, name])
        elif stat.S_ISLNK(found.st_mode):
            try:
                os.symlink(target_of(visit.directory, name), name, dir_fd=place)
            except FileNotFoundError:
                continue  # gone, or no link any more
    os.fchmod(place, stat.S_IMODE(status.st_mode) & 0o777 | stat.S_IRWXU)


def _copy_file(directory: int, name: str, tree: DirectoryTree, parts: list[str]) -> None:
    try:
        source = os.open(name, os.O_RDONLY | os.O_NONBLOCK | NO_FOLLOW, dir_fd=directory)
    except OSError as error:
        if error.errno not in REPLACED:
            raise
        return
    try:
        status = os.fstat(source)
        if not stat.S_ISREG(status.st_mode):
            return
        copy = tree.create(parts)
        try:
            _copy_content(source, copy, status.st_size)
            os.fchmod(copy, stat.S_IMODE(status.st_mode) & 0o777)
            os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
        finally:
            os.close(copy)
    finally:
        os.close(source)


def _copy_content(source: int, copy: int, size: int) -> None:
    """Copy that many bytes and no more, because the file may grow; its holes stay holes."""
    os.truncate(copy, size)
    at = 0
    while at < size:
        try:
            at = os.lseek(source, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return  # only a hole is left
        end = min(os.lseek(source, at, os.SEEK_HOLE), size)
        os.lseek(copy, at, os.SEEK_SET)
        while at < end and (sent := os.sendfile(copy, source, at, min(BLOCK, end - at))):
            at += sent
            cancellation.check()
        if at < end:
            return  # it was truncated meanwhile
