"""An event that other threads set, and that a thread can poll together with sockets."""

import os
import threading
from contextlib import suppress
from types import TracebackType


class PollableEvent(threading.Event):
    def __init__(self) -> None:
        super().__init__()
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._guard = threading.Lock()
        self._is_closed = False

    def __enter__(self) -> "PollableEvent":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._guard:
            self._is_closed = True
            os.close(self._descriptor)

    def fileno(self) -> int:
        return self._descriptor

    def set(self) -> None:
        super().set()
        with self._guard:
            if not self._is_closed:
                os.eventfd_write(self._descriptor, 1)

    def clear(self) -> None:
        super().clear()
        with suppress(BlockingIOError):  # nobody has set it since
            os.eventfd_read(self._descriptor)
