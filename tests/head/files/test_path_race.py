"""A directory that is swapped for a link again and again, while it is read and written."""

import ctypes
import errno
import io
import multiprocessing
import os
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from pit_protocol.problem import Problem
from pit_protocol.transport.tar_reader import FILE, Member
from pit_protocol.transport.tar_writer import header, padding, sealed
from pit_server.store.files import archive, rename, tar_extract
from pit_server.store.files.domain_files import Domain

RENAMEAT2, HERE, EXCHANGE = 316, -100, 2
READS, WRITES = 70_000, 30_000
TREES = 3_000  # of directories as tars, out and in

TAR = b"".join(sealed([header(Member("new", FILE, 0o644, 0, 0.0, "")), padding(0)]))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A domain with `sub`, and `link` to a directory outside that has the same names."""
    for name, text in (("domain/sub", "INSIDE"), ("outside", "SECRET")):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "file").write_text(text)
    (tmp_path / "domain" / "link").symlink_to("../outside")
    return tmp_path


def swap(one: bytes, other: bytes, begun: Event, enough: Event) -> None:
    libc = ctypes.CDLL(None)
    while not enough.is_set():
        for _ in range(100):
            libc.syscall(RENAMEAT2, HERE, one, HERE, other, EXCHANGE)
        begun.set()


@pytest.mark.threat("S48")
def test_no_read_and_no_write_escapes_in_a_hundred_thousand(place: Path) -> None:
    context = multiprocessing.get_context("spawn")
    begun, enough = context.Event(), context.Event()
    domain = place / "domain"
    swapped = (bytes(domain / "sub"), bytes(domain / "link"))
    swapper = context.Process(target=swap, args=(*swapped, begun, enough), daemon=True)
    swapper.start()
    try:
        assert begun.wait(120)
        with Domain(domain, "home") as files:
            found = [attempt_to_read(files) for _ in range(READS)]
            written = [attempt_to_write(files) for _ in range(WRITES)]
            trees = [attempt_to_download(files) for _ in range(TREES)]
            taken = [attempt_to_upload(files) for _ in range(TREES)]
    finally:
        enough.set()
        swapper.join(120)
    assert {text for text in found if text} == {b"INSIDE"}
    assert None in found  # else nobody raced
    assert any(written) and not all(written)
    assert any(b"INSIDE" in tree for tree in trees) and not any(b"SECRET" in tree for tree in trees)
    assert any(taken) and not all(taken)
    assert sorted(path.name for path in (place / "outside").iterdir()) == ["file"]


def attempt_to_read(files: Domain) -> bytes | None:
    try:
        with files.open_file("sub/file") as file:
            return file.read(16)
    except Problem:
        return None


def attempt_to_download(files: Domain) -> bytes:
    try:
        return b"".join(archive.tar_directory(files, "sub", "sub"))
    except Problem:
        return b""


def attempt_to_upload(files: Domain) -> bool:
    try:
        return bool(tar_extract.extract(files, "sub", io.BytesIO(TAR)))
    except Problem:
        return False


def attempt_to_write(files: Domain) -> bool:
    try:
        with files.replacing("sub/new", sync=False):
            return True
    except Problem:
        return False


def test_what_appears_while_something_is_restored_stays(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "domain" / "file").write_text("new")

    def absent(path: object, **_options: object) -> None:
        raise FileNotFoundError(path)  # as it was a moment ago

    with Domain(place / "domain", "home") as files:
        monkeypatch.setattr(os, "stat", absent)
        with pytest.raises(Problem, match="home file already exists"):
            files.move_in(place / "outside" / "file", "file")
    monkeypatch.undo()
    assert (place / "domain" / "file").read_text() == "new"
    assert (place / "outside" / "file").read_text() == "SECRET"


def test_a_file_system_that_cannot_move_without_replacing_is_checked_first(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(rename, "_rename_new", refuse)
    source, target = place / "outside" / "file", place / "domain" / "file"
    with pytest.raises(FileExistsError):
        rename.move_new(source, place / "domain" / "sub" / "file")
    rename.move_new(source, target)
    assert (source.exists(), target.read_text()) == (False, "SECRET")
