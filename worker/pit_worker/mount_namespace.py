"""Mount namespaces: mounts that only one thread and what it starts can see. Needs root."""

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePath
from typing import TypeVar

T = TypeVar("T")

CLONE_NEWNS = 0x20000
MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_SLAVE = 0x80000
MNT_DETACH = 0x2
_libc = ctypes.CDLL(None, use_errno=True)


def enter() -> None:
    """Give this thread a mount namespace of its own; mounts made outside later still appear in it."""
    _call(_libc.unshare(CLONE_NEWNS))
    _mount(None, Path("/"), None, MS_REC | MS_SLAVE)


def call_inside(call: Callable[[], T]) -> T:
    """Call it in a thread with a mount namespace of its own, in which the programs that it starts stay."""

    def inside() -> T:
        enter()
        return call()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(inside).result()


def bind(source: Path, target: PurePath, *, read_only: bool = False) -> None:
    """Mount a directory or file at a second place, with what is mounted below it."""
    _mount(source, target, None, MS_BIND | MS_REC)
    if read_only:
        protect(target)


def protect(place: PurePath) -> None:
    """Make one mount read-only."""
    _mount(None, place, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)


def mount_memory(target: PurePath) -> None:
    """Mount an empty directory in memory, which only root can write to."""
    _mount(Path("tmpfs"), target, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m")


def hide_processes() -> None:
    """Show each user only their own processes in /proc; before Linux 5.8 this changes nothing."""
    _mount(Path("proc"), Path("/proc"), "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=2")


def detach_below(directory: Path) -> None:
    """Remove every mount below a directory, so that this namespace does not keep it alive."""
    lines = Path("/proc/thread-self/mountinfo").read_bytes().splitlines()
    places = [line.split(b" ")[4].decode("unicode_escape").encode("latin-1") for line in lines]
    for place in places:
        if place.startswith(os.fsencode(directory) + b"/"):
            _call(_libc.umount2(place, MNT_DETACH))


def _mount(
    source: Path | None, target: PurePath, kind: str | None, flags: int, options: str | None = None
) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, options)]
    _call(_libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]))


def _call(answer: int) -> None:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
