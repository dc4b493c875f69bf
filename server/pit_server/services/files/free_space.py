"""The free space of the data root's disk, the last of which is for the head."""

import os

from pit_protocol.problem import Problem
from pit_server.settings import Settings

MIN_FREE_FILES = 10_000  # fewer free inodes count as none
HINT = "ask an admin for more space, or remove what is not needed"


def free_and_total(settings: Settings) -> tuple[int, int]:
    """Free and total bytes of the data root's disk."""
    root = os.statvfs(settings.root)
    return root.f_bavail * root.f_frsize, root.f_blocks * root.f_frsize


def require_free_space(settings: Settings, size: int) -> None:
    """Raise a Problem unless that many bytes fit on the disk without what is kept for the head."""
    free, total = free_and_total(settings)
    minimum = total * settings.min_free_percent / 100
    if minimum and _free_files(settings) < MIN_FREE_FILES:
        message = f"the head's disk has room for less than {MIN_FREE_FILES:,} more files"
        raise Problem("disk_full", message, HINT, status=507)
    if free - size < minimum:
        left, kept = render_size(free), render_size(int(minimum))
        message = f"the head's disk has {left} left, and the last {kept} are reserved for the head"
        raise Problem("disk_full", message, HINT, status=507)


def render_size(size: int) -> str:
    """A size for people: `1.5 GiB`."""
    value = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def _free_files(settings: Settings) -> int:
    root = os.statvfs(settings.root)
    return root.f_favail if root.f_files else MIN_FREE_FILES  # some file systems have no limit
