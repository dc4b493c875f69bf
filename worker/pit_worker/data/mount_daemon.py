"""The daemon that holds an attempt's mounts; it outlives the worker, as the processes that use them do.

usage: python -m pit_worker.data.mount_daemon DIRECTORY    (which holds mount.json and token)
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from pit_protocol.transport import rclone
from pit_protocol.transport.rclone import MountError, MountSpec
from pit_protocol.transport.tunnel import Tunnel
from pit_worker.head.tls import context_for, read_certificates
from pit_worker.spool.attempt_dir import AttemptDir

WAIT_S = 600.0  # how long reads wait for a head that is away before they fail
POLL_S = 0.5
BUSY = 75  # exit code: another daemon has these mounts, or is about to
# RetryLater that last as long as the tunnel's, and listings that are believed a little longer than a user's.
RCLONE_OPTIONS = ("--timeout", "15m", "--low-level-retries", "20", "--dir-cache-time", "10s")
NOT_FOR_JOBS = ("--exclude", "/shared/**", "--exclude", "/jobs/**", "--exclude", "/users/**")


class Terminated(Exception):
    """SIGTERM or SIGINT was received."""


def main() -> int:
    place = AttemptDir(Path(sys.argv[1]))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _raise)
    with suppress(Terminated), ExitStack() as stack:
        if not _lock(place, stack):
            return BUSY
        order: dict[str, Any] = json.loads((place.path / "mount.json").read_text())
        try:
            _watch(_mount(place, order, stack))
        except (MountError, OSError) as error:
            # Without a process that uses them nothing is lost: what is not sent is in the cache.
            if order["in_use"]:
                place.save_lost(str(error))
            return 1
    return 0


def _lock(place: AttemptDir, stack: ExitStack) -> bool:
    """Whether no other daemon has them: a worker may have started one just before it was killed."""
    lock = stack.enter_context((place.path / "mount.lock").open("ab"))
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _mount(place: AttemptDir, order: dict[str, Any], stack: ExitStack) -> list[subprocess.Popen[bytes]]:
    head, token = str(order["url"]), place.token.read_text()
    certificates = read_certificates(str(order["ca_file"]))
    tunnel = stack.enter_context(Tunnel(head, context_for(head, certificates), WAIT_S))
    owner = (order["uid"], order["gid"]) if order["uid"] is not None else None
    own, shared = place.mounts
    children, controls = [], []
    for mount, path, read_only in ((own, "", False), (shared, "shared", True)):
        # A daemon that died left something that looks like a mount.
        if rclone.is_mounted(mount):
            rclone.unmount(mount)
        mount.mkdir(mode=0o700, exist_ok=True)
        options = (*RCLONE_OPTIONS, *(() if path else NOT_FOR_JOBS))
        url, cache = tunnel.url + "/dav", place.cache / mount.name
        spec = MountSpec(url, path, mount, cache, read_only, owner, options, place.config)
        child, control = rclone.start(spec, token, place.log)
        stack.callback(_end, mount, child)
        rclone.await_mounted(spec, child, place.log)
        children.append(child)
        controls.append(control)
    place.save_guard(os.getpid(), controls)
    return children


def _watch(children: list[subprocess.Popen[bytes]]) -> None:
    """Wait for a signal; raises MountError if one of them ends by itself."""
    while all(child.poll() is None for child in children):
        time.sleep(POLL_S)
    raise MountError("rclone, which mounts the directories of users and groups, has ended")


def _end(mount: Path, child: subprocess.Popen[bytes]) -> None:
    with suppress(MountError):
        rclone.unmount(mount, child)


def _raise(_number: int, _frame: object) -> None:
    raise Terminated


if __name__ == "__main__":
    sys.exit(main())
