"""Programs that go on after `pit` has ended, found again by pid file.

A pid alone is reused by other programs. The file also has the program's start time and the boot
it belongs to, and a signal goes through a pidfd, so that nobody else's process is ever ended.
"""

import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pit.files import read_text, write_whole

_STATE_FIELD = 0  # positions after the program's name in /proc/PID/stat
_SESSION_FIELD = 3
_START_FIELD = 19


@dataclass(frozen=True)
class Daemon:
    """One such program: where its pid and its output are kept."""

    name: str
    pid_file: Path
    log_file: Path

    def start(self, command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        with self.log_file.open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        write_whole(self.pid_file, f"{process.pid} {_identity(process.pid)}\n", mode=0o600)

    def get_pid(self) -> int | None:
        """The pid, if the very program that was started is still there."""
        pid, _, identity = (read_text(self.pid_file) or "").strip().partition(" ")
        if not pid.isdecimal() or not identity or _identity(int(pid)) != identity:
            return None
        return int(pid)

    def is_alive(self) -> bool:
        return self.get_pid() is not None

    def was_told(self, argument: str) -> bool:
        """Whether it was started with this argument."""
        pid = self.get_pid()
        try:
            return pid is not None and os.fsencode(argument) in Path(
                f"/proc/{pid}/cmdline"
            ).read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            return False

    def list_orphans(self) -> list[int]:
        """Processes that it left behind when it was killed; to be waited for, not to be ended."""
        pid, _, identity = (read_text(self.pid_file) or "").strip().partition(" ")
        if self.is_alive() or not pid.isdecimal() or not identity.endswith(_boot()):
            return []
        processes = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())
        return [process for process in processes if _stat(process)[_SESSION_FIELD] == pid]

    def stop(self, grace_s: float) -> bool:
        """End it, by force after `grace_s`; says whether there was something to end."""
        pid = self.get_pid()
        if pid is None:
            self.pid_file.unlink(missing_ok=True)
            return False
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        try:
            if self.get_pid() == pid:  # the handle is of the program that was checked
                _end(handle, grace_s)
        finally:
            os.close(handle)
        self.pid_file.unlink(missing_ok=True)
        return True

    def last_words(self, since: int = 0, lines: int = 10) -> str:
        """The end of its output, from byte `since` on."""
        try:
            with self.log_file.open("rb") as log:
                end = log.seek(0, os.SEEK_END)
                log.seek(max(since, end - 16384))
                return "\n".join(log.read().decode("utf-8", "replace").splitlines()[-lines:])
        except FileNotFoundError:
            return ""

    def log_size(self) -> int:
        return self.log_file.stat().st_size if self.log_file.exists() else 0


def _end(handle: int, grace_s: float) -> None:
    ended = select.poll()
    ended.register(handle, select.POLLIN)
    for number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 5.0)):
        try:
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return
        if ended.poll(patience_s * 1000):
            return


def _identity(pid: int) -> str:
    """What tells this process from any other that has or had its pid; empty if it has ended."""
    fields = _stat(pid)
    return f"{fields[_START_FIELD]} {_boot()}" if fields[_START_FIELD] else ""


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat; empty ones for a process that has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return [""] * (_START_FIELD + 1)
    fields = stat.rpartition(")")[2].split()
    return [""] * (_START_FIELD + 1) if fields[_STATE_FIELD] in ("Z", "X") else fields


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
