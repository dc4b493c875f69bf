"""What is sent and what comes: contents of files, as long as they were said to be."""

from collections.abc import Callable
from http import HTTPStatus
from typing import BinaryIO

from wsgidav.dav_error import DAVError

from pit_server.dav.naming import told
from pit_server.store.writing import write_all


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

    def __init__(self, file: BinaryIO, announced: int | None, take: Callable[[int], None]) -> None:
        """`take` counts what comes, and refuses what is too much."""
        self._file, self._announced, self._take = file, announced, take
        self._size = 0

    def write(self, data: bytes) -> None:
        with told():
            self._size += len(data)
            self._take(len(data))
            write_all(self._file.fileno(), data)

    def close(self) -> None:
        if self._announced is not None and self._announced != self._size:
            raise DAVError(HTTPStatus.BAD_REQUEST, "the body is shorter than was announced")
