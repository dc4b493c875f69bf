"""A command inside a container, for a session: the engine runs it, and its streams become pipes here."""

import os
import socket
import struct
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pit_protocol.sessions.frames import Start
from pit_worker.runtime import process_tree
from pit_worker.runtime.docker.engine import Engine, EngineAway, EngineRefused
from pit_worker.runtime.inside.local_command import KILL, MARK

READ = 64 * 1024
_HEAD = struct.Struct("!B3xI")  # before each piece of output: its stream and size
# Each user has a group of their own, so the wide umask matters only in directories of groups.
ENTER = 'umask 002; exec "$@"'
SHELL = "umask 002; command -v bash >/dev/null && exec bash || exec sh"
NO_SESSION = -1  # no process is in this one


class ContainerCommand:
    """Threads copy between the engine's connection and pipes; full pipes stop them."""

    def __init__(
        self,
        engine: Engine,
        container: str,
        env: Mapping[str, str],
        directory: str,
        start: Start,
        session: str,
    ) -> None:
        self._engine, self._mark = engine, f"{MARK}={session}"
        around = {**env, MARK: session, **({"TERM": start.term} if start.term else {})}
        words = ["/bin/sh", "-c", ENTER, "sh", *start.command] if start.command else ["/bin/sh", "-c", SHELL]
        self._id, self._socket = engine.start_exec(
            container,
            cmd=words,
            tty=bool(start.term),
            environment=[f"{name}={value}" for name, value in around.items()],
            workdir=directory,
        )
        self._has_terminal = bool(start.term)
        if start.term:
            self.resize(start.rows, start.columns)
        self.stdin: int | None
        inner, self.stdin = os.pipe()
        self.stdout, out = os.pipe()
        self.stderr: int | None = None
        error = None
        if not start.term:
            self.stderr, error = os.pipe()
        self.ended = os.eventfd(0, os.EFD_CLOEXEC)
        for name, target, arguments in (
            ("exec-input", self._copy_input, (inner,)),
            ("exec-output", self._copy_output, (out, error)),
        ):
            threading.Thread(target=target, args=arguments, name=name, daemon=True).start()

    def exit_code(self) -> int:
        try:
            code, _ = self._engine.inspect_exec(self._id)
        except (EngineAway, EngineRefused):
            return 255
        return 255 if code is None else code

    def resize(self, rows: int, columns: int) -> None:
        if self._has_terminal:
            with suppress(EngineAway):
                self._engine.resize_exec(self._id, rows, columns)

    def kill(self) -> None:
        # A worker that is not root cannot: then the command sees only that nobody is there any more.
        process_tree.send_marked(self._mark, NO_SESSION, KILL)
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _copy_input(self, inner: int) -> None:
        with suppress(OSError, ValueError):
            while data := os.read(inner, READ):
                self._socket.sendall(data)
            self._socket.shutdown(socket.SHUT_WR)
        os.close(inner)

    def _copy_output(self, out: int, error: int | None) -> None:
        try:
            with suppress(OSError, ValueError):
                self._copy_plain(out) if error is None else self._copy_both(out, error)
        finally:
            for descriptor in (out, error):
                if descriptor is not None:
                    os.close(descriptor)
            with suppress(OSError):
                os.eventfd_write(self.ended, 1)

    def _copy_plain(self, out: int) -> None:
        while data := self._socket.recv(READ):
            _write(out, data)

    def _copy_both(self, out: int, error: int) -> None:
        while head := self._read(_HEAD.size):
            stream, size = _HEAD.unpack(head)
            while size:
                data = self._socket.recv(min(size, READ))
                if not data:
                    return
                with suppress(BrokenPipeError):
                    _write(error if stream == 2 else out, data)
                size -= len(data)

    def _read(self, size: int) -> bytes:
        data: bytes = b""
        while len(data) < size:
            more: Any = self._socket.recv(size - len(data))
            if not more:
                return b""
            data += more
        return data


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
