"""A file that is replaced in one step, with no more permissions than it may have."""

import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pit_protocol.atomic_file import sync_directory, write_all, write_atomic


def test_a_file_is_replaced_with_its_mode_and_nothing_is_left_over(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    file.chmod(0o644)
    write_atomic(file, "käse", sync=True)
    assert file.read_bytes() == "käse".encode()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["token"]


def test_threads_that_write_the_same_file_do_not_disturb_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_are_here = threading.Barrier(2)
    monkeypatch.setattr(os, "fsync", lambda _: both_are_here.wait(30))
    with ThreadPoolExecutor(2) as pool:
        for write in [pool.submit(write_atomic, tmp_path / "a", text, sync=True) for text in ("x", "y")]:
            write.result(30)
    assert (tmp_path / "a").read_text() in ("x", "y")
    assert os.listdir(tmp_path) == ["a"]


def test_a_leftover_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / f"a.{threading.get_native_id()}.part").symlink_to(tmp_path / "victim")
    write_atomic(tmp_path / "a", b"\xff", mode=0o644)
    assert (tmp_path / "a").read_bytes() == b"\xff"
    assert not (tmp_path / "victim").exists()


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError("disk full")

    (tmp_path / "a").write_text("old")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(tmp_path / "a", "new", sync=True)
    assert (tmp_path / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_what_a_write_leaves_over_is_written_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, bytes(data)[:2]))
    descriptor = os.open(tmp_path / "a", os.O_WRONLY | os.O_CREAT)
    write_all(descriptor, b"12345")
    os.close(descriptor)
    assert (tmp_path / "a").read_bytes() == b"12345"


def test_a_directory_is_synced_by_path_and_by_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    sync_directory(tmp_path)
    descriptor = os.open(tmp_path, os.O_PATH)
    sync_directory(descriptor)
    os.close(descriptor)
    assert synced == [tmp_path.stat().st_ino] * 2
