"""Jobs with --retry run again after their node was lost, or after some exit codes: never twice at once."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import update

from pit_protocol.messages.beat import OrderAction, Report
from pit_protocol.states import KilledBy, ProcessState
from pit_server.background import node_watch
from pit_server.context import Head
from pit_server.db.models import Job
from pit_server.settings import Settings
from tests.head.jobs.test_lifecycle import held, illegal_moves
from tests.head.jobs.test_requeue import due, fault
from tests.head.nodes.test_node_watch import Clock
from tests.support.clusters.head import (
    ONE_DATABASE,
    Person,
    Worker,
    a_chunk,
    a_submission,
    ended,
    prepare,
    running,
)

SILENCE_S = 1200 + 10 + 5  # plus grace period and margin


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, retry_delay_s=0.0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(node_watch, "time", clock)
    return clock


def fail(worker: Worker, code: int | None = 75, attempt: int = 1, **fields: Any) -> None:
    for process in worker.orders():
        worker.beat(Report(process, attempt, ProcessState.RUNNING))
        worker.beat(Report(process, attempt, ProcessState.ENDED, exit_code=code, **fields))


def again(head: Head, number: int) -> None:
    prepare(head, number)
    head.scheduling()


def test_a_job_runs_again_after_its_exit_code(
    head: Head, a_node: Callable[..., Worker], a_placed_job: Callable[..., int], anna: Person
) -> None:
    first, second = a_node("n0"), a_node("n1")
    number = a_placed_job(with_tree=True, retry=1, retry_on=[75])
    (head.data.attempt(number, 1) / "keep" / "checkpoint").write_text("7")
    (process,) = first.orders()
    first.beat(running(process), chunks=[a_chunk(process, b"of the first\n")])
    first.beat(ended(process, 75, log_size=13))
    assert held(head) == []
    again(head, number)
    (order,) = second.beat().orders  # not on the node that just failed it
    assert (order.attempt, first.orders()) == (2, {})
    assert order.spec
    assert order.spec.env["PIT_RESTART"] == "1"
    assert (head.data.attempt(number, 2) / "keep" / "checkpoint").read_text() == "7"
    lines = [line["text"] for line in anna.log(number)["lines"]]
    marker = lines.index("-------------------- try 2 --------------------")
    assert lines[marker - 1] == "requeued: worker 0 ended with exit code 75 on n0"
    assert "worker 0 started on n0" in lines[:marker]
    of_process = [line["text"] for line in anna.log(number, process="0")["lines"]]
    assert of_process == ["of the first", *lines[marker - 1 : marker + 1]]
    second.beat(Report(order.process, 2, ProcessState.RUNNING))
    second.beat(Report(order.process, 2, ProcessState.ENDED, exit_code=75))
    job = anna.job(number)
    assert (job["outcome"], due(head)) == ("failed", [])
    assert job["reason"] == "worker 0 ended with exit code 75; that was try 2, and --retry 1 allows no more"
    assert [(p["attempt"], p["node"], p["exit_code"]) for p in job["processes"]] == [
        (1, "n0", 75),
        (2, "n1", 75),
    ]
    assert illegal_moves(job) == []


@pytest.mark.parametrize(
    ("retry_on", "end", "is_retried"),
    [
        ([75], {"exit_code": 1}, False),
        ([137], {"exit_code": None, "signal": 9}, True),
        ([143], {"exit_code": None, "signal": 15, "killed_by": KilledBy.LIMIT}, False),
        ([75], {"exit_code": 0}, False),
        ([], {"exit_code": None, "killed_by": KilledBy.REBOOT}, True),
        ([], {"exit_code": None, "killed_by": KilledBy.LEASE}, True),
        ([], {"exit_code": None, "killed_by": KilledBy.RUNTIME}, True),
    ],
)
@ONE_DATABASE
def test_only_what_was_asked_for_is_tried_again(
    head: Head,
    node: Worker,
    a_placed_job: Callable[..., int],
    retry_on: list[int],
    end: dict[str, Any],
    is_retried: bool,
) -> None:
    number = a_placed_job(retry=3, retry_on=retry_on)
    (process,) = node.orders()
    node.beat(running(process))
    node.beat(Report(process, 1, ProcessState.ENDED, **end))
    assert due(head) == ([number] if is_retried else [])


@pytest.mark.threat("F17")
def test_a_job_with_retry_has_a_lease_and_runs_again_when_that_is_over(
    clock: Clock, head: Head, a_node: Callable[..., Worker], a_placed_job: Callable[..., int], anna: Person
) -> None:
    silent = a_node("n0")
    number, other = a_placed_job(retry=1), a_placed_job()
    leases = {order.spec.job: order.spec.lease_s for order in silent.orders().values() if order.spec}
    assert leases == {number: 1080.0, other: None}
    silent.beat(*map(running, silent.orders()))
    clock.seconds += 30
    head.node_watch()
    clock.seconds += SILENCE_S - 31
    a_node("n1")
    head.node_watch()
    assert (due(head), anna.job(number)["state"]) == ([], "running")
    clock.seconds += 1
    head.node_watch()
    assert due(head) == [number]
    again(head, number)
    job = anna.job(number)
    assert (job["state"], job["attempt"], job["processes"][1]["node"]) == ("starting", 2, "n1")
    assert anna.job(other)["state"] == "running"  # it has no lease, so it may still run
    assert illegal_moves(anna.job(number)) == []


@pytest.mark.threat("F20")
def test_when_most_nodes_are_silent_none_is_given_up_before_they_are_back(
    clock: Clock, head: Head, a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
) -> None:
    workers = [a_node(f"n{index}") for index in range(5)]
    numbers = [a_placed_job(f"[]@n{index}", retry=1) for index in range(5)]
    for _ in range(2):
        workers[0].beat()
        workers[1].beat()
        clock.seconds += SILENCE_S / 2
        head.node_watch()
    assert due(head) == []
    for worker in workers[:3]:
        worker.beat()
    head.node_watch()
    assert due(head) == numbers[3:]


def test_a_worker_that_returns_late_cannot_speak_for_the_new_attempt(
    clock: Clock, head: Head, a_node: Callable[..., Worker], a_placed_job: Callable[..., int], anna: Person
) -> None:
    late, other = a_node("n0"), a_node("n1")
    number = a_placed_job("[]@n0", retry=1)
    (process,) = late.orders()
    late.beat(running(process))
    clock.seconds += 30
    head.node_watch()
    clock.seconds += SILENCE_S
    other.beat()
    head.node_watch()
    prepare(head, number)
    (order,) = late.beat(running(process)).orders
    assert (order.process, order.action) == (process, OrderAction.STOP)
    late.beat(ended(process, 0))
    assert anna.job(number)["state"] == "waiting"


def test_all_processes_are_tried_again_together(
    head: Head, a_node: Callable[..., Worker], a_placed_job: Callable[..., int], anna: Person
) -> None:
    well, ill = a_node("n0"), a_node("n1")
    number = a_placed_job("[]@n0,[]@n1,[]@n0", retry=1, retry_on=[75])
    done, begun = well.orders()
    well.beat(running(done), running(begun))
    well.beat(ended(done), running(begun))
    fail(ill)
    assert (due(head), anna.job(number)["state"]) == ([], "running")
    assert well.orders()[begun].action is OrderAction.STOP
    well.beat(ended(begun, 0))  # it ended by itself before it was stopped
    assert due(head) == [number]
    again(head, number)
    job = anna.job(number)
    assert [process["state"] for process in job["processes"]] == ["ended"] * 3 + ["assigned"] * 3


def test_nothing_is_tried_again_after_a_stop(
    head: Head, node: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    running_one, pending = a_placed_job(retry=3, retry_on=[75, 143]), a_placed_job(retry=3, retry_on=[75])
    first, second = node.orders()
    node.beat(running(first), running(second))
    node.beat(running(first), ended(second, 75))
    for number in (running_one, pending):
        anna.ok(anna.stop(number))
    node.beat(ended(first, None, signal=15, killed_by=KilledBy.USER))
    assert due(head) == []
    assert {anna.job(number)["outcome"] for number in (running_one, pending)} == {"stopped"}


def test_a_retry_waits_longer_each_time(
    head: Head, node: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job(retry=3, retry_on=[75])
    head.scheduling._settings = head.scheduling._reader._settings = replace(head.settings, retry_delay_s=40.0)
    for attempt, delay in ((2, 40), (3, 80)):
        fail(node, attempt=attempt - 1)
        again(head, number)
        assert anna.job(number)["reason"] == f"waits {delay} s before try {attempt}"
        assert 0 < (head.scheduling() or 0) <= delay
        with head.database.write() as session:
            session.execute(update(Job).values(since=Job.since - delay))
        head.scheduling()
        assert anna.job(number)["state"] == "starting"


def test_faults_of_nodes_are_not_counted_as_retries(
    head: Head, a_node: Callable[..., Worker], a_placed_job: Callable[..., int], anna: Person
) -> None:
    workers = [a_node(f"n{index}") for index in range(2)]
    number = a_placed_job(retry=1, retry_on=[75])
    for worker in workers:
        fault(worker)
    again(head, number)
    for worker in workers:
        fail(worker, attempt=2)
    again(head, number)
    assert anna.job(number)["attempt"] == 3
    for worker in workers:
        fail(worker, attempt=3)
    assert anna.job(number)["outcome"] == "failed"


@ONE_DATABASE
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retry": 21}, "--retry takes 0 to 20, not 21"),
        ({"retry": -1}, "--retry takes 0 to 20, not -1"),
        ({"retry_on": [75]}, "--retry-on needs --retry"),
        ({"retry": 1, "retry_on": [0]}, "--retry-on takes exit codes from 1 to 255, not 0"),
    ],
)
def test_wrong_retries_are_refused(anna: Person, node: Worker, options: dict[str, Any], message: str) -> None:
    answer = anna.post("/jobs", json=a_submission(**options))
    assert (answer.status_code, answer.json["message"]) == (422, message)
