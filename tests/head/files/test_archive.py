"""A job's directory as an archive: all that is in it, and nothing from outside."""

import io
import os
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pit_server.store.files import archive
from tests.support.clusters.head import Person, Worker


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    return folder


def packed(folder: Path) -> bytes:
    return b"".join(archive.stream(folder, "job-7"))


@contextmanager
def opened(body: bytes) -> Iterator[tarfile.TarFile]:
    with tarfile.open(fileobj=io.BytesIO(body), mode="r:gz") as tar:
        yield tar


def names(body: bytes) -> list[str]:
    with opened(body) as tar:
        return tar.getnames()


def content(body: bytes, name: str) -> bytes:
    with opened(body) as tar:
        file = tar.extractfile(name)
        assert file is not None
        with file:
            return file.read()


def test_what_is_extracted_is_what_was_there(folder: Path, tmp_path: Path) -> None:
    files = {
        "src/.compute": b"echo\n",
        "src/deep/er/empty": b"",
        "keep/big": os.urandom(700_001),
        "keep/exact": b"x" * 512,
        "result": b"0.25\n",
    }
    for name, body in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)
    (folder / "src/.compute").chmod(0o4755)
    (folder / "keep/void").mkdir()
    (tmp_path / "out").mkdir()
    subprocess.run(["tar", "-xz", "-C", str(tmp_path / "out")], input=packed(folder), check=True)
    out = tmp_path / "out/job-7"
    assert {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()} == files
    assert (out / "keep/void").is_dir()
    assert (out / "src/.compute").stat().st_mode & 0o7777 == 0o755


def test_an_empty_directory_is_an_archive_of_one_entry(folder: Path) -> None:
    assert names(packed(folder)) == ["job-7"]


def test_a_link_stays_a_link(folder: Path) -> None:
    (folder / "passwd").symlink_to("/etc/passwd")
    (folder / "etc").symlink_to("/etc")
    (folder / "broken").symlink_to("nowhere")
    with opened(packed(folder)) as tar:
        links = {member.name: member.linkname for member in tar.getmembers() if member.issym()}
    assert links == {"job-7/broken": "nowhere", "job-7/etc": "/etc", "job-7/passwd": "/etc/passwd"}


@pytest.mark.threat("S49")
def test_what_is_neither_file_nor_directory_nor_link_is_left_out(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "z").write_bytes(b"z")
    assert names(packed(folder)) == ["job-7", "job-7/z"]


def test_names_that_are_odd_come_back(folder: Path) -> None:
    odd = ["ü 🦉", "a\nb", "-rf", "x" * 200, "back\\slash", "\x1b[31m", " "]
    for name in odd:
        (folder / name).write_text("x")
    (folder / ("d" * 120)).mkdir()
    (folder / ("d" * 120) / ("f" * 120)).write_text("x")
    (Path(os.fsdecode(os.fsencode(folder) + b"/\xff\xfe"))).write_bytes(b"raw")
    with opened(packed(folder)) as tar:
        found = {os.fsencode(member.name) for member in tar.getmembers()}
    expected = {b"job-7/" + os.fsencode(name) for name in [*odd, "d" * 120, "d" * 120 + "/" + "f" * 120]}
    assert found == {b"job-7", b"job-7/\xff\xfe", *expected}


def test_a_file_that_shrinks_meanwhile_is_filled_up(folder: Path) -> None:
    (folder / "a").write_bytes(os.urandom(3 * archive.BLOCK))
    (folder / "b").write_bytes(b"after")
    stream = archive.stream(folder, "job-7")
    begun = next(stream)
    os.truncate(folder / "a", 0)
    body = begun + b"".join(stream)
    assert len(content(body, "job-7/a")) == 3 * archive.BLOCK
    assert content(body, "job-7/b") == b"after"


def test_a_file_that_grows_meanwhile_is_cut(folder: Path) -> None:
    (folder / "a").write_bytes(os.urandom(3 * archive.BLOCK))
    (folder / "b").write_bytes(b"after")
    stream = archive.stream(folder, "job-7")
    begun = next(stream)
    with (folder / "a").open("ab") as file:
        file.write(b"x" * archive.BLOCK)
    body = begun + b"".join(stream)
    assert len(content(body, "job-7/a")) == 3 * archive.BLOCK
    assert content(body, "job-7/b") == b"after"


def test_what_is_deleted_meanwhile_is_left_out(folder: Path) -> None:
    (folder / "a").write_bytes(os.urandom(2 * archive.BLOCK))
    (folder / "b").write_bytes(b"gone")
    (folder / "c").write_bytes(b"there")
    stream = archive.stream(folder, "job-7")
    begun = next(stream)
    (folder / "b").unlink()
    assert names(begun + b"".join(stream)) == ["job-7", "job-7/a", "job-7/c"]


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_an_archive_that_nobody_reads_to_its_end_leaves_no_file_open(folder: Path) -> None:
    (folder / "a").write_bytes(os.urandom(3 * archive.BLOCK))
    before = open_files()
    stream = archive.stream(folder, "job-7")
    next(stream)
    stream.close()
    assert open_files() == before


def test_a_very_deep_directory_does_not_break_the_archive(folder: Path) -> None:
    (folder / ("d/" * 600)).mkdir(parents=True)
    (folder / "z").write_bytes(b"behind")
    assert content(packed(folder), "job-7/z") == b"behind"


@pytest.mark.threat("S48")
def test_a_directory_that_is_swapped_for_a_link_leads_nowhere(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"CANARY" * 100)
    (folder / "d").mkdir()
    (folder / "d/file").write_bytes(b"inside")
    done = threading.Event()

    def swap() -> None:
        for turn in range(1_000_000):
            (folder / "d").rename(folder / f".old{turn}")
            (folder / "d").symlink_to(outside)
            (folder / "d").unlink()
            (folder / f".old{turn}").rename(folder / "d")
            (folder / "d/file").unlink()
            (folder / "d/file").symlink_to(outside / "file")
            (folder / "d/file").unlink()
            (folder / "d/file").write_bytes(b"inside")
            if done.is_set():
                return

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(1_000):
            body = packed(folder)
            with opened(body) as tar:
                for member in tar.getmembers():
                    if member.isreg():
                        file = tar.extractfile(member)
                        assert file is not None
                        with file:
                            assert b"CANARY" not in file.read()
    finally:
        done.set()
        thread.join(120)


def test_a_root_that_is_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    with pytest.raises(OSError, match="Not a directory"):
        packed(tmp_path / "link")


class TestRoute:
    @pytest.fixture
    def database_url(self) -> str:
        return ""

    def test_a_job_is_downloaded_below_its_number(
        self, a_node: Callable[..., Worker], a_waiting_job: Callable[..., int], anna: Person
    ) -> None:
        a_node()
        number = a_waiting_job(with_tree=True)
        answer = anna.get(f"/jobs/{number}/archive")
        assert answer.mimetype == "application/gzip"
        assert answer.headers["Content-Disposition"] == f'attachment; filename="job-{number}.tar.gz"'
        top = f"job-{number}"
        assert names(answer.data) == [top, f"{top}/keep", f"{top}/src", f"{top}.log"]

    def test_a_job_without_a_directory_says_so(self, a_node: Callable[..., Worker], anna: Person) -> None:
        a_node()
        number = anna.submit()
        answer = anna.get(f"/jobs/{number}/archive")
        assert (answer.status_code, answer.json["message"]) == (404, f"job {number} has no directory")

    def test_no_path_leads_out_of_the_routes(self, a_node: Callable[..., Worker], anna: Person) -> None:
        a_node()
        number = anna.submit()
        for path in (
            "../",
            "%2e%2e%2f",
            "..%c0%af",
            "/etc/shadow",
            "%00",
            "x" * 5000,
            "//",
            "archive/../log/x",
        ):
            assert anna.get(f"/jobs/{number}/{path}").status_code in (404, 308), path
