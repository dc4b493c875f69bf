"""A data directory of the head as a directory here: by rclone, through a tunnel that knows the head."""

import hashlib
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

from pit import output
from pit.connection import Connection
from pit.locations import Location
from pit.transport import context_of
from pit_protocol import rclone
from pit_protocol.problem import Problem
from pit_protocol.rclone import MountError, View
from pit_protocol.tunnel import Tunnel

DAV = "/dav"
READ_ONLY = ("shared", "job")
LOOK_S = 0.2
TELL_AFTER_S = 1.0
PATIENCE_S = 20.0  # with a head that is away; then what is read fails


@dataclass(frozen=True)
class Source:
    """What is to be mounted: how it is called, where WebDAV has it, and whether it is only read."""

    name: str
    path: str
    read_only: bool


def find_source(location: Location) -> Source:
    """Where WebDAV has a place, and how it is called here."""
    kind, _, name = location.domain.partition(":")
    root = f"{kind}s/{name}" if name else kind
    return Source(location.name, "/".join(filter(None, (root, location.path))), kind in READ_ONLY)


def check_machine() -> None:
    """Raise a Problem if nothing can be mounted here."""
    if lack := rclone.lack():
        raise Problem("cannot_mount", lack.partition(": ")[0], lack.partition(": ")[2])


@contextmanager
def mounted(connection: Connection, source: Source, place: Path | None) -> Iterator[tuple[Path, "Mount"]]:
    """The directory at which it is, for as long as this lasts; what was written is on the head afterwards."""
    with ExitStack() as stack:
        directory = stack.enter_context(_prepared(place, source))
        context = context_of(connection.address) if connection.url.startswith("https:") else None
        tunnel = stack.enter_context(Tunnel(connection.url, context, PATIENCE_S))
        cache = _cache(connection, source)
        view = View(tunnel.url + DAV, source.path, directory, cache, source.read_only)
        log = cache / "rclone.log"
        log.unlink(missing_ok=True)
        child, control = rclone.start(view, connection.token or "", log)
        try:
            rclone.await_mounted(view, child, log)
            yield directory, Mount(child, control, log)
            _flush(control, child)
            rclone.unmount(directory, child)
            shutil.rmtree(cache, ignore_errors=True)
        except MountError as error:
            raise Problem("mount_lost", str(error), f"{log} has all of rclone's words") from error
        finally:
            with suppress(MountError):
                rclone.unmount(directory, child)


@dataclass(frozen=True)
class Mount:
    child: subprocess.Popen[bytes]
    control: rclone.Control
    log: Path

    def wait(self) -> None:
        """Until somebody says stop (Ctrl-C, SIGTERM, a closed terminal), or the mount is gone."""
        told: list[int] = []

        def note(number: int, _frame: FrameType | None) -> None:
            told.append(number)

        before = {number: signal.signal(number, note) for number in _ENDING}
        try:
            while not told:
                with suppress(subprocess.TimeoutExpired):
                    self.child.wait(LOOK_S)
                    if not told:
                        raise Problem("mount_lost", f"rclone has ended: {rclone.last_words(self.log)}")
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_shell(directory: Path) -> int:
    """A shell inside; its exit code. Ctrl-C is the shell's own business."""
    # A handler, for what is ignored here would be ignored by the shell, too.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGHUP)}
    try:
        shell = os.environ.get("SHELL") or "/bin/sh"
        return subprocess.run([shell], cwd=directory, check=False).returncode
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _flush(control: rclone.Control, child: subprocess.Popen[bytes]) -> None:
    """Wait until all that was written is on the head."""
    began, has_told = time.monotonic(), False
    while child.poll() is None and (left := rclone.pending(control)):
        if not has_told and time.monotonic() - began > TELL_AFTER_S:
            output.tell(f"{left} changed files are on their way to the head")
            has_told = True
        time.sleep(LOOK_S)


@contextmanager
def _prepared(place: Path | None, source: Source) -> Iterator[Path]:
    """The directory to mount at; one that was made for it is removed again."""
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


def _cache(connection: Connection, source: Source) -> Path:
    """A directory for what was read and is not yet written; it stays if something is not on the head."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pit" / "mounts"
    whose = hashlib.sha256("\n".join(connection.address.keys).encode()).hexdigest()[:16]
    cache = base / whose / source.name / str(os.getpid())
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    return cache
