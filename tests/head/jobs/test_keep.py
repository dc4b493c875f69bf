"""A continued job gets a copy of the keep directory; symlinks in it are not followed."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pit_server.context import Head
from tests.support.clusters.head import ONE_DATABASE, Person, Worker, prepare

pytestmark = ONE_DATABASE


@pytest.fixture
def keep(head: Head, a_node: Callable[..., Worker], a_waiting_job: Callable[..., int], anna: Person) -> Path:
    """The keep directory of job 1, which has ended."""
    a_node()
    number = a_waiting_job(with_tree=True)
    anna.stop(number)
    return head.data.attempt(number, 1) / "keep"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    folder = tmp_path / "of another"
    folder.mkdir()
    (folder / "secret").write_text("S3CRET")
    return folder


def continued(head: Head, anna: Person) -> tuple[dict[str, Any], Path]:
    number = anna.submit(continues=1)
    prepare(head, number)
    return anna.job(number), head.data.attempt(number, 1) / "keep"


def test_files_are_copied_and_the_originals_stay(head: Head, anna: Person, keep: Path) -> None:
    (keep / "sub").mkdir()
    (keep / "sub/weights").write_bytes(b"w" * 1000)
    (keep / "run").write_text("x")
    (keep / "run").chmod(0o755)
    record, new = continued(head, anna)
    assert record["state"] == "waiting"
    assert (new / "sub/weights").read_bytes() == b"w" * 1000
    assert (new / "run").stat().st_mode & 0o777 == 0o755
    (new / "run").write_text("changed")
    assert (keep / "run").read_text() == "x"


def test_symlinks_stay_symlinks(head: Head, anna: Person, keep: Path, secret: Path) -> None:
    (keep / "file").symlink_to(secret / "secret")
    (keep / "folder").symlink_to(secret)
    (keep / "broken").symlink_to("nowhere")
    _, new = continued(head, anna)
    assert {path.name: str(path.readlink()) for path in new.iterdir()} == {
        "file": str(secret / "secret"),
        "folder": str(secret),
        "broken": "nowhere",
    }


def test_a_pipe_is_left_out(head: Head, anna: Person, keep: Path) -> None:
    os.mkfifo(keep / "pipe")
    (keep / "file").write_text("x")
    _, new = continued(head, anna)
    assert [path.name for path in new.iterdir()] == ["file"]


def test_a_keep_directory_that_is_a_link_is_not_followed(
    head: Head, anna: Person, keep: Path, secret: Path
) -> None:
    keep.rmdir()
    keep.symlink_to(secret)
    record, new = continued(head, anna)
    assert not (new / "secret").exists()
    assert record["outcome"] == "failed"


def test_a_missing_keep_directory_is_refused(head: Head, anna: Person, keep: Path) -> None:
    keep.rmdir()
    record, _ = continued(head, anna)
    assert record["reason"] == "the keep directory of job 1 no longer exists"
