"""The streams of a session, at its two ends: descriptors of this machine on one side, frames on the other.

One thread does it all and never blocks. A descriptor is read only while the other end has granted room for
it, and the WebSocket has some; what arrives for one is bounded by the window that this end grants.
"""

import os
import selectors
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from pit_protocol.problem import Problem
from pit_protocol.sessions.frames import BLOCK, WINDOW, Frame, Kind, pack, pack_count, unpack
from pit_protocol.sessions.websocket import PING_S, WebSocket

MOST_BUFFERED = 1024 * 1024  # in the WebSocket; beyond that no descriptor is read
ATOMIC = 4096  # bytes that a descriptor which is ready takes without blocking
# On macOS, poll does not know terminals.
Selector = selectors.SelectSelector if sys.platform == "darwin" else selectors.PollSelector
Call = Callable[[], None]


@dataclass(eq=False)
class Stream:
    """One stream; `source` is read from and `sink` written to, if they are not None."""

    number: int
    source: int | None = None
    sink: int | None = None
    end_sink: Call = lambda: None  # the other side writes no more
    abort: Call = lambda: None  # called before `close` if a direction was not done
    close: Call = lambda: None  # both directions are done, or the stream is given up
    is_shared: bool = False  # others use the descriptors too, so that they must stay blocking
    credit: int = WINDOW  # bytes that may be sent
    incoming: deque[memoryview] = field(default_factory=deque)
    taken: int = 0  # bytes written to the sink since the last grant
    sink_ends: bool = False
    has_arrived: bool = False  # whether anything came from the other side

    def __post_init__(self) -> None:
        for descriptor in (self.source, self.sink):
            if descriptor is not None and not self.is_shared:
                os.set_blocking(descriptor, False)


class StreamLoop:
    """Runs until `leave` is called or the WebSocket closes, which raises Closed."""

    def __init__(self, websocket: WebSocket) -> None:
        self.websocket = websocket
        self.streams: dict[int, Stream] = {}
        self.on_control: Callable[[str], None] = lambda _: None
        self.on_open: Callable[[int, int], None] = lambda _number, _port: None
        self.on_reset: Callable[[int, str], None] = lambda _number, _why: None
        self.on_turn: Call = lambda: None  # after each turn
        self._selector = Selector()
        self._watched: dict[int, int] = {}
        self._calls: dict[int, Call] = {}  # by descriptor: what else is polled
        self._is_left = False

    def watch(self, descriptor: int, call: Call) -> None:
        """Call when the descriptor is readable."""
        self._calls[descriptor] = call

    def unwatch(self, descriptor: int) -> None:
        self._calls.pop(descriptor, None)

    def leave(self) -> None:
        self._is_left = True

    def run(self) -> None:
        try:
            while not self._is_left:
                self._turn()
                self.on_turn()
        finally:
            self._selector.close()

    def add(self, stream: Stream) -> None:
        self.streams[stream.number] = stream

    def reset(self, number: int, why: str) -> None:
        """Give a stream up, and tell the other side."""
        self.websocket.send(pack(Kind.RESET, number, why.encode()[:1000]))
        self._drop(number)

    def has_output(self) -> bool:
        """Whether something has arrived that is not written yet."""
        return any(stream.incoming for stream in self.streams.values())

    def close_all(self) -> None:
        for number in list(self.streams):
            self._drop(number)

    def _turn(self) -> None:
        self._update()
        timeout_s = 0.0 if self.websocket.has_more() else PING_S / 2
        ready = self._selector.select(timeout_s)
        if not ready:
            self.websocket.check_alive()
        events = {key.fd: mask for key, mask in ready}
        mine = self.websocket.fileno()
        if events.get(mine, 0) & selectors.EVENT_WRITE:
            self.websocket.flush()
        if events.get(mine, 0) & selectors.EVENT_READ or self.websocket.has_more():
            for message in self.websocket.receive():
                if isinstance(message, str):
                    self.on_control(message)
                else:
                    self._take(unpack(message))
        for descriptor, call in list(self._calls.items()):
            if descriptor in events and descriptor in self._calls:
                call()
        for stream in list(self.streams.values()):
            if stream.sink in events and events[stream.sink] & selectors.EVENT_WRITE and stream.incoming:
                self._write(stream)
            is_readable = stream.source in events and events[stream.source] & selectors.EVENT_READ
            if is_readable and self.websocket.buffered < MOST_BUFFERED and self.read(stream):
                self._go_last(stream)

    def _update(self) -> None:
        """Tell the selector what to wait for."""
        wanted = dict.fromkeys(self._calls, selectors.EVENT_READ)
        wanted[self.websocket.fileno()] = selectors.EVENT_READ | (
            selectors.EVENT_WRITE if self.websocket.buffered else 0
        )
        may_read = self.websocket.buffered < MOST_BUFFERED
        for stream in self.streams.values():
            if stream.source is not None and may_read and stream.credit > 0:
                wanted[stream.source] = wanted.get(stream.source, 0) | selectors.EVENT_READ
            if stream.sink is not None and stream.incoming:
                wanted[stream.sink] = wanted.get(stream.sink, 0) | selectors.EVENT_WRITE
        for descriptor in self._watched.keys() - wanted.keys():
            with suppress(KeyError, ValueError, OSError):
                self._selector.unregister(descriptor)
        for descriptor, mask in wanted.items():
            if descriptor not in self._watched:
                self._selector.register(descriptor, mask)
            elif self._watched[descriptor] != mask:
                self._selector.modify(descriptor, mask)
        self._watched = wanted

    def read(self, stream: Stream) -> bool:
        """Pass on what a source has, as far as that is allowed; False if it has nothing now."""
        if stream.source is None or stream.credit <= 0:
            return False
        try:
            data = os.read(stream.source, min(BLOCK, stream.credit))
        except BlockingIOError:
            return False
        except (ConnectionError, TimeoutError) as error:
            self.reset(stream.number, (error.strerror or str(error)).lower())
            return True
        except OSError:  # EIO: how a terminal says that nobody is there any more
            data = b""
        if data:
            stream.credit -= len(data)
            self.websocket.send(pack(Kind.DATA, stream.number, data))
            return True
        self._forget(stream.source)
        stream.source = None
        self.websocket.send(pack(Kind.EOF, stream.number))
        self._drop_if_done(stream)
        return True

    def _go_last(self, stream: Stream) -> None:
        """The others are read first in the next turn, so that all get a share of a slow WebSocket."""
        if stream.number in self.streams:
            self.streams[stream.number] = self.streams.pop(stream.number)

    def _take(self, frame: Frame) -> None:
        if frame.kind is Kind.OPEN:
            self.on_open(frame.stream, frame.number)
            return
        stream = self.streams.get(frame.stream)
        if frame.kind is Kind.RESET:
            self.on_reset(frame.stream, frame.payload.decode(errors="replace"))
            self._drop(frame.stream)
        elif stream is None:
            return  # it was closed here while this was on its way
        elif frame.kind is Kind.WINDOW:
            stream.credit += frame.number
        elif frame.kind is Kind.EOF:
            stream.sink_ends = True
            self._write(stream)
        elif frame.payload and stream.sink is not None:
            held = sum(map(len, stream.incoming)) + len(frame.payload)
            if held > WINDOW + BLOCK:
                raise Problem("bad_frame", "more was sent than was allowed")
            stream.has_arrived = True
            stream.incoming.append(memoryview(frame.payload))
            if not stream.is_shared:  # writing could block before polling says that it does not
                self._write(stream)
        else:
            self._grant(stream, len(frame.payload))

    def _write(self, stream: Stream) -> None:
        """Write what has arrived, as far as the sink takes it now."""
        while stream.incoming and stream.sink is not None:
            first = stream.incoming[0]
            try:
                count = os.write(stream.sink, first[:ATOMIC] if stream.is_shared else first)
            except BlockingIOError:
                break
            except OSError as error:
                self.on_reset(stream.number, (error.strerror or str(error)).lower())
                self.reset(stream.number, (error.strerror or str(error)).lower())
                return
            if count == len(first):
                stream.incoming.popleft()
            else:
                stream.incoming[0] = first[count:]
            self._grant(stream, count)
            if stream.is_shared:
                break  # whether it takes more without blocking, only polling can say
        if stream.sink_ends and not stream.incoming and stream.sink is not None:
            self._forget(stream.sink)
            stream.sink = None
            stream.end_sink()
            self._drop_if_done(stream)

    def _grant(self, stream: Stream, count: int) -> None:
        stream.taken += count
        if stream.taken >= WINDOW // 4:
            self.websocket.send(pack_count(Kind.WINDOW, stream.number, stream.taken))
            stream.taken = 0

    def _drop_if_done(self, stream: Stream) -> None:
        if stream.source is None and stream.sink is None:
            self._drop(stream.number)

    def _drop(self, number: int) -> None:
        stream = self.streams.pop(number, None)
        if stream:
            for descriptor in (stream.source, stream.sink):
                if descriptor is not None:
                    self._forget(descriptor)
            if stream.source is not None or stream.sink is not None:
                stream.abort()
            # Other threads may get these numbers for files of their own as soon as they are closed.
            stream.source = stream.sink = None
            stream.close()

    def _forget(self, descriptor: int) -> None:
        """It may be closed soon, and another file get its number; `_update` watches it again if need be."""
        if self._watched.pop(descriptor, None) is not None:
            with suppress(KeyError, ValueError, OSError):
                self._selector.unregister(descriptor)
