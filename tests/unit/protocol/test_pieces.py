"""Streams on disk of which the beginning and the end are kept."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pit_protocol.system import pieces
from pit_protocol.system.pieces import Pieces

KEEP = 80


def make(folder: Path) -> Pieces:
    return Pieces(str(folder / "output"), str(folder / "output."))


def on_disk(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


@given(st.lists(st.integers(1, 50), max_size=40))
def test_beginning_and_end_are_kept_and_every_byte_has_its_offset(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("stream")
    stream, whole = make(folder), b""
    for size in sizes:
        data = bytes((len(whole) + i) % 251 for i in range(size))
        stream.append(data, len(whole), KEEP)
        whole += data
        start, end = stream.gap() or (len(whole), len(whole))
        assert stream.size() == len(whole)
        assert stream.pread(0, 10_000) == whole[:start]
        assert stream.pread(end, 10_000) == whole[end:]
        assert stream.pread((start + end) // 2, 10) == whole[end : end + 10] * (start == end)
        assert on_disk(folder) <= KEEP
        assert start == len(whole) or (start == KEEP / 8 and len(whole) - end >= KEEP * 6 / 8)


def test_without_a_limit_everything_is_kept(tmp_path: Path) -> None:
    stream = make(tmp_path)
    for offset in range(0, 1000, 100):
        stream.append(b"x" * 100, offset, 0)
    assert (stream.size(), stream.gap(), len(stream.pread(0, 2000))) == (1000, None, 1000)


def test_after_bytes_that_never_come_a_new_end_begins(tmp_path: Path) -> None:
    stream = make(tmp_path)
    stream.append(b"beginning", 0, 0)
    stream.append(b"lost later", 20, 0)
    stream.append(b"end", 50, 0)
    assert (stream.gap(), stream.size(), stream.pread(50, 9)) == ((9, 50), 53, b"end")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["output", "output.50"]


def test_the_program_copies_its_input_and_keeps_both_ends(tmp_path: Path) -> None:
    data = b"".join(b"%7d\n" % number for number in range(100_000))
    command = [sys.executable, "-I", "-S", pieces.__file__, str(tmp_path / "output"), str(64 * 1024)]
    subprocess.run(command, input=data, check=True)
    stream = make(tmp_path)
    start, end = stream.gap() or (0, 0)
    assert (start, stream.size()) == (8 * 1024, len(data))
    assert stream.pread(end, len(data)) == data[end:]
    assert on_disk(tmp_path) <= 64 * 1024


def test_a_full_disk_drops_bytes_and_not_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = iter([b"one", b"two", b"three", b"four", b""])
    is_full = iter([False, True, False, True])
    write = pieces.write_end

    def write_if_there_is_space(path: str, data: memoryview) -> None:
        if next(is_full):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, data)

    monkeypatch.setattr(os, "read", lambda *_: next(blocks))
    monkeypatch.setattr(pieces, "write_end", write_if_there_is_space)
    pieces.main(str(tmp_path / "output"), 0)
    stream = make(tmp_path)
    assert (stream.pread(0, 9), stream.size()) == (b"one", len(b"onetwothreefour"))
