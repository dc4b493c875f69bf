"""A domain's files: everything below its directory, and nothing from outside (S47, S49)."""

import os
import socket
from pathlib import Path

import pytest

from pit_protocol.problem import Problem
from pit_server.store.files import openat
from pit_server.store.files.domain_files import Domain, Kind, Ownership, parse_path

ODD_NAMES = (
    b"with blank",
    b"quo'te\"s",
    b"new\nline",
    "emoji \U0001f40d".encode(),
    b"latin-\xe9",
    b"-rf",
    b"*",
)


@pytest.fixture(params=["openat2", "walk"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the kernel's help, and as on kernels that have none."""
    chosen = openat.ask_kernel if request.param == "openat2" else openat.walk
    monkeypatch.setattr(openat, "resolve", chosen)
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path, way: str) -> Path:
    (tmp_path / "secret").write_text("SECRET")
    folder = tmp_path / "domain"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "file").write_bytes(b"content")
    return folder


def read(folder: Path, path: str) -> bytes:
    with Domain(folder, "home") as domain, domain.open_file(path) as file:
        return file.read()


def refused(folder: Path, path: str) -> Problem:
    with pytest.raises(Problem) as caught:
        read(folder, path)
    return caught.value


def test_a_file_is_read(folder: Path) -> None:
    assert read(folder, "sub/file") == b"content"


@pytest.mark.parametrize(
    "raw",
    [
        b"../secret",
        b"sub/../../secret",
        b"/etc/passwd",
        b"sub//file",
        b"./sub",
        b"a\0b",
        b"x" * 5000,
        b"y" * 256,
        b"..",
    ],
)
@pytest.mark.threat("S47")
def test_an_invalid_path_is_refused(raw: bytes) -> None:
    with pytest.raises(Problem) as caught:
        parse_path(raw)
    assert caught.value.status == 422


def test_a_trailing_slash_names_the_directory_itself() -> None:
    assert parse_path(b"sub/") == "sub"


@pytest.mark.parametrize(
    "target", ["../secret", "/etc/passwd", "sub/../../secret", "/proc/self/root/etc/passwd"]
)
def test_a_link_that_leads_out_is_not_followed(folder: Path, target: str) -> None:
    (folder / "link").symlink_to(target)
    assert refused(folder, "link").status == 404


def test_a_linked_directory_that_leads_out_is_not_passed(folder: Path) -> None:
    (folder / "up").symlink_to("..")
    assert refused(folder, "up/secret").status == 404
    with Domain(folder, "home") as domain, pytest.raises(Problem), domain.replacing("up/planted") as file:
        file.write(b"x")
    assert not (folder.parent / "planted").exists()


def test_a_link_that_stays_below_is_followed_where_the_kernel_can(folder: Path, way: str) -> None:
    (folder / "link").symlink_to("sub/file")
    if way == "openat2":
        assert read(folder, "link") == b"content"
    else:
        assert refused(folder, "link").status == 404


def test_a_link_is_listed_as_a_link(folder: Path) -> None:
    (folder / "link").symlink_to("/etc/passwd")
    with Domain(folder, "home") as domain:
        link, sub = list(domain.entries(""))
    assert (link.kind, link.target, sub.kind) == (Kind.LINK, "/etc/passwd", Kind.DIRECTORY)


@pytest.mark.threat("S49")
def test_what_is_no_file_is_not_opened_and_does_not_hang(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(folder / "pipe")
    monkeypatch.chdir(folder)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
    assert refused(folder, "pipe").code == "no_file"
    assert refused(folder, "socket").code == "no_file"
    assert refused(folder, "sub").code == "is_directory"
    with Domain(folder, "home") as domain:
        assert [entry.kind for entry in domain.entries("")] == [Kind.OTHER, Kind.OTHER, Kind.DIRECTORY]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_are_bytes(folder: Path, name: bytes) -> None:
    path = parse_path(b"sub/" + name)
    with Domain(folder, "home") as domain:
        with domain.replacing(path) as file:
            file.write(b"odd")
        assert name in {os.fsencode(entry.name) for entry in domain.entries("sub")}
    assert read(folder, path) == b"odd"


def test_a_replacement_that_fails_leaves_what_was_there(folder: Path) -> None:
    with (
        Domain(folder, "home") as domain,
        pytest.raises(RuntimeError),
        domain.replacing("sub/file") as file,
    ):
        file.write(b"half")
        raise RuntimeError
    assert read(folder, "sub/file") == b"content"
    assert [path.name for path in (folder / "sub").iterdir()] == ["file"]


def test_a_link_is_replaced_itself_and_not_what_it_leads_to(folder: Path) -> None:
    (folder / "link").symlink_to("../secret")
    with Domain(folder, "home") as domain, domain.replacing("link") as file:
        file.write(b"new")
    assert not (folder / "link").is_symlink()
    assert (folder.parent / "secret").read_text() == "SECRET"


def test_directories_are_made_with_those_above(folder: Path) -> None:
    with Domain(folder, "home") as domain:
        domain.make_directory("a/b/c", parents=True)
        domain.make_directory("a/b/c", parents=True)
        with pytest.raises(Problem) as caught:
            domain.make_directory("a/b")
    assert (folder / "a" / "b" / "c").is_dir()
    assert caught.value.status == 409


def test_the_domain_itself_is_neither_removed_nor_replaced(folder: Path) -> None:
    with Domain(folder, "home") as domain:
        with pytest.raises(Problem) as caught:
            domain.remove("")
        assert caught.value.status == 422
        domain.rename("sub/file", "moved")
        domain.remove("sub")
    assert [path.name for path in folder.iterdir()] == ["moved"]


@pytest.mark.skipif(os.geteuid() != 0, reason="to give files away takes root")
def test_what_is_written_belongs_to_whom_it_is_for(folder: Path) -> None:
    members = Ownership(uid=200_001, gid=300_001, file_mode=0o660, directory_mode=0o2770)
    with Domain(folder, "group:lab", members) as domain:
        domain.make_directory("new")
        with domain.replacing("new/run.sh", mode=0o755) as file:
            file.write(b"#!/bin/sh\n")
    made, script = (folder / "new").stat(), (folder / "new" / "run.sh").stat()
    assert (made.st_uid, made.st_gid, oct(made.st_mode & 0o7777)) == (200_001, 300_001, "0o2770")
    assert (script.st_uid, script.st_gid, oct(script.st_mode & 0o7777)) == (200_001, 300_001, "0o770")
