"""The sessions in processes that are open now, in memory: each waits for its worker, then relays."""

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic

from pit_protocol.messages.beat import SessionKind, SessionOrder
from pit_protocol.problem import Problem
from pit_protocol.sessions.websocket import WebSocket
from pit_server.services.sessions.relay import relay
from pit_server.services.sessions.rights import Target
from pit_server.services.sessions.wake import PollableEvent
from pit_server.wakeups import ACCESS, Wakeups, node_topic

WORKER_S = 20.0  # for a worker to open its side
AGAIN_S = 2.0  # after which an order that was not obeyed is sent again


@dataclass(eq=False)
class ProcessSession:
    target: Target
    kind: SessionKind
    id: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    worker: WebSocket | None = None
    attached: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    sent_at: float | None = None  # when the worker was last told

    def order(self) -> SessionOrder:
        return SessionOrder(self.id, self.target.process, self.target.attempt, self.kind)


class ProcessSessions:
    """Shared by all requests."""

    def __init__(self, wakeups: Wakeups) -> None:
        self._wakeups = wakeups
        self._lock = threading.Lock()
        self._open: dict[str, ProcessSession] = {}

    def serve(self, client: WebSocket, target: Target, kind: SessionKind, check: Callable[[], None]) -> None:
        """Connect the client with the process until one of them ends it; raises a Problem.

        `check` raises one as soon as the caller must not be there any more.
        """
        with self._opened(target, kind) as session:
            self._wakeups.notify([node_topic(target.node_id)])
            if not session.attached.wait(WORKER_S) or session.worker is None:
                raise Problem(
                    "node_silent",
                    f"node {target.node} does not answer; the job is not affected",
                    f"`pit show node:{target.node}` says how it is",
                    status=503,
                )
            with PollableEvent() as wake, self._wakeups.subscribe(ACCESS, wake):
                relay(client, session.worker, wake, lambda: self._check(check), target.node)

    def take(self, session_id: str, node_id: int) -> ProcessSession:
        """The session that a worker was ordered to open; raises a Problem."""
        with self._lock:
            session = self._open.get(session_id)
            if session is None or session.target.node_id != node_id or session.worker is not None:
                raise Problem("no_such_session", "nobody waits for this session any more", status=404)
            return session

    def attach(self, session: ProcessSession, worker: WebSocket) -> None:
        """The worker's side is there; returns when the session is over."""
        session.worker = worker
        session.attached.set()
        session.over.wait()

    def orders(self, node_id: int) -> tuple[tuple[SessionOrder, ...], bool]:
        """The sessions that wait for this node's worker, and whether it was not told of one lately."""
        now = monotonic()
        with self._lock:
            waiting = [
                session
                for session in self._open.values()
                if session.target.node_id == node_id and session.worker is None
            ]
            news = [each for each in waiting if each.sent_at is None or now - each.sent_at > AGAIN_S]
            for session in news:
                session.sent_at = now
        return tuple(session.order() for session in waiting), bool(news)

    def _check(self, check: Callable[[], None]) -> None:
        if self._wakeups.is_closed:
            raise Problem(
                "head_stops", "the head is shutting down; the job is not affected", "try again", status=503
            )
        check()

    @contextmanager
    def _opened(self, target: Target, kind: SessionKind) -> Iterator[ProcessSession]:
        session = ProcessSession(target, kind)
        with self._lock:
            self._open[session.id] = session
        try:
            yield session
        finally:
            with self._lock:
                del self._open[session.id]
            session.over.set()
