"""`pit` as a process of its own, without the half second that its imports take.

One server per test process has imported the client. For each command it forks a child with the caller's
arguments, directory, environment and standard streams. Tests of the program itself start the installed one.
"""

import atexit
import importlib
import os
import pkgutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NoReturn

import msgspec

import pit

LENGTH = struct.Struct("!I")

_idle: "list[Server]" = []


class Call(msgspec.Struct):
    arguments: list[str]
    cwd: str
    env: dict[str, str]


def run_pit(
    arguments: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float, input: str = ""
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `pit` with these arguments."""
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        stdin.write(input.encode())
        stdin.seek(0)
        with _server() as server:
            code = server.call(Call(list(arguments), str(cwd), dict(env)), (stdin, out, err), timeout)
        return code, _text(out), _text(err)


class Server:
    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        command = [sys.executable, "-m", __name__, str(theirs.fileno())]
        env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "PYTHONPATH": str(Path(__file__).parents[2])}
        # It ends when its socket is closed, at the latest with this process.
        self._process = subprocess.Popen(command, env=env, pass_fds=[theirs.fileno()])
        theirs.close()

    def close(self) -> None:
        self._socket.close()
        self._process.wait()

    def call(self, call: Call, streams: Sequence[IO[bytes]], timeout: float) -> int:
        body = msgspec.json.encode(call)
        socket.send_fds(self._socket, [LENGTH.pack(len(body))], [stream.fileno() for stream in streams])
        self._socket.sendall(body)
        (pid,) = LENGTH.unpack(_receive(self._socket, LENGTH.size))
        self._socket.settimeout(timeout)
        try:
            return int.from_bytes(_receive(self._socket, 1))
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            _receive(self._socket, 1)
            raise subprocess.TimeoutExpired(call.arguments, timeout) from None
        finally:
            self._socket.settimeout(None)


@contextmanager
def _server() -> Iterator[Server]:
    """One that is idle: a server runs one command at a time."""
    server = _idle.pop() if _idle else Server()
    try:
        yield server
    finally:
        _idle.append(server)


@atexit.register
def _close() -> None:
    while _idle:
        _idle.pop().close()


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode()


def _receive(source: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        received += (block := source.recv(size - len(received)))
        if not block:
            raise EOFError
    return received


def _serve(source: socket.socket) -> None:
    for module in pkgutil.walk_packages(pit.__path__, "pit."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    while True:
        head, streams, _, _ = socket.recv_fds(source, LENGTH.size, 3)
        if not head:
            return
        call = msgspec.json.decode(_receive(source, LENGTH.unpack(head)[0]), type=Call)
        if not (pid := os.fork()):
            source.close()
            _become(call, streams)
        for stream in streams:
            os.close(stream)
        source.sendall(LENGTH.pack(pid))
        _, status = os.waitpid(pid, 0)
        source.sendall((os.waitstatus_to_exitcode(status) & 0xFF).to_bytes())


def _become(call: Call, streams: Sequence[int]) -> NoReturn:
    """Run the command in this process, and exit as the program does."""
    from pit.cli import main

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.setsid()
    os.chdir(call.cwd)
    os.environ.clear()
    os.environ.update(call.env)
    sys.argv = ["pit", *call.arguments]
    main()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
