"""A session that runs one command in a process."""

import os
import select
from contextlib import suppress

from pit_protocol.problem import Problem
from pit_protocol.sessions.frames import (
    STDERR,
    STDIN,
    STDOUT,
    Exit,
    Start,
    Started,
    TerminalSize,
    from_text,
    to_text,
)
from pit_protocol.sessions.streams import Stream, StreamLoop
from pit_worker.runtime.base import Runtime
from pit_worker.runtime.inside.command_pid import Entrance
from pit_worker.runtime.inside.local_command import Inside
from pit_worker.spool.entry import Entry

KILLED = 128 + 9  # the exit code of a command that got SIGKILL
JOB_ENDED = Problem(
    "job_ended", "the process has ended, and the session with it", "`pit log` shows its output"
)


class CommandSession:
    def __init__(self, loop: StreamLoop, runtime: Runtime, entry: Entry, session_id: str) -> None:
        self._loop, self._runtime, self._entry, self._id = loop, runtime, entry, session_id
        self._command: Inside | None = None
        self._entrance: Entrance | None = None
        self._has_ended = False
        loop.on_control, loop.on_turn = self._on_control, self._on_turn

    def run(self) -> None:
        """Serve until the command, the process or the user ends it; raises Closed or a Problem."""
        try:
            self._loop.run()
        finally:
            if self._command:
                self._command.kill()
            self._loop.close_all()
            if self._command and self._entrance:
                os.close(self._command.ended)
                os.close(self._entrance.descriptor)

    def _on_control(self, text: str) -> None:
        control = from_text(text)
        if isinstance(control, Start) and self._command is None:
            self._start(control)
        elif isinstance(control, TerminalSize) and self._command:
            self._command.resize(control.rows, control.columns)

    def _start(self, start: Start) -> None:
        self._command, self._entrance = self._runtime.enter(self._entry, start, self._id)
        command = self._command
        for stream in (
            Stream(STDIN, sink=command.stdin, end_sink=lambda: self._close("stdin")),
            Stream(STDOUT, source=command.stdout, close=lambda: self._close("stdout")),
            Stream(STDERR, source=command.stderr, close=lambda: self._close("stderr")),
        ):
            if stream.source is not None or stream.sink is not None:
                self._loop.add(stream)
        if stdin := self._loop.streams.get(STDIN):
            stdin.close = lambda: self._close("stdin")
        self._loop.watch(command.ended, self._on_end)
        self._loop.watch(self._entrance.descriptor, self._on_job_end)
        self._loop.websocket.send(to_text(Started()))

    def _close(self, name: str) -> None:
        """Close one of the command's descriptors, once."""
        descriptor = getattr(self._command, name)
        if descriptor is not None:
            setattr(self._command, name, None)
            with suppress(OSError):
                os.close(descriptor)

    def _on_job_end(self) -> None:
        if not self._has_ended:
            raise JOB_ENDED

    def _on_end(self) -> None:
        assert self._command and self._entrance  # noqa: S101
        was_killed = self._command.exit_code() == KILLED
        if was_killed and select.select([self._entrance.descriptor], [], [], 0)[0]:
            raise JOB_ENDED  # what a process leaves behind is killed with it
        self._has_ended = True
        self._loop.unwatch(self._command.ended)

    def _on_turn(self) -> None:
        """Once the command has ended: send the rest of its output, which is in the pipes, then its code."""
        if not self._has_ended or self._command is None:
            return
        for number in (STDOUT, STDERR):
            stream = self._loop.streams.get(number)
            while stream and self._loop.read(stream):
                pass
            if stream and stream.source is not None and stream.credit <= 0:
                return  # more may be there, and the client takes no more now
        self._loop.websocket.send(to_text(Exit(self._command.exit_code())))
        self._loop.leave()
