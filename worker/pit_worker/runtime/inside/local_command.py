"""A command that runs inside a process of a job, for a session: its descriptors, its end."""

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pit_protocol.messages.beat import Account
from pit_protocol.sessions.frames import Start
from pit_worker.runtime import process_tree
from pit_worker.runtime.inside.command_pid import Entrance

ENTER = Path(__file__).with_name("enter.py")
MARK = "PIT_SESSION"  # by which all that a session started is found
NAMESPACES = ("net", "ipc", "uts", "cgroup", "pid", "mnt")
KILL = signal.SIGKILL


class Inside(Protocol):
    """A running command; who has it closes its descriptors."""

    stdin: int | None
    stdout: int
    stderr: int | None  # None: a terminal, which has one for all
    ended: int  # a descriptor that is readable when it has ended

    def exit_code(self) -> int:
        """After its end."""

    def resize(self, rows: int, columns: int) -> None:
        """Give its terminal this size."""

    def kill(self) -> None:
        """End it, with all that it started."""


@dataclass
class Place:
    """Where a command runs: the process, and what it has."""

    entrance: Entrance
    env: Mapping[str, str]
    directory: str
    cgroup: str = ""
    account: Account | None = None
    namespaces: Sequence[str] = ()


class LocalCommand:
    """One that `enter.py` runs on this machine."""

    def __init__(self, place: Place, start: Start, session: str) -> None:
        self._mark = f"{MARK}={session}"
        self._env = {**place.env, MARK: session}
        self.stdin: int | None
        self.stderr: int | None
        self._controller: int | None = None
        if start.term:
            self._env |= {"TERM": start.term}
            self._open_terminal(place, start)
        else:
            self._open_pipes(place, start)
        self.ended = os.pidfd_open(self._child.pid)

    def exit_code(self) -> int:
        code = self._child.wait()
        return 128 - code if code < 0 else code

    def resize(self, rows: int, columns: int) -> None:
        if self._controller is not None:
            with suppress(OSError):
                set_size(self._controller, rows, columns)

    def kill(self) -> None:
        process_tree.send_marked(self._mark, self._child.pid, KILL)
        with suppress(ProcessLookupError):
            self._child.kill()
        self._child.wait()

    def _open_terminal(self, place: Place, start: Start) -> None:
        self._controller, terminal = pty.openpty()
        try:
            set_size(self._controller, start.rows, start.columns)
            if place.account:
                os.fchown(terminal, place.account.uid, place.account.gid)
            self._child = self._launch(place, start, (terminal, terminal, terminal))
        finally:
            os.close(terminal)
        self.stdin = os.dup(self._controller)
        self.stdout, self.stderr = self._controller, None

    def _open_pipes(self, place: Place, start: Start) -> None:
        (inner, self.stdin), (self.stdout, out), (self.stderr, error) = os.pipe(), os.pipe(), os.pipe()
        try:
            self._child = self._launch(place, start, (inner, out, error))
        finally:
            for descriptor in (inner, out, error):
                os.close(descriptor)

    def _launch(self, place: Place, start: Start, streams: tuple[int, int, int]) -> "subprocess.Popen[bytes]":
        spaces = [
            os.open(f"/proc/{place.entrance.pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
            for name in place.namespaces
        ]
        reader, writer = os.pipe()
        owner = place.account
        todo = {
            "terminal": bool(start.term),
            "cgroup": place.cgroup,
            "namespaces": spaces,
            "account": owner and (owner.uid, owner.gid, owner.gids),
            "command": start.command,
            "env": self._env,
            "directory": place.directory,
        }
        try:
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", str(ENTER), str(reader), *sys.path],
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                pass_fds=(reader, *spaces),
                env={},
                cwd="/",
                start_new_session=True,
            )
        except BaseException:
            os.close(writer)
            raise
        finally:
            for descriptor in (reader, *spaces):
                os.close(descriptor)
        with suppress(BrokenPipeError), open(writer, "wb") as file:
            file.write(json.dumps(todo).encode(errors="surrogateescape"))
        return child


def set_size(terminal: int, rows: int, columns: int) -> None:
    size = struct.pack("HHHH", max(0, min(rows, 65535)), max(0, min(columns, 65535)), 0, 0)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)
