"""What the directories of a user's jobs use together: watched, and limited by `user_jobs_gib`."""

import shutil
from collections.abc import Callable

import pytest

from pit_server.context import Head
from tests.support.clusters.head import Person, Worker, a_submission

MIB = 1024 * 1024


@pytest.fixture
def full(head: Head, node: Worker, a_placed_job: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> int:
    """A job of anna's that has written what her jobs may."""
    monkeypatch.setattr(head.job_space, "_most", 2 * MIB)
    number = a_placed_job(with_tree=True)
    (head.data.job(number) / "1/keep/model").write_bytes(b"x" * 2 * MIB)
    assert head.job_space()
    return number


def test_above_the_limit_a_user_submits_nothing_and_others_do(
    anna: Person, full: int, a_user: Callable[..., Person]
) -> None:
    answer = anna.post("/jobs", json=a_submission())
    assert (answer.status_code, answer.json["code"]) == (507, "jobs_over_quota")
    assert answer.json["message"] == "the directories of your jobs use 2.0 MiB of 2.0 MiB"
    assert "`pit rm --purge N`" in answer.json["hint"]
    assert a_user("bert").submit()


def test_what_is_deleted_counts_no_longer_at_once(head: Head, anna: Person, full: int) -> None:
    shutil.rmtree(head.data.job(full))
    assert anna.submit()
    head.job_space()
    assert anna.submit()


def test_a_job_that_has_not_ended_is_measured_again(head: Head, anna: Person, full: int) -> None:
    (head.data.job(full) / "1/keep/model").write_bytes(b"x")
    head.job_space()
    assert anna.submit()


def test_without_a_limit_nothing_is_measured(head: Head) -> None:
    assert head.job_space() is None
