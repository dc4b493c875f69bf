"""The data root's own record of its incarnation, and of the numbers that were handed out in it.

`incarnation.json` has upper bounds of all numbers. They are reserved in blocks and on disk before the first
of a block is used, so they are never behind, even after a power failure. `incarnation.used` has the numbers
themselves. It is written after each commit, but not flushed to disk: it tells a database that was restored
from a backup from one that a killed head left.
"""

import fcntl
import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from pit_protocol.atomic_file import sync_directory, write_atomic
from pit_protocol.problem import Problem

FILE, USED_FILE = "incarnation.json", "incarnation.used"
BLOCK = 100  # numbers that are reserved at a time
WIDTH = 1024  # of the used numbers, so that a new record covers the old one
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

Numbers = dict[str, int]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Record:
    """What the data root knows of its head."""

    incarnation: str = ""  # renewed when a restored database was found
    generation: int = 0  # of the last head
    boot_id: str = ""  # of the machine when it began
    reserved: Numbers = field(default_factory=dict)


class Marks:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._reserved: Numbers = {}
        self._lock = threading.Lock()

    def read(self) -> Record | None:
        try:
            return Record(**json.loads((self._root / FILE).read_bytes()))
        except FileNotFoundError:
            return None

    def write(self, record: Record) -> None:
        write_atomic(self._root / FILE, json.dumps(asdict(record)), sync=True)
        sync_directory(self._root)
        self._reserved = record.reserved

    def used(self) -> Numbers:
        with self._open_used() as file:
            return _parse(file)

    def reserve(self, numbers: Mapping[str, int]) -> None:
        """Before a commit: make sure that these numbers are within what is reserved on disk."""
        if all(number <= self._reserved.get(name, 0) for name, number in numbers.items()):
            return
        try:
            with self._open_used():
                record = self.read() or Record(boot_id=read_boot_id())
                wanted = {name: n + BLOCK for name, n in numbers.items() if n > record.reserved.get(name, 0)}
                self.write(replace(record, reserved=record.reserved | wanted))
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise Problem("no_marks", f"the head cannot write to its data root: {why}", status=503) from error

    def note(self, numbers: Mapping[str, int]) -> None:
        """After the commit: these numbers are used."""
        try:
            with self._open_used() as file:
                known = _parse(file)
                highest = {
                    name: max(known.get(name, 0), numbers.get(name, 0)) for name in {**known, **numbers}
                }
                _store(file, highest)
        except OSError as error:
            log.error("%s cannot be written: %s", self._root / USED_FILE, error)

    def restart(self, numbers: Mapping[str, int]) -> None:
        """These numbers are used, whatever was known: the database and its data root are in step again."""
        with self._open_used() as file:
            _store(file, numbers)

    def close(self) -> None:
        """At a clean exit: give back what is reserved and not used."""
        with self._open_used() as file:
            if record := self.read():
                used = _parse(file)
                self.write(replace(record, reserved={name: used.get(name, 0) for name in record.reserved}))

    @contextmanager
    def _open_used(self) -> Iterator[int]:
        """The used numbers, with the lock of both files: a command may add a user beside the head."""
        with self._lock:
            file = os.open(self._root / USED_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield file
            finally:
                os.close(file)


def read_boot_id() -> str:
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


def _parse(file: int) -> Numbers:
    with suppress(ValueError):
        return Numbers(json.loads(os.pread(file, WIDTH, 0) or b"{}"))
    return {}


def _store(file: int, numbers: Mapping[str, int]) -> None:
    os.pwrite(file, json.dumps(numbers).encode().ljust(WIDTH), 0)
