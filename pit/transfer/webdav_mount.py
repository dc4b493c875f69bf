"""Mounting a data directory of the head with rclone, through a tunnel that checks the head's certificate."""

import fcntl
import hashlib
import itertools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from pit.args.remote_path import RemotePath
from pit.connect.connection import Connection
from pit.ui import output
from pit_protocol.problem import Problem
from pit_protocol.transport import rclone
from pit_protocol.transport.rclone import MountError, MountSpec
from pit_protocol.transport.tls import make_context
from pit_protocol.transport.tunnel import Tunnel

DAV = "/dav"
READ_ONLY = ("shared", "job")
POLL_S = 0.2
REPORT_AFTER_S = 1.0
PROBE_S = 2.0  # between two checks whether the head is there
WAIT_S = 15.0  # how long reads wait for a head that is away before they fail
# rclone repeats a read ten times by itself; more retries within each would take minutes.
RCLONE_OPTIONS = ("--timeout", "30s", "--contimeout", "5s", "--low-level-retries", "1", "--retries", "1")


@dataclass(frozen=True)
class Source:
    """What is mounted: its name, its WebDAV path, and whether it is read-only."""

    name: str
    path: str
    read_only: bool


def find_source(location: RemotePath) -> Source:
    """The WebDAV path and local name of a remote path."""
    kind, _, name = location.domain.partition(":")
    root = f"{kind}s/{name}" if name else kind
    return Source(location.name, "/".join(filter(None, (root, location.path))), kind in READ_ONLY)


def check_machine() -> None:
    """Raise a Problem if nothing can be mounted here."""
    if missing := rclone.why_unavailable():
        raise Problem("cannot_mount", missing.partition(": ")[0], missing.partition(": ")[2])


@contextmanager
def mounted(connection: Connection, source: Source, place: Path | None) -> Iterator[tuple[Path, "Mount"]]:
    """Mount it and yield the directory; on exit, wait until everything written is on the head."""
    with ExitStack() as stack:
        directory = stack.enter_context(_prepared(place, source))
        context = make_context(connection.certificates) if connection.url.startswith("https:") else None
        tunnel = stack.enter_context(Tunnel(connection.url, context, WAIT_S))
        cache, held = stack.enter_context(_cache(connection, source))
        config, log = cache / "rclone.conf", cache / "rclone.log"
        log.unlink(missing_ok=True)
        url, how = tunnel.url + DAV, source.read_only
        spec = MountSpec(url, source.path, directory, cache, how, options=RCLONE_OPTIONS, config=config)
        child, control = rclone.start(spec, connection.token or "", log)
        stack.enter_context(_guarded(child, directory, config, held))
        try:
            rclone.await_mounted(spec, child, log)
            with suppress(KeyboardInterrupt):  # one that comes before `wait`
                yield directory, Mount(child, control, log)
            _flush(control, child, tunnel)
            rclone.unmount(directory, child)
            shutil.rmtree(cache, ignore_errors=True)
        except MountError as error:
            raise Problem("mount_lost", str(error), f"{log} has all of rclone's words") from error
        finally:
            with suppress(MountError):
                rclone.unmount(directory, child)
            config.unlink(missing_ok=True)


# Blocks in `read`: a line means that all is unmounted, end of file that `pit` was killed.
GUARD = """
read -r _ && exit
kill -TERM "$1"
for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$1" || break; sleep 0.2; done
kill -KILL "$1"
"$2" -u "$3" || "$2" -uz "$3"
rm -f "$4"
"""


@contextmanager
def _guarded(child: subprocess.Popen[bytes], place: Path, config: Path, held: int) -> Iterator[None]:
    """A program that unmounts if this one is killed; it keeps the cache locked until then."""
    words = [str(child.pid), rclone.fusermount(), str(place), str(config)]
    with subprocess.Popen(
        ["sh", "-c", GUARD, "pit-mount-guard", *words],
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(held,),
        start_new_session=True,
    ) as guard:
        try:
            yield
        finally:
            guard.communicate(b"done\n")


@dataclass(frozen=True)
class Mount:
    child: subprocess.Popen[bytes]
    control: rclone.Control
    log: Path

    def wait(self) -> None:
        """Wait for Ctrl-C, SIGTERM or a closed terminal; a Problem if the mount is gone."""
        received: list[int] = []

        def note(number: int, _frame: FrameType | None) -> None:
            received.append(number)

        before = {number: signal.signal(number, note) for number in _ENDING}
        try:
            while not received:
                with suppress(subprocess.TimeoutExpired):
                    self.child.wait(POLL_S)
                    if not received:
                        raise Problem("mount_lost", f"rclone has ended: {rclone.last_log_line(self.log)}")
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_shell(directory: Path) -> int:
    """Run a shell in the directory; returns its exit code. Ctrl-C goes to the shell."""
    # A handler, because the shell would inherit an ignored signal.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGHUP)}
    try:
        shell = os.environ.get("SHELL") or "/bin/sh"
        return subprocess.run([shell], cwd=directory, check=False).returncode
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _flush(control: rclone.Control, child: subprocess.Popen[bytes], tunnel: Tunnel) -> None:
    """Wait until all writes are on the head; a Problem if it is away: the rest stays in the cache."""
    began = probed_at = time.monotonic()
    has_reported = False
    while child.poll() is None and (left := rclone.pending(control)):
        files = "1 changed file" if left == 1 else f"{left} changed files"
        if not has_reported and time.monotonic() - began > REPORT_AFTER_S:
            output.note(f"{files} on the way to the head; Ctrl-C leaves the rest for the next mount")
            has_reported = True
        if time.monotonic() - probed_at > PROBE_S:
            if not tunnel.is_open():
                hint = "the next `pit mount` of the same directory sends what is left"
                raise Problem("unsent", f"the head does not answer, and has not got {files} yet", hint)
            probed_at = time.monotonic()
        time.sleep(POLL_S)


@contextmanager
def _prepared(place: Path | None, source: Source) -> Iterator[Path]:
    """The directory to mount at; if it was made for the mount, it is removed again."""
    directory = (place or Path.home() / "pit" / source.name).absolute()
    if rclone.is_mounted(directory):
        hint = f"name another directory; or, if it is dead, `fusermount3 -uz {directory}` frees this one"
        raise Problem("in_use", f"something is mounted at {directory} already", hint)
    is_new = not directory.exists()
    if not is_new and (not directory.is_dir() or any(directory.iterdir())):
        raise Problem("in_use", f"{directory} is not an empty directory", "name another one")
    directory.mkdir(parents=True, exist_ok=True)
    try:
        yield directory
    finally:
        if is_new:
            with suppress(OSError):
                directory.rmdir()


@contextmanager
def _cache(connection: Connection, source: Source) -> Iterator[tuple[Path, int]]:
    """A cache directory for reads and pending writes, locked while it is used.

    It stays if something is not on the head: the next mount of the same user sends that.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pit" / "mounts"
    whose = "\n".join((*connection.address.keys, connection.token or "", source.path))
    for number in itertools.count():
        cache = base / f"{hashlib.sha256(whose.encode()).hexdigest()[:16]}-{number}"
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = os.open(cache, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if _is_free(cache, held):
                yield cache, held
                return
        finally:
            os.close(held)


def _is_free(cache: Path, held: int) -> bool:
    """Lock it, unless another process has it or has removed it."""
    with suppress(BlockingIOError, FileNotFoundError):
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(held), cache.stat())
    return False
