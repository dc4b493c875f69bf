"""What a test does to a machine: shift its clock, give it a small disk, make the disk read-only."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.requirements import need_programs, need_system_rights

SHIM = Path(__file__).with_name("clock_shim.c")


class Clock:
    """The wall clock of the programs that are started with `environ`; others see the true time."""

    def __init__(self, place: Path) -> None:
        need_programs("cc")
        library = place / "clock_shim.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, SHIM, "-ldl"], check=True)
        self._offset = place / "clock_offset"
        self.jump(0)
        self.environ = {"LD_PRELOAD": str(library), "PIT_CLOCK_OFFSET": str(self._offset)}

    def jump(self, seconds: int) -> None:
        """Set the clock that far off the true time."""
        part = self._offset.with_suffix(".part")
        part.write_text(str(seconds))
        part.rename(self._offset)


@contextmanager
def small_disk(place: Path, size_mib: int, inodes: int = 0) -> Iterator[Path]:
    """A file system of that size at `place`, in memory."""
    need_system_rights()
    place.mkdir(parents=True, exist_ok=True)
    options = f"size={size_mib}m,mode=755" + (f",nr_inodes={inodes}" if inodes else "")
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def set_read_only(place: Path, is_read_only: bool) -> None:
    """Remount a file system of `small_disk`; files open for writing do not prevent it, as with a bad disk."""
    subprocess.run(["mount", "-o", f"remount,{'ro' if is_read_only else 'rw'}", str(place)], check=True)
