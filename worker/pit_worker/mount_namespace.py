"""Mount namespaces: mounts that only one thread and what it starts can see. Needs root."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePath
from typing import TypeVar

from pit_worker import kernel

T = TypeVar("T")


def enter() -> None:
    """Give this thread a mount namespace of its own; mounts made outside later still appear in it."""
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_SLAVE)


def call_inside(call: Callable[[], T]) -> T:
    """Call it in a thread with a mount namespace of its own, in which the programs that it starts stay."""

    def inside() -> T:
        enter()
        return call()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(inside).result()


def bind(source: Path, target: PurePath, *, read_only: bool = False) -> None:
    """Mount a directory or file at a second place, with what is mounted below it."""
    kernel.mount(str(source), str(target), None, kernel.MS_BIND | kernel.MS_REC)
    if read_only:
        protect(target)


def protect(place: PurePath) -> None:
    """Make one mount read-only."""
    flags = kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount(None, str(place), None, flags)


def mount_memory(target: PurePath) -> None:
    """Mount an empty directory in memory, which only root can write to."""
    kernel.mount("tmpfs", str(target), "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755,size=1m")


def hide_processes() -> None:
    """Show each user only their own processes in /proc; before Linux 5.8 this changes nothing."""
    flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
    kernel.mount("proc", "/proc", "proc", flags, "hidepid=2")


def detach_below(directory: Path) -> None:
    """Remove every mount below a directory, so that this namespace does not keep it alive."""
    lines = Path("/proc/thread-self/mountinfo").read_bytes().splitlines()
    places = [line.split(b" ")[4].decode("unicode_escape").encode("latin-1") for line in lines]
    for place in places:
        if place.startswith(os.fsencode(directory) + b"/"):
            kernel.unmount(place)
