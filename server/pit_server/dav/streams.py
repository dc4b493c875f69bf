"""File contents that are sent and received with a promised length."""

from collections.abc import Callable
from http import HTTPStatus
from typing import BinaryIO

from wsgidav.dav_error import DAVError

from pit_protocol.atomic_file import write_all
from pit_server.dav.urls import problems_as_dav


class FixedLengthFile:
    """A file of which Content-Length was sent: if it shrinks while being read, the response is aborted."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.close = file.seek, file.close

    def read(self, size: int) -> bytes:
        if not (data := self._file.read(size)) and size:
            raise OSError("the file shrank while it was read")
        return data


class UploadBody:
    """The body of a PUT; it must have the announced length, or the file is not stored."""

    def __init__(self, file: BinaryIO, announced: int | None, take: Callable[[int], None]) -> None:
        """`take` counts the bytes and raises a Problem when they are too many."""
        self._file, self._announced, self._take = file, announced, take
        self._size = 0

    def write(self, data: bytes) -> None:
        with problems_as_dav():
            self._size += len(data)
            self._take(len(data))
            write_all(self._file.fileno(), data)

    def close(self) -> None:
        if self._announced is not None and self._announced != self._size:
            raise DAVError(HTTPStatus.BAD_REQUEST, "the body is shorter than announced")
