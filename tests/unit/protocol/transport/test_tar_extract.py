"""Archives of unknown trust: what is in them arrives exactly, and nothing lands outside."""

import io
import os
import stat
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pit_protocol.problem import Problem
from pit_protocol.transport.dirfd import DirectoryTree
from pit_protocol.transport.tar_extract import extract, extract_into
from pit_protocol.transport.tar_reader import DIRECTORY, FILE, LINK, Member
from pit_protocol.transport.tar_writer import ended, header, padding, sealed

Add = Callable[..., None]


def an_archive(fill: Callable[[Add], None], *, mode: str = "w", form: int = tarfile.PAX_FORMAT) -> bytes:
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode=mode, format=form, encoding="utf-8") as tar:  # type: ignore[call-overload]

        def add(name: str, content: bytes = b"", *, kind: bytes = tarfile.REGTYPE, **fields: object) -> None:
            info = tarfile.TarInfo(name)
            info.type, info.size = kind, len(content)
            for field, value in fields.items():
                setattr(info, field, value)
            tar.addfile(info, io.BytesIO(content))

        fill(add)
    return body.getvalue()


def in_pieces(body: bytes, size: int = 1000) -> Iterator[bytes]:
    for at in range(0, len(body), size):
        yield body[at : at + size]


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    """A directory to unpack into, beside one that must stay as it is."""
    place = tmp_path / "place"
    outside = place / "outside"
    outside.mkdir(parents=True)
    (outside / "victim").write_text("untouched")
    yield place / "target"
    assert [path.name for path in outside.iterdir()] == ["victim"]
    assert (outside / "victim").read_text() == "untouched"
    assert {path.name for path in place.iterdir()} <= {"outside", "target"}


@pytest.mark.parametrize("mode", ["w", "w:gz"])
@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_files_directories_and_links_arrive_as_they_were(target: Path, mode: str, form: int) -> None:
    long = "/".join(["a-rather-long-directory-name"] * 8)

    def fill(add: Add) -> None:
        add("job-7", kind=tarfile.DIRTYPE, mode=0o755)
        add("job-7/link", kind=tarfile.SYMTYPE, linkname="bin/run.sh")
        add("job-7/bin", kind=tarfile.DIRTYPE, mode=0o750, mtime=1_500_000_000)
        add("job-7/bin/run.sh", b"#!/bin/sh\n", mode=0o6755, mtime=1_600_000_000)
        add(f"job-7/{long}/data", bytes(range(256)) * 5000, mode=0o644)

    assert extract(in_pieces(an_archive(fill, mode=mode, form=form)), target, strip=1) == 4
    script = (target / "bin" / "run.sh").stat()
    assert (oct(script.st_mode & 0o7777), script.st_mtime) == ("0o755", 1_600_000_000)
    assert (target / "bin").stat().st_mtime == 1_500_000_000
    assert (target / "link").readlink() == Path("bin/run.sh")
    assert (target / long / "data").read_bytes() == bytes(range(256)) * 5000


@pytest.mark.parametrize(
    "name", [b"with blank", b"quo'te\"s", b"new\nline", b"esc\x1b[31m", b"latin-\xe9", "\U0001f40d".encode()]
)
@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_names_are_bytes(target: Path, name: bytes, form: int) -> None:
    body = an_archive(lambda add: add(name.decode("utf-8", "surrogateescape"), b"x"), form=form)
    extract([body], target)
    assert [os.fsencode(path.name) for path in target.iterdir()] == [name]


@pytest.mark.parametrize(
    "name", ["../outside/victim", "/tmp/planted-by-pit", "a/../../outside/victim", "a/.."]
)
def test_a_name_that_leads_elsewhere_is_refused(target: Path, name: str) -> None:
    with pytest.raises(Problem, match="wants to write"):
        extract([an_archive(lambda add: add(name, b"evil"))], target)


@pytest.mark.threat("S51")
def test_nothing_is_written_past_a_link_of_the_archive(target: Path) -> None:
    def fill(add: Add) -> None:
        add("door", kind=tarfile.SYMTYPE, linkname="../outside")
        add("door/victim", b"evil")

    with pytest.raises(Problem, match="is a directory"):
        extract([an_archive(fill)], target)


@pytest.mark.threat("S51")
def test_nothing_is_written_past_a_link_that_was_there(target: Path) -> None:
    target.mkdir()
    (target / "door").symlink_to("../outside")
    with pytest.raises(Problem, match="nothing is written past it"):
        extract([an_archive(lambda add: add("door/victim", b"evil"))], target)


def test_a_link_in_the_place_of_a_file_is_replaced_not_followed(target: Path) -> None:
    target.mkdir()
    (target / "file").symlink_to("../outside/victim")
    extract([an_archive(lambda add: add("file", b"new"))], target)
    assert not (target / "file").is_symlink()


def test_a_path_too_long_to_be_checked_is_no_way_out(target: Path) -> None:
    """CVE-2025-4517: behind links nested so deep that `realpath` gives up, `tarfile` writes outside."""
    part = "d" * 247
    steps = "abcdefghijklmnop"

    def fill(add: Add) -> None:
        path = ""
        for step in steps:
            add(f"{path}{part}", kind=tarfile.DIRTYPE)
            add(f"{path}{step}", kind=tarfile.SYMTYPE, linkname=part)
            path += f"{part}/"
        link = "/".join(steps) + "/" + "l" * 254
        add(link, kind=tarfile.SYMTYPE, linkname="../" * len(steps))
        add("escape", kind=tarfile.SYMTYPE, linkname=f"{link}/../outside")
        add("escape/victim", b"evil")

    with pytest.raises((Problem, OSError)):
        extract([an_archive(fill)], target)


@pytest.mark.parametrize("kind", [tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
@pytest.mark.threat("S51")
def test_hard_links_devices_and_pipes_are_refused(target: Path, kind: bytes) -> None:
    with pytest.raises(Problem, match="neither file, directory nor link"):
        extract([an_archive(lambda add: add("odd", kind=kind, linkname="../outside/victim"))], target)
    assert not (target / "odd").exists()


@pytest.mark.parametrize("left", [100, 700, 1800])
def test_an_archive_that_breaks_off_leaves_no_half_file(target: Path, left: int) -> None:
    body = an_archive(lambda add: add("file", b"x" * 5000))
    with pytest.raises(Problem, match="it is truncated"):
        extract([body[:left]], target)
    assert list(target.iterdir()) == []


def test_what_is_there_stays_unless_it_may_be_overwritten(target: Path) -> None:
    target.mkdir()
    (target / "file").write_text("old")
    body = an_archive(lambda add: add("file", b"new"))
    with pytest.raises(Problem, match="already exists"):
        extract([body], target, overwrite=False)
    assert (target / "file").read_text() == "old"


def test_a_seal_that_is_not_that_of_the_content_is_refused(target: Path) -> None:
    members = [Member("file", FILE, 0o644, 7, 0.0, ""), Member("ü" * 120, LINK, 0o777, 0, 0.0, "t" * 300)]
    body = b"".join(sealed([header(members[0]) + b"content" + padding(7), header(members[1])]))
    with tarfile.open(fileobj=io.BytesIO(body)) as tar:  # others can read it, too
        assert tar.getnames() == ["file", "ü" * 120, "."]
    assert extract(in_pieces(body, 7), target) == 2
    with pytest.raises(Problem, match="its hash does not match"):
        extract([body.replace(b"content", b"CONTENT")], target)


def test_a_damaged_header_is_refused(target: Path) -> None:
    body = bytearray(an_archive(lambda add: add("file", b"content")))
    body[3] ^= 1
    with pytest.raises(Problem, match="damaged"):
        extract([bytes(body)], target)


def test_a_directory_nested_deeper_than_python_recurses(target: Path) -> None:
    deep = "/".join(["d"] * 1500)
    extract([an_archive(lambda add: add(f"{deep}/file", b"x"))], target)
    place = os.open(target, os.O_RDONLY)
    for _ in range(1500):
        place, above = os.open("d", os.O_RDONLY, dir_fd=place), place
        os.close(above)
    with os.scandir(place) as found:
        assert [entry.name for entry in found] == ["file"]
    os.close(place)
    subprocess.run(["rm", "-rf", str(target)], check=True)  # too deep for pytest


@pytest.mark.parametrize(
    "headers",
    [
        {"size": "-512"},
        {"size": "x"},
        {"mtime": "nan"},
        {"mtime": "inf"},
        {"mtime": "-1"},
        {"path": "x" * 600_000},
    ],
)
def test_numbers_and_names_beyond_all_bounds_are_refused(target: Path, headers: dict[str, str]) -> None:
    body = an_archive(lambda add: add("file", b"x", pax_headers=headers))
    with pytest.raises(Problem, match="the archive cannot be trusted"):
        extract([body], target)


def test_a_record_without_length_in_a_header_is_refused(target: Path) -> None:
    records = b"0 path=elsewhere\n"  # skipping no bytes, a reader would read it again and again
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, len(records)
    body = header.tobuf(tarfile.USTAR_FORMAT) + records.ljust(512, b"\0")
    with pytest.raises(Problem, match="an extended header is damaged"):
        extract([body], target)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.integers(0, 10_239), st.integers(0, 255)), max_size=6))
def test_any_damage_is_at_most_a_problem(target: Path, changes: list[tuple[int, int]]) -> None:
    def fill(add: Add) -> None:
        add("a/b", b"x" * 700)
        add("ü" * 120, b"y")
        add("a/link", kind=tarfile.SYMTYPE, linkname="b")

    body = bytearray(an_archive(fill))
    for place, value in changes:
        body[place % len(body)] = value
    with suppress(Problem, OSError):  # a name may be too long, or a directory in the way
        extract([bytes(body)], target)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_all_that_is_made_belongs_to_the_owner_of_the_tree(target: Path) -> None:
    target.mkdir(exist_ok=True)
    members = [("deep/er/file", FILE, 0o640), ("made", DIRECTORY, 0o750), ("link", LINK, 0o777)]
    pieces = [header(Member(name, kind, mode, 0, 0.0, "file")) for name, kind, mode in members]
    with DirectoryTree.at(target, owner=(1234, 5678)) as tree:
        assert extract_into(tree, sealed(pieces), keep_modes=True, must_be_sealed=True) == 3
    made = [target / name for name in ("deep", "deep/er", "deep/er/file", "made", "link")]
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in made} == {(1234, 5678)}
    assert [stat.S_IMODE(path.lstat().st_mode) for path in made[:4]] == [0o700, 0o700, 0o640, 0o750]


def test_an_archive_without_its_hash_is_refused_where_one_is_due(target: Path) -> None:
    target.mkdir(exist_ok=True)
    with DirectoryTree.at(target) as tree, pytest.raises(Problem, match="no hash at its end"):
        extract_into(tree, ended([header(Member("file", FILE, 0o644, 0, 0.0, ""))]), must_be_sealed=True)


@pytest.mark.threat("S51")
@pytest.mark.parametrize("name", [".git", ".git/config", "sub/.GIT/hooks/post-checkout"])
def test_a_refused_name_is_not_written_in_any_case_or_place(target: Path, name: str) -> None:
    body = an_archive(lambda add: add(name, b"evil"))
    with pytest.raises(Problem, match="wants to write to"):
        extract(in_pieces(body), target, refused=".git")
    assert list(target.iterdir()) == []
