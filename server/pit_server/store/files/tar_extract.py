"""Extracting many small files from an untrusted tar stream into a domain."""

import os
from collections.abc import Callable, Iterator

from pit_protocol.atomic_file import write_all
from pit_protocol.problem import Problem
from pit_protocol.transport.tar_reader import DIRECTORY, FILE, LINK, TarReader
from pit_server.store.files.domain_files import Domain, parse_path
from pit_server.store.files.upload_parts import Readable

BLOCK = 256 * 1024


def extract(
    domain: Domain, path: str, body: Readable, add_file: Callable[[], None] = lambda: None
) -> tuple[int, int]:
    """Write the entries below `path` to disk, each file whole or absent; returns their number and bytes.

    `add_file` is called for each, and raises a Problem when there are too many.
    An archive without its hash is truncated, and a Problem: what came before stays.
    """
    count = size = 0
    reader = TarReader(_chunks(body))
    made: set[str] = set()
    for member in reader.members():
        target = "/".join(filter(None, (path, _path(member.name))))
        add_file()
        if member.kind == DIRECTORY:
            _make(domain, target, made)
        elif member.kind in (FILE, LINK):
            _make(domain, target.rpartition("/")[0], made)
            count += 1
            size += member.size
            if member.kind == LINK:
                domain.make_link(target, member.target)
                continue
            with (
                domain.replacing(target, mode=member.mode, sync=False) as file,
                domain.translate_errors(target),
            ):
                for piece in reader.pieces(member.size):
                    write_all(file.fileno(), piece)
                os.utime(file.fileno(), (member.mtime, member.mtime))
        else:
            raise Problem("bad_archive", "only files, directories and links are taken", status=422)
    if not reader.is_sealed:
        raise Problem("bad_archive", "the archive is truncated", "send it again", status=422)
    domain.sync()
    return count, size


def _path(name: str) -> str:
    """The path of an entry below the target; `.` is the target itself."""
    return "" if name in (".", "./") else parse_path(os.fsencode(name.removeprefix("./")))


def _make(domain: Domain, path: str, made: set[str]) -> None:
    if path and path not in made:
        domain.make_directory(path, parents=True)
        made.add(path)


def _chunks(body: Readable) -> Iterator[bytes]:
    while data := body.read(BLOCK):
        yield data
