"""A session that connects to ports of a process, as many times as the client asks."""

import os
import select

from pit_protocol.problem import Problem
from pit_protocol.sessions.frames import MAX_STREAMS, Kind, Start, Started, from_text, pack, to_text
from pit_protocol.sessions.streams import StreamLoop
from pit_protocol.sessions.tcp import tcp_stream
from pit_worker.runtime.base import Runtime
from pit_worker.runtime.inside import network_namespace
from pit_worker.sessions.command import JOB_ENDED
from pit_worker.spool.entry import Entry

HIGHEST_PORT = 65535


class ForwardSession:
    def __init__(self, loop: StreamLoop, runtime: Runtime, entry: Entry) -> None:
        self._loop = loop
        self._entrance = runtime.hold(entry)
        loop.on_open, loop.on_control = self._on_open, self._on_control
        loop.watch(self._entrance.descriptor, self._on_job_end)

    def run(self) -> None:
        """Serve until the process or the user ends it; raises Closed or a Problem."""
        try:
            self._loop.run()
        finally:
            self._loop.close_all()
            os.close(self._entrance.descriptor)

    def _on_control(self, text: str) -> None:
        if isinstance(from_text(text), Start):
            self._loop.websocket.send(to_text(Started()))

    def _on_job_end(self) -> None:
        raise JOB_ENDED

    def _on_open(self, number: int, port: int) -> None:
        if number in self._loop.streams or len(self._loop.streams) >= MAX_STREAMS:
            return self._refuse(number, f"a session has at most {MAX_STREAMS} connections")
        if not 0 < port <= HIGHEST_PORT:
            return self._refuse(number, f"there is no port {port}")
        try:
            sock = network_namespace.connect(self._entrance.pid, port)
        except Problem as problem:
            return self._refuse(number, problem.message)
        except OSError as error:
            return self._refuse(number, (error.strerror or str(error)).lower())
        if _is_readable(self._entrance.descriptor):
            sock.close()
            raise JOB_ENDED  # its pid may be another's by now
        self._loop.add(tcp_stream(number, sock))
        return None

    def _refuse(self, number: int, why: str) -> None:
        self._loop.websocket.send(pack(Kind.RESET, number, why.encode()))


def _is_readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
