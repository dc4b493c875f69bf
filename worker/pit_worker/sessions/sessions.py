"""Opening the sessions that the head orders; each runs in a thread of its own."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress

from pit_protocol import API_PREFIX
from pit_protocol.messages.beat import SessionKind, SessionOrder
from pit_protocol.problem import Problem
from pit_protocol.sessions.frames import failed, to_text
from pit_protocol.sessions.handshake import connect
from pit_protocol.sessions.streams import StreamLoop
from pit_protocol.sessions.websocket import GONE_S, Closed, WebSocket
from pit_worker.head.tls import context_for, read_certificates
from pit_worker.process.process import Process
from pit_worker.process.states import State
from pit_worker.runtime.base import NOT_THERE, Runtime
from pit_worker.sessions.command import CommandSession
from pit_worker.sessions.forward import ForwardSession
from pit_worker.settings import SettingError, Settings, read_token
from pit_worker.spool.entry import Entry, Key

MOST = 500  # sessions of this node at a time
REMEMBERED = 5000  # ids of sessions; the head repeats an order until it is obeyed

BUG = Problem("internal_error", "internal worker error", "the worker's log has the details")

log = logging.getLogger(__name__)


class Sessions:
    """Belongs to the main loop; only `_serve` runs in threads."""

    def __init__(self, settings: Settings, runtime: Runtime, known: Mapping[Key, Process]) -> None:
        self._settings, self._runtime, self._known = settings, runtime, known
        self._begun: OrderedDict[str, None] = OrderedDict()
        self._threads: list[threading.Thread] = []

    def obey(self, orders: Sequence[SessionOrder]) -> None:
        """Open what is not open yet."""
        for order in orders:
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            if order.id in self._begun or len(self._threads) >= MOST:
                continue
            self._begun[order.id] = None
            if len(self._begun) > REMEMBERED:
                self._begun.popitem(last=False)
            process = self._known.get(Key(order.process, order.attempt))
            entry = process.entry if process and process.state is State.RUNNING else None
            thread = threading.Thread(target=self._serve, args=(order, entry), name="session", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, order: SessionOrder, entry: Entry | None) -> None:
        try:
            websocket = self._connect(order)
        except (OSError, Problem, SettingError) as error:
            log.warning("a session could not be opened: %s", error)
            return
        try:
            self._run(websocket, order, entry)
        except Closed:
            pass  # the user has left, or the head is away
        except Problem as problem:
            with suppress(Closed):
                websocket.send(to_text(failed(problem)))
        except Exception:  # it must not take the worker with it
            log.exception("internal worker error")
            with suppress(Closed):
                websocket.send(to_text(failed(BUG)))
        finally:
            websocket.close()
            websocket.drain(GONE_S)
            websocket.sock.close()

    def _run(self, websocket: WebSocket, order: SessionOrder, entry: Entry | None) -> None:
        if entry is None:
            raise NOT_THERE
        loop = StreamLoop(websocket)
        if order.kind is SessionKind.EXEC:
            CommandSession(loop, self._runtime, entry, order.id).run()
        else:
            ForwardSession(loop, self._runtime, entry).run()

    def _connect(self, order: SessionOrder) -> WebSocket:
        url = self._settings.url.rstrip("/")
        context = context_for(url, read_certificates(self._settings.ca_file))
        return connect(
            f"{url}{API_PREFIX}/node/sessions/{order.id}", read_token(self._settings.token_file), context
        )
