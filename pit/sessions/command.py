"""A command in a process of a job, with this program's stdin, stdout and stderr."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from pit.connect.connection import Connection
from pit.sessions import terminal
from pit.sessions.connection import HEAD_GONE, open_session, to_problem
from pit_protocol.messages.beat import SessionKind
from pit_protocol.problem import Problem
from pit_protocol.sessions.frames import (
    STDERR,
    STDIN,
    STDOUT,
    Exit,
    Failed,
    Start,
    Started,
    TerminalSize,
    from_text,
    to_text,
)
from pit_protocol.sessions.streams import Stream, StreamLoop
from pit_protocol.sessions.websocket import Closed

DEFAULT_TERM = "xterm"


def run(
    connection: Connection, number: int, process: str | None, command: Sequence[str], *, has_terminal: bool
) -> int:
    """Run the command, or a shell, in a process of the job; its exit code. Raises a Problem."""
    websocket = open_session(connection, SessionKind.EXEC, number, process)
    session = _Session(StreamLoop(websocket))
    try:
        rows, columns = terminal.size()
        term = os.environ.get("TERM", DEFAULT_TERM) if has_terminal else ""
        websocket.send(to_text(Start(tuple(command), term, rows, columns)))
        if not has_terminal:
            return session.run()
        with terminal.raw(session.watch_size) as reset:
            try:
                return session.run()
            except BaseException:
                reset()
                raise
    except Closed as closed:
        raise HEAD_GONE from closed
    finally:
        websocket.close()
        websocket.sock.close()


class _Session:
    def __init__(self, loop: StreamLoop) -> None:
        self._loop = loop
        self._code: int | None = None
        loop.on_control, loop.on_turn, loop.on_reset = self._on_control, self._on_turn, self._on_reset

    def run(self) -> int:
        self._loop.run()
        if self._code is None:
            raise HEAD_GONE
        return self._code

    def watch_size(self, descriptor: int) -> None:
        def tell() -> None:
            with suppress(BlockingIOError):
                os.read(descriptor, 4096)
            self._loop.websocket.send(to_text(TerminalSize(*terminal.size())))

        self._loop.watch(descriptor, tell)

    def _on_control(self, text: str) -> None:
        control = from_text(text)
        if isinstance(control, Failed) and self._code is None:
            raise to_problem(control)
        if isinstance(control, Exit):
            self._code = control.code
        elif isinstance(control, Started):
            # Not before: what is typed ahead is for a program that is there.
            self._loop.add(Stream(STDIN, source=sys.stdin.fileno(), is_shared=True))
            self._loop.add(Stream(STDOUT, sink=sys.stdout.fileno(), is_shared=True))
            self._loop.add(Stream(STDERR, sink=sys.stderr.fileno(), is_shared=True))

    def _on_reset(self, number: int, why: str) -> None:
        if number == STDOUT and "broken pipe" not in why:
            raise Problem("write_failed", f"stdout: {why}")

    def _on_turn(self) -> None:
        if self._code is not None and not self._loop.has_output():
            self._loop.leave()
