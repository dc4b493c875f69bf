"""What a session carries: control messages as JSON text, and the bytes of streams as binary frames.

A binary frame is one byte for its kind, four for the number of its stream (big-endian), and its payload.
Each side may send WINDOW bytes on a stream, and as many more as the other one grants. So a reader that
stops stops its writer, and no buffer between them grows.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from pit_protocol.problem import Problem
from pit_protocol.wire import Int, Message, decode, encode

WINDOW = 512 * 1024  # bytes of a stream that may be on their way
BLOCK = 128 * 1024  # most bytes of a stream in one frame
MAX_MESSAGE = 1024 * 1024
MAX_STREAMS = 128  # of one session
STDIN, STDOUT, STDERR = 0, 1, 2  # the streams of a command; those of connections are numbered from 1
_HEAD = struct.Struct("!BI")
_COUNT = struct.Struct("!I")


class Kind(IntEnum):
    DATA = 0
    EOF = 1  # the sender writes no more to this stream
    WINDOW = 2  # the sender may be sent so many more bytes: four bytes
    OPEN = 3  # connect this stream to a port: four bytes
    RESET = 4  # the stream is broken; the payload says why


class Frame(NamedTuple):
    kind: Kind
    stream: int
    payload: bytes = b""

    @property
    def number(self) -> int:
        """The number that WINDOW and OPEN carry."""
        if len(self.payload) != _COUNT.size:
            raise Problem("bad_frame", f"a frame {self.kind.name} has {len(self.payload)} bytes")
        return int(_COUNT.unpack(self.payload)[0])


def pack(kind: Kind, stream: int, payload: bytes = b"") -> bytes:
    return _HEAD.pack(kind, stream) + payload


def pack_count(kind: Kind, stream: int, count: int) -> bytes:
    return _HEAD.pack(kind, stream) + _COUNT.pack(count)


def unpack(data: bytes) -> Frame:
    """The inverse of `pack`; raises a Problem."""
    try:
        kind, stream = _HEAD.unpack_from(data)
        return Frame(Kind(kind), stream, data[_HEAD.size :])
    except (struct.error, ValueError):
        raise Problem("bad_frame", "a frame of the session is not valid") from None


class TerminalSize(Message, frozen=True, tag="resize"):
    """The client's terminal has this size now."""

    rows: Int
    columns: Int


class Start(Message, frozen=True, tag="start"):
    """The first message of a client: what to run. Of a forward it is empty."""

    command: tuple[str, ...] = ()  # empty: the best shell that is there
    term: str = ""  # the client's $TERM; empty: no terminal, three pipes
    rows: Int = 24
    columns: Int = 80


class Started(Message, frozen=True, tag="started"):
    """The worker has entered the process."""


class Exit(Message, frozen=True, tag="exit"):
    """The command has ended, and all of its output was sent."""

    code: Int


class Failed(Message, frozen=True, tag="problem"):
    """The session is over, and why."""

    code: str
    message: str
    hint: str = ""


Control = Start | TerminalSize | Started | Exit | Failed


def to_text(control: Control) -> str:
    return encode(control).decode()


def from_text(text: str) -> Control:
    """Raises a Problem."""
    found: Control = decode(Control, text.encode())  # type: ignore[arg-type]
    return found


def failed(problem: Problem) -> Failed:
    return Failed(problem.code, problem.message, problem.hint)
