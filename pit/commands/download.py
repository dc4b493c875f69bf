"""`pit download`: a job's directory as one file, whole or not at all."""

import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import click
import requests

from pit.args.options import LAST, example, job_argument, json_option
from pit.exit_codes import Exit
from pit.head.client import Head
from pit.head.http_session import Unreachable
from pit.head.latest import find_number
from pit.head.retry import with_retry
from pit.login.session import open_head
from pit.snapshot.exclude import leaving_out
from pit.transfer.pull import check_place
from pit.ui import output
from pit.ui.documents import Download, shown_number
from pit.ui.progress import bars, hint_on_interrupt
from pit.ui.sanitize import sanitize
from pit_protocol.arrays.numbers import job_name
from pit_protocol.problem import Problem

STDOUT = "-"
MIB = 1024 * 1024
GZIP = 31  # zlib's name for a gzip header and trailer


@click.command("download", epilog=example("pit download 190 -o results.tar.gz"))
@job_argument()
@click.option(
    "-o",
    "--output",
    "target",
    metavar="FILE",
    help="Output file, or - for stdout. Default: job-NUMBER.tar.gz",
)
@click.option("-f", "--force", is_flag=True, help="Overwrite FILE.")
@json_option
def command(number: int, target: str | None, force: bool, as_json: bool) -> Exit:
    """Download the directory of job NUMBER and its log as a .tar.gz archive.

    The files are below job-NUMBER/, the log is job-NUMBER.log.

    Resumes after a broken connection. A failed transfer leaves no file. A FILE inside a project is
    added to its .git/info/exclude, so that git and the next `pit run` ignore it.
    """
    if target == STDOUT and sys.stdout.isatty():
        raise Problem(
            "terminal",
            "refusing to write an archive to a terminal",
            f"use -o FILE, or `pit download {job_name(number) if number else LAST} -o - | tar tz`",
        )
    with open_head() as head:
        number = find_number(head, number)
        if target == STDOUT:
            _pass_on(_archive(head, number))
            return Exit.DONE
        path = Path(target or f"job-{job_name(number)}.tar.gz")
        _check_target(path, force)
        with leaving_out([path]), hint_on_interrupt(f"{path} was not written"):
            size = save(lambda offset: _archive(head, number, offset), path, force=force)
    if as_json:
        output.show_json(Download(shown_number(number), str(path), size))
    else:
        output.show(f"{sanitize(path)}: {size:,} bytes")
    return Exit.DONE


def save(fetch: Callable[[int], Iterable[bytes]], target: Path, *, force: bool) -> int:
    """Write what is fetched to `target`, and resume after a broken connection.

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
                for chunk in fetch(file.tell()):
                    file.write(chunk)
                    bar.advance(len(chunk))

            with_retry(go_on, file.tell)
            if tries > 1 and not _is_whole(file):
                # The directory changed between the two parts: they do not fit together.
                file.seek(0)
                file.truncate()
                go_on()
            size = file.seek(0, os.SEEK_END)
        _check_target(target, force)
        partial.replace(target)
    except Unreachable as problem:
        raise Problem(
            problem.code, f"the transfer broke off: {problem.message}", f"{target} was not written; try again"
        ) from problem
    finally:
        partial.unlink(missing_ok=True)
    return size


def _check_target(path: Path, force: bool) -> None:
    if path.is_dir():
        raise Problem("is_directory", f"{path} is a directory", f"write -o {path}/FILE")
    if path.exists() and not force:
        raise Problem("file_exists", f"{path} already exists", "-f overwrites it, -o names another file")
    check_place(path)


def _archive(head: Head, number: int, offset: int = 0) -> Iterator[bytes]:
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
            raise Unreachable("broken_archive", "the head sent something that is no archive") from None
        yield chunk
    if not reader.eof:
        raise Unreachable("broken_archive", "the archive has no end")


def _pass_on(chunks: Iterable[bytes]) -> None:
    stdout = sys.stdout.buffer
    try:
        for chunk in chunks:
            stdout.write(chunk)
        stdout.flush()
    except Unreachable as problem:
        raise Problem(
            problem.code, f"the transfer broke off: {problem.message}", "stdout got only a part"
        ) from problem
