"""Jobs that wait for others: what they wait for, when they go on, and when they no longer can."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import event, func, select

from pit_server.app import create_head
from pit_server.context import Head
from pit_server.db.models import Dependency
from pit_server.services.jobs import preparation
from pit_server.settings import Settings
from tests.head.jobs.test_lifecycle import illegal_moves
from tests.support.clusters.head import ONE_DATABASE, Person, Worker, a_submission, ended, prepare


def after(*numbers: int, when: str = "ok") -> list[dict[str, Any]]:
    return [{"job": number, "when": when} for number in numbers]


def finish(worker: Worker, exit_code: int = 0) -> None:
    worker.beat(*(ended(process, exit_code) for process in worker.orders()))


def count_rows(head: Head) -> int:
    with head.database.read() as session:
        return session.execute(select(func.count()).select_from(Dependency)).scalar_one()


@pytest.fixture
def first(a_placed_job: Callable[..., int], node: Worker) -> int:
    return a_placed_job()


def test_a_job_starts_after_another_has_succeeded(
    head: Head, node: Worker, first: int, anna: Person, a_waiting_job: Callable[..., int]
) -> None:
    second = a_waiting_job(after=after(first))
    head.scheduling()
    job = anna.job(second)
    assert (job["state"], job["reason"]) == ("waiting", f"waits for job {first} to succeed")
    lines = [line["text"] for line in anna.log(second)["lines"]]
    assert f"waiting for job {first} to succeed" in lines
    finish(node)
    head.scheduling()
    assert anna.job(second)["state"] == "starting"
    assert count_rows(head) == 0


@pytest.mark.parametrize(
    ("when", "exit_code", "state", "reason"),
    [
        ("ok", 1, "ended", "job 1 failed, and this job needed it to succeed"),
        ("fail", 0, "ended", "job 1 succeeded, and this job needed it to fail"),
        ("fail", 1, "starting", ""),
        ("any", 1, "starting", ""),
    ],
)
def test_a_job_that_can_no_longer_start_ends_with_the_reason(
    head: Head,
    node: Worker,
    first: int,
    anna: Person,
    a_waiting_job: Callable[..., int],
    when: str,
    exit_code: int,
    state: str,
    reason: str,
) -> None:
    second = a_waiting_job(after=after(first, when=when))
    finish(node, exit_code)
    head.scheduling()
    job = anna.job(second)
    assert (job["state"], job["reason"]) == (state, reason)
    assert job["outcome"] == ("stopped" if reason else None)
    assert count_rows(head) == 0
    assert illegal_moves(job) == []


def test_a_job_waits_for_all_that_it_needs(
    head: Head, node: Worker, anna: Person, a_waiting_job: Callable[..., int]
) -> None:
    needed = [a_waiting_job("[]") for _ in range(2)]
    odd = a_waiting_job()
    last = a_waiting_job(after=after(*needed) + after(odd, when="any"))
    head.scheduling()
    expected = f"waits for job {needed[0]} and job {needed[1]} to succeed, and for 1 other job"
    assert anna.job(last)["reason"] == expected
    process = next(iter(node.orders()))
    node.beat(ended(process))
    head.scheduling()
    assert anna.job(last)["state"] == "waiting"
    finish(node)
    head.scheduling()
    assert anna.job(last)["state"] == "starting"


def test_jobs_that_have_ended_count_and_may_be_removed(
    head: Head, node: Worker, first: int, anna: Person, a_waiting_job: Callable[..., int]
) -> None:
    early = a_waiting_job(after=after(first))
    refused = anna.delete(f"/jobs/{first}")
    assert refused.json["message"] == f"job {first} is still starting"
    finish(node)
    late = a_waiting_job(after=after(first))
    anna.ok(anna.delete(f"/jobs/{first}"))
    head.scheduling()
    assert [anna.job(number)["state"] for number in (early, late)] == ["starting", "starting"]


def test_a_stopped_job_waits_for_nothing(
    head: Head, node: Worker, first: int, anna: Person, a_waiting_job: Callable[..., int]
) -> None:
    second = a_waiting_job(after=after(first))
    anna.ok(anna.stop(second))
    assert count_rows(head) == 0
    finish(node)
    head.scheduling()
    assert anna.job(second)["reason"] == "by anna"


def test_a_job_that_is_still_prepared_ends_too(head: Head, node: Worker, first: int, anna: Person) -> None:
    second = anna.submit(after=after(first))
    finish(node, 1)
    head.scheduling()
    prepare(head, second)
    assert anna.job(second)["outcome"] == "stopped"


def test_dependencies_outlive_the_head(
    head: Head, settings: Settings, node: Worker, first: int, a_waiting_job: Callable[..., int], anna: Person
) -> None:
    second = a_waiting_job(after=after(first))
    finish(node)
    other = create_head(settings)
    other.scheduling()
    other.database.dispose()
    assert anna.job(second)["state"] == "starting"


def test_a_job_continues_with_what_it_waits_for(
    head: Head, node: Worker, anna: Person, a_placed_job: Callable[..., int]
) -> None:
    first = a_placed_job(with_tree=True)
    refused = anna.post("/jobs", json=a_submission(continues=first))
    assert refused.json["hint"].startswith(f"add `--after {first}` to wait for its end")
    second = anna.submit(continues=first, after=after(first, when="any"))
    prepare(head, second)
    head.scheduling()
    job = anna.job(second)
    assert (job["state"], job["reason"]) == ("preparing", f"waits for job {first} to end")
    (head.data.attempt(first, 1) / "keep" / "checkpoint").write_text("7")
    finish(node, 1)
    head.scheduling()
    with head.database.read() as session:
        assert list(preparation.list_due(session)) == [second]
    prepare(head, second)
    assert (head.data.attempt(second, 1) / "keep" / "checkpoint").read_text() == "7"
    assert anna.job(second)["state"] == "waiting"


@ONE_DATABASE
def test_wrong_dependencies_are_refused_and_nothing_is_queued(
    head: Head, node: Worker, anna: Person, a_waiting_job: Callable[..., int], a_user: Callable[..., Person]
) -> None:
    first = a_waiting_job()
    bob = a_user("bob")
    hidden = bob.submit(private=True)
    next_number = hidden + 1
    cases = [
        (after(next_number), f"there is no job {next_number} yet"),
        (after(hidden), f"there is no job {hidden}"),
        (after(0), "there is no job 0"),
        (after(first, first), f"--after names job {first} twice"),
        (
            after(first) + after(first, when="fail"),
            f"--after names job {first} twice with ok and fail",
        ),
        (
            after(*range(1, 1002)),
            "--after names 1,001 jobs, and `max_dependencies` of the head allows 1,000",
        ),
        (after(first, when="later"), "field 'options.after[0].when' must be ok or any or fail"),
    ]
    for wanted, message in cases:
        answer = anna.post("/jobs", json=a_submission(after=wanted))
        assert (answer.status_code // 100, answer.json["message"]) == (4, message)
    anna.ok(anna.stop(first))
    answer = anna.post("/jobs", json=a_submission(after=after(first)))
    assert answer.json["message"] == f"job {first} was stopped already, and this job needs it to succeed"
    assert count_rows(head) == 0
    assert anna.job(anna.submit())["number"] == next_number


@ONE_DATABASE
def test_a_chain_that_breaks_ends_with_few_statements_per_job(
    head: Head, node: Worker, first: int, anna: Person, a_waiting_job: Callable[..., int]
) -> None:
    last = first
    length = 40
    for _ in range(length):
        last = a_waiting_job(after=after(last))
    statements: list[str] = []
    finish(node, 1)
    event.listen(head.database.engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    head.scheduling()
    assert anna.job(last)["reason"] == f"job {last - 1} was stopped, and this job needed it to succeed"
    assert len(statements) < 12 * length
    transactions = [text for text in statements if text.startswith("BEGIN IMMEDIATE")]
    assert len(transactions) <= 2
