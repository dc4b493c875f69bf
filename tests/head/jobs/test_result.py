"""The content of a job's result file is shown, and nothing but a regular file is read."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pit_server.context import Head
from tests.support.clusters.head import ONE_DATABASE, Person, Worker

pytestmark = ONE_DATABASE


@pytest.fixture
def number(a_node: Callable[..., Worker], a_waiting_job: Callable[..., int]) -> int:
    a_node()
    return a_waiting_job(with_tree=True)


@pytest.fixture
def file(head: Head, number: int) -> Path:
    return head.data.attempt(number, 1) / "result"


def test_the_result_is_the_text_in_the_file(anna: Person, number: int, file: Path) -> None:
    assert anna.job(number)["result"] is None
    file.write_text(" loss 0.25\n")
    assert anna.job(number)["result"] == "loss 0.25"


def test_a_long_text_is_cut_and_invalid_bytes_are_replaced(anna: Person, number: int, file: Path) -> None:
    file.write_bytes(b"\xff" + b"x" * 10_000)
    assert anna.job(number)["result"] == "\ufffd" + "x" * 4095


def test_a_symlink_or_a_pipe_is_not_read(anna: Person, number: int, file: Path) -> None:
    file.symlink_to("/etc/passwd")
    assert anna.job(number)["result"] is None
    file.unlink()
    os.mkfifo(file)
    assert anna.job(number)["result"] is None


def test_a_directory_is_not_read(anna: Person, number: int, file: Path) -> None:
    file.mkdir()
    assert anna.job(number)["result"] is None
