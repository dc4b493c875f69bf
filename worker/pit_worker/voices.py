"""The two threads that talk with the head: one listens all the time, one speaks when told to."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from pit_protocol.beat import Beat, Hello, Orders, Welcome
from pit_worker.backoff import Backoff
from pit_worker.beats import Speech
from pit_worker.head import Head, HeadError, Overtaken, TokenRefused
from pit_worker.lease import Lease
from pit_worker.loop import Loop
from pit_worker.settings import Settings

REFUSED_MOST_S = 30.0  # between two tries of a node that is not known any more

log = logging.getLogger(__name__)
T = TypeVar("T")


class Ears(Protocol):
    """What the voices tell; each call comes in the main loop."""

    seen: int

    def on_welcome(self, welcome: Welcome) -> None: ...
    def on_heard(self, orders: Orders) -> None: ...
    def on_answered(self, speech: Speech, orders: Orders) -> None: ...
    def on_unanswered(self) -> None: ...


class Voices:
    """Greets the head, then keeps one beat held open for orders and sends others with what is said."""

    def __init__(self, settings: Settings, loop: Loop, ears: Ears, hello: Hello, lease: Lease) -> None:
        self._settings = settings
        self._lease = lease
        self._loop = loop
        self._ears = ears
        self._hello = hello
        self._said: queue.SimpleQueue[tuple[Beat, Speech]] = queue.SimpleQueue()

    def start(self) -> None:
        for name, run in (("listener", self._listen), ("speaker", self._speak)):
            threading.Thread(target=run, name=name, daemon=True).start()

    def say(self, beat: Beat, speech: Speech) -> None:
        """Send this; the answer, or the lack of one, comes to the ears."""
        self._said.put((beat, speech))

    def _listen(self) -> None:
        head, trouble = Head(self._settings), Trouble("listening", self._loop)
        welcome = _insist(lambda: head.greet(self._hello), trouble)
        self._lease.renew(head.asked_at)
        log.info("node %s of cluster %s, epoch %d", welcome.node, welcome.cluster, welcome.epoch)
        self._loop.post(lambda: self._ears.on_welcome(welcome))
        heard = -1
        while True:
            seen = max(heard, self._ears.seen)
            beat = Beat(welcome.epoch, self._hello.boot_id, max(seen, 0), wait_s=welcome.hold_s)
            asked_at = time.monotonic()
            orders = _insist(lambda beat=beat: head.beat(beat), trouble)  # type: ignore[misc]
            self._lease.renew(head.asked_at)
            self._loop.post(lambda orders=orders: self._ears.on_heard(orders))  # type: ignore[misc]
            if orders.revision <= seen and time.monotonic() - asked_at < min(0.2, welcome.hold_s / 2):
                # A head that answers at once without news would be asked without pause.
                time.sleep(0.2)
            heard = max(heard, orders.revision)

    def _speak(self) -> None:
        head, trouble = Head(self._settings), Trouble("speaking", self._loop)
        refused = Backoff(most_s=REFUSED_MOST_S)
        while True:
            beat, speech = self._said.get()
            try:
                orders = head.beat(beat, speech.data)
            except TokenRefused:
                # The listener hears the same, and says so.
                time.sleep(refused.delay_s())
                self._loop.post(self._ears.on_unanswered)
            except HeadError as error:
                trouble.meet(error)
                self._loop.post(self._ears.on_unanswered)
            else:
                trouble.end()
                refused.reset()
                self._lease.renew(head.asked_at)
                self._loop.post(lambda o=orders, s=speech: self._ears.on_answered(s, o))  # type: ignore[misc]


class Trouble:
    """Says once what is wrong and once that it is over; being overtaken ends the worker."""

    def __init__(self, doing: str, loop: Loop) -> None:
        self._doing = doing
        self._loop = loop
        self._text = ""

    def meet(self, error: HeadError) -> None:
        if isinstance(error, Overtaken):
            log.error("%s: %s", self._doing, error)
            self._loop.leave(1)
        elif str(error) != self._text:
            self._text = str(error)
            log.warning("%s: %s; trying again", self._doing, error)

    def end(self) -> None:
        if self._text:
            log.info("%s: the head answers again", self._doing)
            self._text = ""


def _insist(call: Callable[[], T], trouble: Trouble) -> T:
    """Call until it succeeds, with pauses that grow."""
    backoff, refused = Backoff(), Backoff(most_s=REFUSED_MOST_S)
    while True:
        try:
            answer = call()
        except TokenRefused as error:
            trouble.meet(error)
            time.sleep(refused.delay_s())
        except HeadError as error:
            trouble.meet(error)
            time.sleep(backoff.delay_s())
        else:
            trouble.end()
            return answer
