"""A file as a response: whole, a range of it, or 304 if the client has it already."""

import os
from datetime import UTC, datetime
from typing import BinaryIO

from flask import Response, request
from werkzeug.exceptions import RequestedRangeNotSatisfiable
from werkzeug.http import http_date
from werkzeug.wsgi import wrap_file

BLOCK = 256 * 1024
STALLED_S = 20.0


class Slice:
    """`size` bytes of a file from its current position; has a `fileno`, so that the kernel can send them."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._left = file, size
        self.fileno = file.fileno
        self.close = file.close

    def read(self, size: int) -> bytes:
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        return data


def set_stall_timeout() -> None:
    """Time out a client that neither reads nor sends for a while, to free its thread."""
    if sock := request.environ.get("gunicorn.socket"):
        sock.settimeout(STALLED_S)  # gunicorn resets it for the next request


def etag_of(file: BinaryIO) -> str:
    """An ETag that changes whenever the file does."""
    status = os.fstat(file.fileno())
    return f'"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}"'


def send(file: BinaryIO) -> Response:
    """Respond with the file, and close it after sending."""
    set_stall_timeout()
    try:
        status, etag = os.fstat(file.fileno()), etag_of(file)
        modified = datetime.fromtimestamp(int(status.st_mtime), UTC)
        headers = {
            "ETag": etag,
            "Last-Modified": http_date(modified),
            "Accept-Ranges": "bytes",
            "Content-Disposition": "attachment",
            "X-Content-Type-Options": "nosniff",
        }
        if _is_cached(etag, modified):
            file.close()
            return Response(status=304, headers=headers)
        start, stop = _range(status.st_size, etag, modified)
        is_part = (start, stop) != (0, status.st_size)
        if is_part:
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{status.st_size}"
        headers["Content-Length"] = str(stop - start)
        file.seek(start)
    except BaseException:
        file.close()
        raise
    body = wrap_file(request.environ, Slice(file, stop - start), BLOCK)  # type: ignore[arg-type]
    mimetype = "application/octet-stream"
    code = 206 if is_part else 200
    return Response(body, code, headers, mimetype=mimetype, direct_passthrough=True)


def _is_cached(etag: str, modified: datetime) -> bool:
    if request.if_none_match:
        return request.if_none_match.contains_weak(etag.strip('"'))
    return request.if_modified_since is not None and modified <= request.if_modified_since


def _range(size: int, etag: str, modified: datetime) -> tuple[int, int]:
    """The requested range; the whole file for several ranges or if the file has changed."""
    wanted, known = request.range, request.if_range
    if wanted is None or wanted.units != "bytes" or len(wanted.ranges) != 1:
        return 0, size
    if known.etag is not None and known.etag != etag.strip('"'):
        return 0, size
    if known.date is not None and known.date != modified:
        return 0, size
    found = wanted.range_for_length(size)
    if found is None:
        raise RequestedRangeNotSatisfiable(size)
    return found
