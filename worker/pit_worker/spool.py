"""The worker's memory on disk: one directory per process, written before anything is done."""

import fcntl
import json
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from pit_protocol.problem import Problem
from pit_protocol.wire import from_json, to_json
from pit_worker.attempt_place import ATTEMPTS
from pit_worker.entry import End, Entry, Intent, Key, write_whole
from pit_worker.environment import exports
from pit_worker.settings import SettingError

INTENT = "intent"
DATA_ROOT = "data_root"  # a file that says where it was in the last session, for `doctor`

log = logging.getLogger(__name__)


class Spool:
    """All entries of one worker; only one worker at a time may hold it."""

    def __init__(self, path: Path) -> None:
        """Take hold of the spool; raises SettingError where another worker has it."""
        self.path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SettingError(f"the spool {path} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise SettingError(f"another worker holds the spool {path}") from None

    def close(self) -> None:
        os.close(self._lock)

    def add(self, intent: Intent, end: End | None = None) -> Entry:
        """Put an intent on record, to survive even a power loss; with `end`, as a tombstone."""
        path = self.path / str(Key(intent.process, intent.attempt))
        if path.exists():
            # Without an intent it was never known: a crash left it half made or half deleted.
            shutil.rmtree(path)
        path.mkdir(mode=0o700)
        entry = Entry(path, intent)
        if intent.spec:
            entry.output.touch(mode=0o600)
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
        write_whole(path / INTENT, json.dumps(to_json(intent)), sync=True)
        _sync_directory(path)
        _sync_directory(self.path)
        return entry

    def entries(self) -> Iterator[Entry]:
        """All that is on record; what a crash left half made or half deleted is cleared away."""
        for path in sorted(self.path.iterdir()):
            if not path.is_dir() or path.name == ATTEMPTS:
                continue
            try:
                intent = from_json(Intent, json.loads((path / INTENT).read_text()))
            except FileNotFoundError:
                shutil.rmtree(path)
            except (ValueError, Problem) as error:
                # Another version's, perhaps: keep it, for its process may still run.
                log.error("the spool entry %s cannot be read and is left alone: %s", path, error)
            else:
                yield Entry(path, intent)

    def note_data_root(self, root: str) -> None:
        try:
            write_whole(self.path / DATA_ROOT, root)
        except OSError as error:
            log.warning("the data root cannot be noted in the spool: %s", error)

    def remove(self, entry: Entry) -> None:
        # First the intent: without it the rest is known to be rubbish.
        (entry.path / INTENT).unlink(missing_ok=True)
        shutil.rmtree(entry.path, ignore_errors=True)


def read_data_root(spool: Path) -> str:
    """Where the data root is, as the head last told; empty if it never did."""
    try:
        return (spool / DATA_ROOT).read_text()
    except OSError:
        return ""


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
