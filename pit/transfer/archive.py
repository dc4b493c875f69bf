"""A job's directory as one file, whole or not at all."""

import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import requests

from pit.head.client import Head
from pit.head.http_session import Unreachable
from pit.head.retry import with_retry
from pit.transfer.pull import check_place
from pit.ui.progress import bars
from pit_protocol.problem import Problem

MIB = 1024 * 1024
GZIP = 31  # zlib's name for a gzip header and trailer


def save(head: Head, number: int, target: Path, *, force: bool) -> int:
    """Write a job's directory and log to `target`, and resume after a broken connection; returns its size.

    A failed transfer leaves no partial file.
    """
    partial = target.with_name(f"{target.name}.{os.getpid()}.part")
    # A link of that name may come from pulled files: remove it, and never write through it.
    partial.unlink(missing_ok=True)
    try:
        with partial.open("x+b") as file, bars() as shown:
            bar = shown.begin(target.name)
            tries = 0

            def go_on() -> None:
                nonlocal tries
                tries += 1
                for chunk in read(head, number, file.tell()):
                    file.write(chunk)
                    bar.advance(len(chunk))

            with_retry(go_on, file.tell)
            if tries > 1 and not _is_whole(file):
                # The directory changed between the two parts: they do not fit together.
                file.seek(0)
                file.truncate()
                go_on()
            size = file.seek(0, os.SEEK_END)
        check_target(target, force)
        partial.replace(target)
    except Unreachable as problem:
        raise Problem(
            problem.code, f"the transfer broke off: {problem.message}", f"{target} was not written; try again"
        ) from problem
    finally:
        partial.unlink(missing_ok=True)
    return size


def check_target(path: Path, force: bool) -> None:
    if path.is_dir():
        raise Problem("is_directory", f"{path} is a directory", f"write -o {path}/FILE")
    if path.exists() and not force:
        raise Problem("file_exists", f"{path} already exists", "-f overwrites it, -o names another file")
    check_place(path)


def read(head: Head, number: int, offset: int = 0) -> Iterator[bytes]:
    """The bytes of the archive."""
    with head.archive(number, offset) as response:
        chunks = head.chunks(response)
        # A resumed archive is checked as a whole, when all of it is here.
        yield from chunks if offset or _has_length(response) else _until_end_of_gzip(chunks)


def _is_whole(file: BinaryIO) -> bool:
    """Whether a file is one gzip stream with the checksum that it ends with."""
    file.seek(0)
    try:
        for _ in _until_end_of_gzip(iter(lambda: file.read(MIB), b"")):
            pass
    except Unreachable:
        return False
    return True


def _has_length(response: requests.Response) -> bool:
    return "Content-Length" in response.headers or response.headers.get("Transfer-Encoding") == "chunked"


def _until_end_of_gzip(chunks: Iterable[bytes]) -> Iterator[bytes]:
    # Without a length, the end of the connection looks the same as the end of the archive.
    reader = zlib.decompressobj(GZIP)
    for chunk in chunks:
        rest = chunk
        try:
            while rest and not reader.eof:
                reader.decompress(rest, MIB)
                rest = reader.unconsumed_tail
        except zlib.error:
            raise Unreachable("broken_archive", "the head sent something that is not an archive") from None
        yield chunk
    if not reader.eof:
        raise Unreachable("broken_archive", "the archive has no end")
