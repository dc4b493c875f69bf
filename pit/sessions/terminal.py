"""The user's terminal while a session has it: raw, and as it was afterwards, whatever happens."""

import os
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

# What a full-screen program may have left on when it is cut off: mouse and paste reports, the other screen.
_RESET = b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?1049l\x1b[?25h\x1b[0m"


def is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def size() -> tuple[int, int]:
    """Rows and columns."""
    found = shutil.get_terminal_size()
    return found.lines, found.columns


@contextmanager
def raw(on_resize: Callable[[int], None]) -> Iterator[Callable[[], None]]:
    """Every key goes to the other side; yields what resets the screen after a session that was cut off.

    `on_resize` is called with a descriptor that is readable whenever the size has changed.
    """
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    os.set_blocking(reader, False)

    def note(_number: int, _frame: FrameType | None) -> None:
        with suppress(OSError):
            os.write(writer, b".")

    handler = signal.signal(signal.SIGWINCH, note)
    on_resize(reader)
    try:
        tty.setraw(descriptor, termios.TCSADRAIN)  # keeps what was typed ahead
        yield lambda: _write(_RESET)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, handler)
        os.close(reader)
        os.close(writer)


def _write(data: bytes) -> None:
    with suppress(OSError):
        os.write(sys.stdout.fileno(), data)
