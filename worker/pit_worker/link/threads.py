"""The two threads that talk to the head: one always waits for orders, one sends beats when asked to."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from msgspec.structs import replace

from pit_protocol.backoff import Backoff
from pit_protocol.messages.beat import Beat, Hello, Orders, Welcome
from pit_worker.head.client import Head, HeadError, Overtaken, SessionUnknown, TokenRefused
from pit_worker.link.beat import OutgoingBeat
from pit_worker.loop import Loop
from pit_worker.settings import Settings
from pit_worker.spool.lease import Lease

REFUSED_MOST_S = 30.0  # longest pause between two tries of a node that the head no longer knows

log = logging.getLogger(__name__)
T = TypeVar("T")


class Listener(Protocol):
    """Is called in the main loop with what the threads hear from the head."""

    seen: int

    def on_welcome(self, welcome: Welcome) -> None: ...
    def on_orders(self, orders: Orders) -> None: ...
    def on_answer(self, sent: OutgoingBeat, orders: Orders) -> None: ...
    def on_no_answer(self) -> None: ...


class HeadLink:
    """Says hello to the head, then keeps one beat open for orders and sends others with reports."""

    def __init__(
        self,
        settings: Settings,
        loop: Loop,
        listener: Listener,
        hello: Hello,
        lease: Lease,
        count_hello: Callable[[], tuple[str, int]],
    ) -> None:
        self._settings = settings
        self._count_hello = count_hello
        self._lease = lease
        self._loop = loop
        self._listener = listener
        self._hello = hello
        self._epoch = 0  # of the last session
        self._outgoing: queue.SimpleQueue[tuple[Beat, OutgoingBeat]] = queue.SimpleQueue()

    def start(self) -> None:
        for name, run in (("receiver", self._receive), ("sender", self._send)):
            threading.Thread(target=run, name=name, daemon=True).start()

    def send(self, beat: Beat, content: OutgoingBeat) -> None:
        """Send this; the listener is called with the answer, or that there is none."""
        self._outgoing.put((beat, content))

    def _receive(self) -> None:
        head, errors = Head(self._settings), ErrorLog("receiving", self._loop)
        while True:
            try:
                self._hold_session(head, errors)
            except SessionUnknown as error:
                log.warning("%s: its database was restored from a backup; beginning a new session", error)
                # What has changed since then goes with beats.
                self._hello = replace(self._hello, epoch=self._epoch, trouble=None)

    def _hold_session(self, head: Head, errors: "ErrorLog") -> None:
        """Say hello, then wait for orders, again and again; raises SessionUnknown."""
        welcome = _retry(lambda: self._greet(head), errors)
        self._lease.renew(head.asked_at)
        self._epoch = welcome.epoch
        log.info("node %s of cluster %s, epoch %d", welcome.node, welcome.cluster, welcome.epoch)
        self._welcome(welcome)
        received, hold_s = -1, welcome.hold_s
        while True:
            seen = max(received, self._listener.seen)
            beat = Beat(welcome.epoch, self._hello.boot_id, max(seen, 0), wait_s=hold_s)
            asked_at = time.monotonic()
            orders = _retry(lambda beat=beat: head.beat(beat), errors)  # type: ignore[misc]
            self._lease.renew(head.asked_at)
            self._loop.post(lambda orders=orders: self._listener.on_orders(orders))  # type: ignore[misc]
            is_new = orders.revision > seen or orders.sessions
            if not is_new and time.monotonic() - asked_at < min(0.2, hold_s / 2):
                # Do not flood a head that answers at once though it has nothing new.
                time.sleep(0.2)
            received = max(received, orders.revision)
            hold_s = orders.hold_s or welcome.hold_s

    def _greet(self, head: Head) -> Welcome:
        """Each try has a number of its own: one that got no answer may still arrive later."""
        spool, count = self._count_hello()
        return head.greet(replace(self._hello, spool=spool, count=count))

    def _welcome(self, welcome: Welcome) -> None:
        """Call the listener and wait for it: it resets what an earlier session has seen."""
        done = threading.Event()

        def call() -> None:
            self._listener.on_welcome(welcome)
            done.set()

        self._loop.post(call)
        done.wait()

    def _send(self) -> None:
        head, errors = Head(self._settings), ErrorLog("sending", self._loop)
        refused = Backoff(most_s=REFUSED_MOST_S)
        while True:
            beat, content = self._outgoing.get()
            try:
                orders = head.beat(beat, content.data)
            except TokenRefused:
                # The receiver gets the same answer, and logs it.
                time.sleep(refused.delay_s())
                self._loop.post(self._listener.on_no_answer)
            except HeadError as error:
                errors.note(error)
                self._loop.post(self._listener.on_no_answer)
            else:
                errors.clear()
                refused.reset()
                self._lease.renew(head.asked_at)
                self._loop.post(lambda o=orders, c=content: self._listener.on_answer(c, o))  # type: ignore[misc]


class ErrorLog:
    """Logs once that the head cannot be reached, and once that it can; being overtaken ends the worker."""

    def __init__(self, doing: str, loop: Loop) -> None:
        self._doing = doing
        self._loop = loop
        self._text = ""

    def note(self, error: HeadError) -> None:
        if isinstance(error, Overtaken):
            log.error("%s: %s", self._doing, error)
            self._loop.leave(1)
        elif str(error) != self._text:
            self._text = str(error)
            log.warning("%s: %s; trying again", self._doing, error)

    def clear(self) -> None:
        if self._text:
            log.info("%s: the head answers again", self._doing)
            self._text = ""


def _retry(call: Callable[[], T], errors: ErrorLog) -> T:
    """Call until it succeeds, with growing pauses; raises SessionUnknown."""
    backoff, refused = Backoff(), Backoff(most_s=REFUSED_MOST_S)
    while True:
        try:
            answer = call()
        except SessionUnknown:
            raise
        except TokenRefused as error:
            errors.note(error)
            time.sleep(refused.delay_s())
        except HeadError as error:
            errors.note(error)
            time.sleep(backoff.delay_s())
        else:
            errors.clear()
            return answer
