"""An archive is whole or absent."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.conftest import Pit
from tests.support.git_projects import git
from tests.support.stubs.head import Fault, Handler, StubHead, cut, cut_without_length
from tests.support.stubs.users import Answer

ARCHIVE = gzip.compress(os.urandom(1_000_000))


@pytest.fixture
def stored(connected: StubHead) -> StubHead:
    connected.add_job(12)
    connected.bodies["/archive"] = ARCHIVE
    return connected


def whole_without_length(handler: Handler, answer: Answer) -> None:
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.wfile.write(answer[1])
    handler.close_connection = True


def chunked(whole: bool):  # type: ignore[no-untyped-def]
    def send(handler: Handler, answer: Answer) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(f"{len(answer[1]):x}\r\n".encode() + answer[1] + b"\r\n")
        if whole:
            handler.wfile.write(b"0\r\n\r\n")
        handler.close_connection = True

    return send


def test_the_archive_lands_beside_one(stored: StubHead, home: Path, pit_command: Pit) -> None:
    result = pit_command("download", "12")
    assert (result.exit_code, result.stdout) == (0, f"job-12.tar.gz: {len(ARCHIVE):,} bytes\n")
    assert (home / "job-12.tar.gz").read_bytes() == ARCHIVE


def test_an_archive_in_the_project_is_no_part_of_it(
    stored: StubHead, checkout: Path, pit_command: Pit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout)
    result = pit_command("download", "12")
    assert result.stderr.startswith("pit: job-12.tar.gz is ignored by git and `pit run` from now on")
    assert git(checkout, "status", "--porcelain") == ""


@pytest.mark.parametrize("way", [whole_without_length, chunked(True)])
def test_a_whole_transfer_is_kept_whatever_its_framing(
    stored: StubHead, home: Path, pit_command: Pit, way: object
) -> None:
    stored.misbehave("GET", "/jobs/12/archive", way)  # type: ignore[arg-type]
    assert pit_command("download", "12", "-o", "x.tgz").exit_code == 0
    assert (home / "x.tgz").read_bytes() == ARCHIVE


@pytest.mark.parametrize("way", [cut, cut_without_length, chunked(False)])
def test_a_transfer_that_breaks_off_is_taken_up_where_it_was(
    stored: StubHead, home: Path, pit_command: Pit, way: object
) -> None:
    stored.misbehave("GET", "/jobs/12/archive", way)  # type: ignore[arg-type]
    assert pit_command("download", "12").exit_code == 0
    assert (home / "job-12.tar.gz").read_bytes() == ARCHIVE
    assert int(stored.called("/jobs/12/archive")[1].query["offset"]) > 0


def test_halves_of_different_archives_are_not_joined(stored: StubHead, home: Path, pit_command: Pit) -> None:
    def cut_and_change(handler: Handler, answer: Answer) -> None:
        stored.bodies["/archive"] = gzip.compress(os.urandom(100_000))
        cut(handler, answer)

    stored.misbehave("GET", "/jobs/12/archive", cut_and_change)
    assert pit_command("download", "12").exit_code == 0
    assert (home / "job-12.tar.gz").read_bytes() == stored.bodies["/archive"]


@pytest.mark.parametrize("way", [cut, cut_without_length])
def test_a_transfer_that_breaks_off_for_good_leaves_nothing(
    stored: StubHead, home: Path, pit_command: Pit, way: Fault
) -> None:
    before = sorted(path.name for path in home.iterdir())
    stored.misbehave("GET", "/jobs/12/archive", *[way] * 40)
    result = pit_command("download", "12")
    assert result.exit_code == 1
    assert result.stderr.startswith("pit: the transfer broke off: ")
    assert "job-12.tar.gz was not written" in result.stderr
    assert sorted(path.name for path in home.iterdir()) == before


def test_an_existing_file_is_kept_unless_forced(stored: StubHead, home: Path, pit_command: Pit) -> None:
    (home / "job-12.tar.gz").write_text("precious")
    result = pit_command("download", "12")
    assert (result.exit_code, (home / "job-12.tar.gz").read_text()) == (1, "precious")
    assert "-f overwrites it" in result.stderr
    assert stored.calls == []
    assert pit_command("download", "12", "-f").exit_code == 0
    assert (home / "job-12.tar.gz").read_bytes() == ARCHIVE


def test_a_forced_transfer_that_breaks_off_keeps_the_old_file(
    stored: StubHead, home: Path, pit_command: Pit
) -> None:
    (home / "job-12.tar.gz").write_text("precious")
    stored.misbehave("GET", "/jobs/12/archive", *[cut] * 40)
    assert pit_command("download", "12", "-f").exit_code == 1
    assert (home / "job-12.tar.gz").read_text() == "precious"


def test_a_pipe_gets_the_bytes(stored: StubHead, pit_env: dict[str, str]) -> None:
    command = [sys.executable, "-m", "pit", "download", "12", "-o", "-"]
    assert subprocess.run(command, env=pit_env, capture_output=True, check=True).stdout == ARCHIVE


def test_an_unknown_job_leaves_no_file(connected: StubHead, home: Path, pit_command: Pit) -> None:
    result = pit_command("download", "9")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (1, "pit: there is no job 9")
    assert not list(home.glob("job-9*"))


def test_a_link_with_the_name_of_the_part_is_not_written_through(
    stored: StubHead, home: Path, pit_command: Pit
) -> None:
    (home / "victim").write_text("untouched")
    (home / f"job-12.tar.gz.{os.getpid()}.part").symlink_to(home / "victim")
    assert pit_command("download", "12").exit_code == 0
    assert (home / "victim").read_text() == "untouched"
    assert (home / "job-12.tar.gz").read_bytes() == ARCHIVE
    assert not (home / "job-12.tar.gz").is_symlink()
