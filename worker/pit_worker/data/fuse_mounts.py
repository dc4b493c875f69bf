"""The worker's side of an attempt's FUSE mounts: start, find again, flush, end."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pit_protocol.atomic_file import write_atomic
from pit_protocol.messages.beat import Account
from pit_protocol.system.procfs import read_stat
from pit_protocol.transport import rclone
from pit_protocol.transport.rclone import MountError
from pit_worker.data.mount_daemon import BUSY
from pit_worker.settings import Settings
from pit_worker.spool.attempt_dir import AttemptDir

BEGIN_S = 60.0
END_S = 20.0
POLL_S = 0.05
# `ERROR : home/x: vfs cache: failed to upload try #1, …: failed to transfer … to remote: WHY: 507 Insuff…`,
# where WHY may have a second line, the hint.
UPLOAD = ": vfs cache: failed to upload"
REFUSAL = re.compile(
    rf"ERROR : (?P<path>.+?){UPLOAD}.* to remote: (?P<why>[^\n]*?)(?:\n.*)?: (?P<status>4\d\d|507) [A-Z]",
    re.DOTALL,
)
REFUSED_S = 3.0  # the same after the head refused one
STUCK_S = 600.0  # without progress for longer, unsent files are given up


class Unsent(Exception):
    """Files that the head refuses; the text is for a person."""

    def __init__(self, count: int, why: str, status: int = 0) -> None:
        what = "1 file" if count == 1 else f"{count:,} files"
        super().__init__(f"{what} in home or groups could not be written: {why}")
        self.status = status  # HTTP status of the head's answer, if there is one


class FuseMounts:
    """Any thread may call it, but only one per attempt."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._children: dict[Path, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def begin(self, place: AttemptDir, token: str, account: Account | None, *, in_use: bool = True) -> None:
        """Mount; raises MountError with the reason if that fails.

        `in_use`: for processes, which forgets earlier losses; otherwise to send what they have left.
        """
        place.save_token(token)
        place.log.unlink(missing_ok=True)  # an earlier daemon's errors say nothing about this one
        if in_use:
            place.forgive()
        order = {
            "in_use": in_use,
            "url": self._settings.url,
            "ca_file": self._settings.ca_file,
            "uid": account.uid if account else None,
            "gid": account.gid if account else None,
        }
        write_atomic(place.path / "mount.json", json.dumps(order))
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "pit_worker.data.mount_daemon", str(place.path)],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        with self._lock:
            self._children[place.path] = child
        deadline = time.monotonic() + BEGIN_S
        while not (place.guard() and place.controls()):
            # A busy one leaves it to the daemon that an earlier worker started.
            if child.poll() not in (None, BUSY) or time.monotonic() > deadline:
                self.end(place)
                raise MountError(place.lost() or f"nothing was mounted: {rclone.last_log_line(place.log)}")
            time.sleep(POLL_S)

    def flush(self, place: AttemptDir, is_head_there: Callable[[], bool]) -> None:
        """Wait until all writes are on the head, however long it is away; raises Unsent."""
        least, since = -1, time.monotonic()
        while place.guard() is not None:
            try:
                left = sum(map(rclone.pending, place.controls()))
            except MountError:
                left = max(1, least)  # rclone may be about to end
            if not left:
                return
            if least < 0 or left < least:
                least, since = left, time.monotonic()
            stuck_s = time.monotonic() - since
            if stuck_s > STUCK_S and not is_head_there():
                since = time.monotonic()
            elif stuck_s > REFUSED_S and (refusal := _last_refusal(place.log)):
                raise Unsent(left, f"{refusal['path']}: {refusal['why']}", int(refusal["status"]))
            elif stuck_s > STUCK_S:
                raise Unsent(left, rclone.last_log_line(place.log))
            time.sleep(POLL_S)
        raise Unsent(max(1, least), "its mounts have ended")

    def open(self, place: AttemptDir) -> int | None:
        """A descriptor that becomes readable when the mount daemon ends; None if it has."""
        known = place.guard()
        if known is None:
            return None
        try:
            handle = os.pidfd_open(known[0])
        except ProcessLookupError:
            return None
        if place.guard() != known:
            os.close(handle)
            return None
        return handle

    def end(self, place: AttemptDir) -> None:
        """Unmount; what is not on the head yet stays in the cache."""
        if (handle := self.open(place)) is not None:
            try:
                signal.pidfd_send_signal(handle, signal.SIGTERM)
            except ProcessLookupError:
                pass
            finally:
                os.close(handle)
        with self._lock:
            child = self._children.pop(place.path, None)
        if child and handle is None:
            child.terminate()  # it has not stored its pid yet
        deadline = time.monotonic() + END_S
        while (place.guard() or (child and child.poll() is None)) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        if child and child.poll() is None:
            child.kill()
            child.wait()
        elif known := place.guard():
            _kill(known)
        for mount in place.mounts:
            if rclone.is_mounted(mount):
                rclone.unmount(mount)


def _last_refusal(log: Path) -> re.Match[str] | None:
    """The head's answer to an upload, if that is rclone's last error."""
    try:
        text = log.read_text(errors="replace")
    except OSError:
        return None
    last = text.rfind("ERROR : ", 0, max(0, text.rfind(UPLOAD)))
    return REFUSAL.match(text, last) if last >= 0 else None


def _kill(known: tuple[int, int]) -> None:
    stat = read_stat(known[0])
    if stat and stat[:2] == known:
        os.kill(known[0], signal.SIGKILL)
