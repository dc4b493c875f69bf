"""Programs that keep running after `pit` has ended, found again by pid file.

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

from pit.text_files import read_text
from pit_protocol.atomic_file import write_atomic
from pit_protocol.system.procfs import Stat, read_stat


@dataclass(frozen=True)
class Daemon:
    """One such program: where its pid and its output are stored."""

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
        write_atomic(self.pid_file, f"{process.pid} {_identity(process.pid)}\n", sync=True)

    def get_pid(self) -> int | None:
        """The pid, if the program that was started still runs."""
        pid, _, identity = (read_text(self.pid_file) or "").strip().partition(" ")
        if not pid.isdecimal() or not identity or _identity(int(pid)) != identity:
            return None
        return int(pid)

    def is_alive(self) -> bool:
        return self.get_pid() is not None

    def has_argument(self, argument: str) -> bool:
        """Whether it was started with this argument."""
        pid = self.get_pid()
        try:
            return pid is not None and os.fsencode(argument) in Path(
                f"/proc/{pid}/cmdline"
            ).read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            return False

    def list_orphans(self) -> list[int]:
        """Processes that it left behind when it was killed; wait for them, do not kill them."""
        pid, _, identity = (read_text(self.pid_file) or "").strip().partition(" ")
        if self.is_alive() or not pid.isdecimal() or not identity.endswith(_boot()):
            return []
        processes = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())
        stats = (_get_live(process) for process in processes)
        return [stat.pid for stat in stats if stat and stat.session == int(pid)]

    def stop(self, grace_s: float) -> bool:
        """Stop it, with SIGKILL after `grace_s`; returns whether it was running."""
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

    def log_tail(self, since: int = 0, lines: int = 10) -> str:
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
    for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 5.0)):
        try:
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return
        if ended.poll(wait_s * 1000):
            return


def _identity(pid: int) -> str:
    """What distinguishes this process from any other with the same pid; empty if it has ended."""
    stat = _get_live(pid)
    return f"{stat.start_time} {_boot()}" if stat else ""


def _get_live(pid: int) -> Stat | None:
    """The status of a process; None if it has ended, even if its parent has not noticed yet."""
    stat = read_stat(pid)
    return None if stat is None or stat.has_ended else stat


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
