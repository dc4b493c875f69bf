"""What is sent and what comes: contents of files, as long as they were said to be."""

from collections.abc import Callable
from http import HTTPStatus
from typing import BinaryIO

from wsgidav.dav_error import DAVError

from pit_server.dav.naming import told

LOOK_EACH = 64 * 1024 * 1024  # bytes of a body of unknown length between two looks at the quota


class Steady:
    """A file for reading, of which so much was promised: one that shrinks meanwhile breaks the answer off."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.close = file.seek, file.close

    def read(self, size: int) -> bytes:
        if not (data := self._file.read(size)) and size:
            raise OSError("the file has become shorter while it was read")
        return data


class Body:
    """What a PUT sends: all that was announced, or nothing is kept of it."""

    def __init__(self, file: BinaryIO, announced: str, check_room: Callable[[int], None]) -> None:
        self._file, self._check_room = file, check_room
        self._left = int(announced) if announced.isdecimal() else None
        self._size = self._checked = 0

    def write(self, data: bytes) -> None:
        with told():
            self._size += len(data)
            if self._left is None and self._size > self._checked:
                # Nobody said how much it will be: so look again from time to time.
                self._checked = self._size + LOOK_EACH
                self._check_room(self._checked)
            view = memoryview(data)
            while view:
                view = view[self._file.write(view) :]

    def close(self) -> None:
        if self._left is not None and self._left != self._size:
            raise DAVError(HTTPStatus.BAD_REQUEST, "the body is shorter than was announced")
