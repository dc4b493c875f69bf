"""`pit download`: a job's directory as one file, whole or not at all."""

import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import requests

from pit import output
from pit.exits import Exit
from pit.head import Head, Unreachable
from pit.opening import open_head
from pit.options import example, job_number, json_option
from pit.safe import safe
from pit_protocol.problem import Problem

STDOUT = "-"
MIB = 1024 * 1024
GZIP = 31  # zlib's name for a gzip header and trailer


@click.command("download", epilog=example("pit download 190 -o results.tar.gz"))
@click.argument("number", type=job_number)
@click.option(
    "-o", "--output", "target", metavar="FILE", help="Where to; - is stdout. Default: job-NUMBER.tar.gz"
)
@click.option("-f", "--force", is_flag=True, help="Overwrite FILE.")
@json_option
def command(number: int, target: str | None, force: bool, as_json: bool) -> Exit:
    """Download the directory of job NUMBER as .tar.gz archive.

    A transfer that breaks off leaves no file.
    """
    if target == STDOUT:
        if sys.stdout.isatty():
            raise Problem(
                "terminal", "an archive is nothing for a terminal", f"`pit download {number} -o - | tar tz`"
            )
        with open_head() as head:
            _pass_on(_archive(head, number))
        return Exit.DONE
    path = Path(target or f"job-{number}.tar.gz")
    _check_target(path, force)
    with open_head() as head:
        size = save(_archive(head, number), path, force=force)
    if as_json:
        output.show_json({"number": number, "file": str(path), "bytes": size})
    else:
        output.show(f"{safe(path)}: {size:,} bytes")
    return Exit.DONE


def save(chunks: Iterable[bytes], target: Path, *, force: bool) -> int:
    """Write `chunks` to `target`; a broken transfer leaves no half file behind."""
    partial = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as file, _progress(target.name) as advance:
            for chunk in chunks:
                file.write(chunk)
                advance(len(chunk))
            size = file.tell()
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
        raise Problem("file_exists", f"{path} is there already", "-f overwrites it, -o names another file")


def _archive(head: Head, number: int) -> Iterator[bytes]:
    with head.archive(number) as response:
        chunks = head.chunks(response)
        yield from chunks if _has_length(response) else _until_end_of_gzip(chunks)


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


@contextmanager
def _progress(name: str) -> Iterator[Callable[[int], None]]:
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress, SpinnerColumn, TextColumn, TransferSpeedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        transfer = progress.add_task(safe(name), total=None)
        yield lambda size: progress.advance(transfer, size)
