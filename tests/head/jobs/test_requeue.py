"""A job that a node could not start goes back to the queue: whole, once, and to other nodes."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from pit_protocol.messages.beat import OrderAction, Report
from pit_protocol.states import KilledBy, ProcessState
from pit_server.context import Head
from pit_server.services.jobs import preparation
from pit_server.services.jobs.processes import lost_processes
from pit_server.settings import Settings
from tests.head.jobs.test_lifecycle import held, illegal_moves
from tests.head.jobs.test_races import InThread, all_at_once
from tests.support.clusters.head import Person, Worker, ended, prepare, running

WHY = "the data root /data is not there on this node"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, max_requeues=2)


def not_started(process: int, attempt: int = 1) -> Report:
    return Report(
        process, attempt, ProcessState.ENDED, killed_by=KilledBy.WORKER, reason=WHY, node_fault=True
    )


def fault(worker: Worker, attempt: int = 1) -> None:
    """Refuse everything that the node was ordered to run."""
    worker.beat(*(not_started(process, attempt) for process in worker.orders()))


def due(head: Head) -> list[int]:
    with head.database.read() as session:
        return list(preparation.list_due(session))


def test_a_job_that_its_node_could_not_start_waits_again(
    head: Head, node: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job(with_tree=True)
    (head.data.attempt(number, 1) / "keep" / "old").touch()
    fault(node)
    assert (anna.job(number)["state"], held(head)) == ("starting", [])
    prepare(head, number)
    job = anna.job(number)
    assert (job["state"], job["attempt"], job["outcome"]) == ("waiting", 2, None)
    assert (head.data.attempt(number, 2) / "src").is_dir()
    assert (head.data.attempt(number, 2) / "keep" / "old").exists()
    lines = [line["text"] for line in anna.log(number)["lines"]]
    assert f"requeued: n0 could not start it: {WHY}" in lines
    assert f"worker 0 ended: {WHY}" in lines
    assert illegal_moves(anna.job(number)) == []


def test_the_next_attempt_goes_to_another_node(
    head: Head, a_node: Callable[..., Worker], a_placed_job: Callable[..., int], anna: Person
) -> None:
    first, second = a_node("n0"), a_node("n1")
    number = a_placed_job()
    fault(first)
    prepare(head, number)
    head.scheduling()
    (order,) = second.beat().orders
    assert (order.attempt, first.orders()) == (2, {})
    assert order.spec
    assert order.spec.paths["JOB_DIR"] == f"jobs/{number}/2"
    second.beat(Report(order.process, 2, ProcessState.RUNNING))
    second.beat(Report(order.process, 2, ProcessState.ENDED, exit_code=0))
    assert anna.job(number)["outcome"] == "succeeded"


def test_a_job_waits_for_another_node_while_there_is_one(
    head: Head, a_node: Callable[..., Worker], a_placed_job: Callable[..., int], anna: Person
) -> None:
    a_node("n1", cores=2)
    other = a_placed_job("[2:cpu]@n1")
    first = a_node("n0", cores=2)
    number = a_placed_job("[2:cpu]")
    fault(first)
    prepare(head, number)
    head.scheduling()
    reason = f"needs 2 cores, 0 free for you; job {other} holds them; it failed on n0"
    assert anna.job(number)["reason"] == reason


@pytest.mark.parametrize("trouble", ["", "its disk is full"])
def test_without_another_node_a_job_goes_to_the_same_one_when_that_is_well(
    head: Head, node: Worker, a_placed_job: Callable[..., int], anna: Person, trouble: str
) -> None:
    number = a_placed_job()
    fault(node)
    node.ail(trouble)
    prepare(head, number)
    head.scheduling()
    job = anna.job(number)
    assert job["state"] == ("waiting" if trouble else "starting")
    assert trouble in job["reason"]


@pytest.mark.threat("F40")
def test_a_job_that_no_node_can_start_fails(
    head: Head, a_node: Callable[..., Worker], a_placed_job: Callable[..., int], anna: Person
) -> None:
    workers = [a_node(f"n{index}") for index in range(5)]
    number = a_placed_job()
    for attempt in (1, 2, 3):
        for worker in workers:
            fault(worker, attempt)
        prepare(head, number)
        head.scheduling()
    job = anna.job(number)
    assert (job["state"], job["outcome"], job["attempt"]) == ("ended", "failed", 3)
    last = f"n2 could not start it: {WHY}; that was try 3"
    assert job["reason"] == f"{last}, and `max_requeues` of the head allows no more"
    assert len(job["processes"]) == 3


def test_all_processes_of_a_job_are_requeued_together(
    head: Head, a_node: Callable[..., Worker], a_placed_job: Callable[..., int], anna: Person
) -> None:
    well, ill = a_node("n0"), a_node("n1")
    number = a_placed_job("[]@n0,[]@n1")
    (begun,) = well.orders()
    well.beat(running(begun))
    fault(ill)
    # The first process may still run, so nothing is built or placed yet.
    assert (due(head), anna.job(number)["state"]) == ([], "running")
    assert well.orders()[begun].action is OrderAction.STOP
    well.beat(ended(begun, 143, killed_by=KilledBy.JOB))
    assert due(head) == [number]
    prepare(head, number)
    assert [p["state"] for p in anna.job(number)["processes"]] == ["ended", "ended"]
    assert (anna.job(number)["state"], held(head)) == ("waiting", [])
    assert illegal_moves(anna.job(number)) == []


def test_a_job_is_requeued_once_however_often_and_late_it_is_reported(
    head: Head, node: Worker, a_placed_job: Callable[..., int], anna: Person, in_thread: InThread
) -> None:
    number = a_placed_job("2:[]")
    first, second = node.orders()
    reports = (not_started(first), not_started(second))
    all_at_once(in_thread, [lambda: node.beat(*reports)] * 4)
    prepare(head, number)
    prepare(head, number)
    node.beat(*reports)
    job = anna.job(number)
    assert (job["attempt"], [e["event"] for e in job["events"]].count("requeued")) == (2, 1)


def test_a_job_whose_other_process_is_lost_is_not_requeued(
    head: Head, a_node: Callable[..., Worker], a_placed_job: Callable[..., int], anna: Person
) -> None:
    silent, ill = a_node("n0"), a_node("n1")
    number = a_placed_job("[]@n0,[]@n1")
    (begun,) = silent.orders()
    silent.beat(running(begun))
    fault(ill)
    with head.database.write() as session:
        lost_processes.mark_lost(session, 1, "its node is gone", now=1.0, actor="root")
    assert (anna.job(number)["outcome"], due(head)) == ("lost", [])


def test_a_job_can_be_stopped_before_it_waits_again(
    head: Head, node: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job()
    fault(node)
    assert anna.stop(number).status_code == 200
    prepare(head, number)
    assert (anna.job(number)["state"], anna.job(number)["outcome"]) == ("ended", "stopped")


def test_finished_work_is_not_done_twice(
    head: Head, a_node: Callable[..., Worker], a_placed_job: Callable[..., int], anna: Person
) -> None:
    well, ill = a_node("n0"), a_node("n1")
    number = a_placed_job("[]@n0,[]@n1")
    (done,) = well.orders()
    well.beat(running(done))
    well.beat(ended(done))
    fault(ill)
    assert (anna.job(number)["outcome"], due(head)) == ("failed", [])


def test_a_mistake_in_the_job_is_not_requeued(
    head: Head, node: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job()
    (process,) = node.orders()
    node.beat(ended(process, None, killed_by=KilledBy.WORKER, reason="there is no image nosuch"))
    assert (anna.job(number)["outcome"], due(head)) == ("failed", [])
