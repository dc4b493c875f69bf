"""The worker's state on disk: one directory per process, written before anything is done."""

import errno
import fcntl
import json
import logging
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from pit_protocol.atomic_file import sync_directory, write_atomic
from pit_protocol.problem import Problem
from pit_protocol.wire import from_json, to_json
from pit_worker.settings import NotNow, SettingError
from pit_worker.spool.attempt_dir import ATTEMPTS
from pit_worker.spool.entry import OUTPUT, End, Entry, Intent, Key
from pit_worker.spool.environment import exports

INTENT = "intent"
FINAL = (errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG)
HELLOS = "hellos"  # a file with the spool's name and how often its workers said hello
DATA_ROOT = "data_root"  # a file with its path in the last session, for `doctor`

log = logging.getLogger(__name__)


class Spool:
    """All entries of one worker; only one worker at a time may hold it."""

    def __init__(self, path: Path) -> None:
        """Lock the spool; raises SettingError if another worker has it."""
        self.path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            # A disk may come back, or get space; rights and paths stay as they are.
            kind = SettingError if error.errno in FINAL else NotNow
            raise kind(f"the spool {path} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise SettingError(f"another worker holds the spool {path}") from None
        self._name, self._hellos = _read_hellos(path / HELLOS)

    def close(self) -> None:
        os.close(self._lock)

    def add(self, intent: Intent, end: End | None = None) -> Entry:
        """Store an intent so that it survives a power loss; with `end`, as a tombstone."""
        path = self.path / str(Key(intent.process, intent.attempt))
        if path.exists():
            # Without an intent it was never valid: a crash left it half written or half deleted.
            shutil.rmtree(path)
        path.mkdir(mode=0o700)
        entry = Entry(path, intent)
        if intent.spec:
            (path / OUTPUT).touch(mode=0o600)
            os.mkfifo(entry.pipe, 0o600)
            if intent.spec.lease_s:
                entry.expired.touch(mode=0o600)
            entry.hostfile.write_text(intent.spec.hostfile, encoding="utf-8")
            if intent.spec.command is not None:
                entry.command.write_text(intent.spec.command, encoding="utf-8")
            if intent.spec.variables:
                entry.variables.write_text(exports(intent.spec.variables), encoding="utf-8")
        if end:
            entry.claim()
            entry.save_end(end)
        write_atomic(path / INTENT, json.dumps(to_json(intent)), sync=True)
        sync_directory(path)
        sync_directory(self.path)
        return entry

    def entries(self) -> Iterator[Entry]:
        """All entries; removes what a crash left half written or half deleted."""
        for path in sorted(self.path.iterdir()):
            if not path.is_dir() or path.name == ATTEMPTS:
                continue
            try:
                intent = from_json(Intent, json.loads((path / INTENT).read_text()))
            except FileNotFoundError:
                shutil.rmtree(path)
            except (ValueError, Problem) as error:
                # Perhaps written by another version: keep it, because its process may still run.
                log.error("the spool entry %s cannot be read and is left alone: %s", path, error)
            else:
                yield Entry(path, intent)

    def count_hello(self) -> tuple[str, int]:
        """The name of this spool, and the number of the next hello, which no other one has."""
        self._hellos += 1
        try:
            write_atomic(self.path / HELLOS, f"{self._name} {self._hellos}", sync=True)
            sync_directory(self.path)
        except OSError as error:
            log.warning("the spool cannot be written: %s", error)
        return self._name, self._hellos

    def save_data_root(self, root: str) -> None:
        try:
            write_atomic(self.path / DATA_ROOT, root)
        except OSError as error:
            log.warning("the data root cannot be saved in the spool: %s", error)

    def remove(self, entry: Entry) -> None:
        # First the intent: without it the rest is invalid.
        (entry.path / INTENT).unlink(missing_ok=True)
        shutil.rmtree(entry.path, ignore_errors=True)


def read_data_root(spool: Path) -> str:
    """The data root of the last session; empty if there was none."""
    try:
        return (spool / DATA_ROOT).read_text()
    except OSError:
        return ""


def _read_hellos(file: Path) -> tuple[str, int]:
    try:
        name, count = file.read_text().split()
        return name, int(count)
    except (OSError, ValueError):
        return secrets.token_hex(8), 0
