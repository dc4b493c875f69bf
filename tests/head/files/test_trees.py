"""Walking, copying and deleting directories that others change meanwhile: by descriptor, at any depth."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pit_protocol.problem import Problem
from pit_protocol.system.tree_delete import delete
from pit_server import cancellation
from pit_server.services.files import unix_ids
from pit_server.store.files import archive, listing, tree_copy, tree_walk
from pit_server.store.files.disk_usage import measure
from pit_server.store.files.domain_files import Domain
from pit_server.store.files.tree_copy import copy_tree
from pit_server.store.files.tree_walk import walk
from tests.support.deep_directory import LEVELS, make_deep


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    folder = tmp_path / "secret"
    folder.mkdir()
    (folder / "file").write_text("S3CRET")
    return folder


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    yield make_deep(tmp_path / "deep")
    assert delete(tmp_path / "deep")


def test_depth_stops_neither_measuring_nor_owning_nor_deleting(deep: Path) -> None:
    assert measure(deep)[1] == LEVELS + 1
    unix_ids._chown_all(deep, os.geteuid(), os.getegid())
    assert delete(deep)
    assert not deep.exists()


def test_depth_costs_a_listing_and_an_archive_no_descriptors(deep: Path) -> None:
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = open_files()
    with Domain(deep, "home") as domain:
        listed = [open_files() for _ in listing.walk(domain, "", recursive=True)]
        matched = [open_files() for _ in listing.match(domain, "", "**/file")]
    assert (len(listed), len(matched)) == (LEVELS + 1, 1)
    assert max(*listed, *matched, *(open_files() for _ in archive.stream(deep, "job-7"))) < before + 10
    assert open_files() == before


def test_a_copy_of_many_levels_is_refused(deep: Path, tmp_path: Path) -> None:
    with pytest.raises(Problem) as refused:
        copy_tree(deep, tmp_path / "copy")
    assert refused.value.code == "too_deep"
    assert delete(tmp_path / "copy")


def test_a_walk_visits_everything_once_and_follows_no_link(tmp_path: Path, secret: Path) -> None:
    top = tmp_path / "top"
    for path in ("a/b/c", "a/d", "e"):
        (top / path).mkdir(parents=True)
    (top / "a" / "b" / "file").touch()
    (top / "link").symlink_to(secret)
    found = {"/".join([*visit.parts, name]) for visit in walk(top) for name, _ in visit.entries}
    assert found == {"a", "a/b", "a/b/c", "a/b/file", "a/d", "e", "link"}


@pytest.mark.threat("S48")
def test_a_directory_that_is_moved_out_during_a_walk_does_not_lead_out(tmp_path: Path, secret: Path) -> None:
    top = tmp_path / "top"
    (top / "a" / "b").mkdir(parents=True)
    (top / "z").mkdir()
    seen = []
    for visit in walk(top):
        seen.append("/".join(visit.parts))
        if seen[-1] == "a/b":
            # The way up from here is now another directory.
            os.rename(top / "a" / "b", secret / "b")
            (top / "a").rmdir()
    assert sorted(seen) == ["", "a", "a/b", "z"]


@pytest.mark.threat("S48")
def test_a_file_that_becomes_a_link_during_a_copy_is_not_read(
    tmp_path: Path, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    (source / "folder").mkdir(parents=True)
    (source / "file").write_text("own")
    (source / "folder" / "file").write_text("own")

    def swap_first(copy_entries: Callable[..., None]) -> Callable[..., None]:
        """What a process that is still alive may do between the look and the copy."""

        def copy(visit: tree_walk.Visit, tree: object) -> None:
            if not visit.parts:
                (source / "file").unlink()
                (source / "file").symlink_to(secret / "file")
                os.rename(source / "folder", source / "away")
                (source / "folder").symlink_to(secret)
            copy_entries(visit, tree)

        return copy

    monkeypatch.setattr(tree_copy, "_copy_entries", swap_first(tree_copy._copy_entries))
    copy_tree(source, tmp_path / "copy")
    assert [path for path in (tmp_path / "copy").rglob("*") if "S3CRET" in path.read_text()] == []


@pytest.mark.threat("S49")
def test_a_copy_keeps_modes_times_links_and_holes_and_leaves_pipes_out(tmp_path: Path) -> None:
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.mkdir()
    (source / "run").write_text("x")
    (source / "run").chmod(0o4755)
    os.utime(source / "run", (1, 2))
    (source / "link").symlink_to("/etc/passwd")
    os.mkfifo(source / "pipe")
    with (source / "sparse").open("wb") as file:
        file.seek(2**40)
        file.write(b"end")
    copy_tree(source, copy)
    assert sorted(path.name for path in copy.iterdir()) == ["link", "run", "sparse"]
    status = (copy / "run").stat()
    assert (stat.S_IMODE(status.st_mode), status.st_mtime) == (0o755, 2)
    assert str((copy / "link").readlink()) == "/etc/passwd"
    sparse = (copy / "sparse").stat()
    assert sparse.st_size == 2**40 + 3
    assert sparse.st_blocks * 512 < 2**20
    with (copy / "sparse").open("rb") as file:
        file.seek(2**40)
        assert file.read() == b"end"


def test_a_copy_and_a_walk_stop_when_nobody_wants_them(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "folder").mkdir(parents=True)
    (source / "file").write_bytes(b"x")
    with cancellation.limited(0.0, lambda: True, "the copy", ""), pytest.raises(cancellation.Cancelled):
        copy_tree(source, tmp_path / "copy")
    with cancellation.limited(0.0, lambda: True, "the walk", ""), pytest.raises(cancellation.Cancelled):
        measure(source)


def test_a_deletion_follows_no_link(tmp_path: Path, secret: Path) -> None:
    top = tmp_path / "top"
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "link").symlink_to(secret)
    (top / "a" / "b" / "link").symlink_to(secret, target_is_directory=True)
    assert delete(top)
    assert not top.exists()
    assert (secret / "file").read_text() == "S3CRET"
    link = tmp_path / "link"
    link.symlink_to(secret)
    assert delete(link)
    assert (secret / "file").exists() and not link.is_symlink()
    assert delete(tmp_path / "nothing" / "here")
