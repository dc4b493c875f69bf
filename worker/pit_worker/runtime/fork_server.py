"""The worker's end of the fork server, which starts the supervisors of processes."""

import logging
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pit_protocol
import pit_worker
from pit_worker.loop import Loop
from pit_worker.supervisor import fork_server
from pit_worker.supervisor.launch import ANSWER, HEADER, Launch

ANSWERS_S = 20.0  # one that takes no launch for so long is replaced
PACKAGES = [str(Path(str(package.__file__)).parents[1]) for package in (pit_worker, pit_protocol)]
ENVIRONMENT = {"LC_ALL": "C.UTF-8"}  # nothing of the worker's own

log = logging.getLogger(__name__)

# Called with the process id of a supervisor and a descriptor of it; or with an error: it may run or not.
Launched = Callable[[tuple[int, int] | OSError], None]


class ForkServer:
    """Starts with the first launch; one that dies is replaced. Belongs to the main loop."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._program: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._waiting: deque[Launched] = deque()  # answers come in the order of launches

    def launch(self, launch: Launch, mounts: int | None, launched: Launched) -> None:
        """Start a supervisor, in that mount namespace if one is given, and call back with it."""
        text = launch.encode()
        header = HEADER.pack(len(text), mounts is not None)
        connection = self._connection or self._open()
        self._waiting.append(launched)
        try:
            if mounts is None:
                connection.sendall(header + text)
            else:
                socket.send_fds(connection, [header], [mounts])
                connection.sendall(text)
        except OSError as error:
            log.error("the fork server takes no launches: %s", error)
            self.close()

    def close(self) -> None:
        """End it; supervisors go on. What it has not answered is called back with an error."""
        if self._connection:
            self._loop.unwatch(self._connection.fileno())
            self._connection.close()
            self._connection = None
        if self._program:
            self._program.kill()
            self._program.wait()
            self._program = None
        waiting, self._waiting = self._waiting, deque()
        for launched in waiting:
            launched(OSError("the fork server ended"))

    def _open(self) -> socket.socket:
        own, other = socket.socketpair()
        with other:
            self._program = subprocess.Popen(
                [*python(fork_server.__file__), str(other.fileno()), *PACKAGES],
                env=ENVIRONMENT,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
                start_new_session=True,
            )
        own.settimeout(ANSWERS_S)
        self._connection = own
        self._loop.watch(own.fileno(), self._on_answer)
        return own

    def _on_answer(self) -> None:
        if self._connection is None:
            return
        try:
            answer, descriptors, _, _ = socket.recv_fds(self._connection, ANSWER.size, 1)
        except OSError:
            answer, descriptors = b"", []
        if len(answer) < ANSWER.size or not self._waiting:
            log.error("the fork server ended; the next start begins another one")
            self.close()
            return
        (number,) = ANSWER.unpack(answer)
        launched = self._waiting.popleft()
        launched((number, descriptors[0]) if descriptors else OSError(-number, os.strerror(-number)))


def python(program: str) -> list[str]:
    """The words that start one of the supervisor's programs."""
    return [sys.executable, "-I", "-S", program]
