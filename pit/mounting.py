"""A data directory of the head as a directory here: by rclone, through a tunnel that knows the head."""

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
KNOCK_S = 2.0  # between two looks whether the head is there
PATIENCE_S = 15.0  # with a head that is away; then what is read fails
# rclone tries ten times by itself what it reads; more tries within each would make minutes of it.
IMPATIENT = ("--timeout", "30s", "--contimeout", "5s", "--low-level-retries", "1", "--retries", "1")


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
        cache, held = stack.enter_context(_cache(connection, source))
        config, log = cache / "rclone.conf", cache / "rclone.log"
        log.unlink(missing_ok=True)
        url, how = tunnel.url + DAV, source.read_only
        view = View(url, source.path, directory, cache, how, options=IMPATIENT, config=config)
        child, control = rclone.start(view, connection.token or "", log)
        stack.enter_context(_guarded(child, directory, config, held))
        try:
            rclone.await_mounted(view, child, log)
            with suppress(KeyboardInterrupt):  # one that comes before somebody waits for it
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


# Reads what never comes: a word if all is unmounted, an end if `pit` was killed.
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
    """A program that unmounts if this one is killed; it holds the cache till then."""
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


def _flush(control: rclone.Control, child: subprocess.Popen[bytes], tunnel: Tunnel) -> None:
    """Wait until all that was written is on the head; a Problem if it is away: what is left stays here."""
    began = knocked = time.monotonic()
    has_told = False
    while child.poll() is None and (left := rclone.pending(control)):
        files = "1 changed file" if left == 1 else f"{left} changed files"
        if not has_told and time.monotonic() - began > TELL_AFTER_S:
            output.tell(f"{files} on the way to the head; Ctrl-C leaves the rest for the next mount")
            has_told = True
        if time.monotonic() - knocked > KNOCK_S:
            if not tunnel.is_open():
                hint = "the next `pit mount` of the same directory sends what is left"
                raise Problem("unsent", f"the head does not answer, and has not got {files} yet", hint)
            knocked = time.monotonic()
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


@contextmanager
def _cache(connection: Connection, source: Source) -> Iterator[tuple[Path, int]]:
    """A directory for what was read and is not yet written, and a lock on it for as long as it is used.

    It stays if something is not on the head: whoever gets it next, as the same user, sends that.
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
    """Take it, unless another has it, or has removed it meanwhile."""
    with suppress(BlockingIOError, FileNotFoundError):
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(held), cache.stat())
    return False
