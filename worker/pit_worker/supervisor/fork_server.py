"""Forks the supervisors of processes: `fork_server.py SOCKET DIRECTORY…`; it imports from these directories.

A fork of this small program takes a fraction of the time in which a shell or Python starts. It ends with its
worker; supervisors go on. If it is killed, the worker starts another one.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys

if __name__ == "__main__":
    sys.path += sys.argv[2:]

from pit_worker import kernel
from pit_worker.supervisor.launch import ANSWER, HEADER, Launch
from pit_worker.supervisor.supervise import supervise


def serve(connection: socket.socket) -> None:
    """Fork a supervisor for each launch, until the worker has gone."""
    ended, wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    poller = select.poll()
    poller.register(connection, select.POLLIN)
    poller.register(ended, select.POLLIN)
    # What exists now is not copied by a collection in every supervisor.
    gc.disable()
    gc.freeze()
    while True:
        ready = {descriptor for descriptor, _ in poller.poll()}
        if ended in ready:
            os.read(ended, 4096)
            _reap()
        if connection.fileno() in ready and not _take(connection):
            return


def _take(connection: socket.socket) -> bool:
    """Fork one supervisor, and answer with its process id and descriptor; False if the worker has gone."""
    header, mounts = _receive(connection, HEADER.size)
    if not header:
        return False
    size, has_mounts = HEADER.unpack(header)
    text, _ = _receive(connection, size)
    if len(text) < size:
        return False
    pid = -1
    try:
        pid = os.fork()
        if pid == 0:
            supervise(Launch.decode(text), mounts[0] if has_mounts else None)
        handle = os.pidfd_open(pid)
    except OSError as error:
        connection.sendall(ANSWER.pack(-(error.errno or 1)))
    else:
        socket.send_fds(connection, [ANSWER.pack(pid)], [handle])
        os.close(handle)
    finally:
        for descriptor in mounts:
            os.close(descriptor)
    return True


def _receive(connection: socket.socket, size: int) -> tuple[bytes, list[int]]:
    """Exactly so many bytes, or fewer at the end; with the descriptors that came along."""
    found, descriptors = b"", []
    while len(found) < size:
        piece, more, _, _ = socket.recv_fds(connection, size - len(found), 1)
        descriptors += more
        if not piece:
            break
        found += piece
    return found, descriptors


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    kernel.set_name("pit-forkserver")
    serve(socket.socket(fileno=int(sys.argv[1])))
