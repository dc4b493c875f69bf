"""Concurrent changes: one winner, one end, no deadlock."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy.orm import Session

from pit_protocol.states import KilledBy, NodeState
from pit_server.context import Head
from pit_server.services.jobs import jobs
from pit_server.services.nodes import nodes
from pit_server.services.users.tokens import Caller
from tests.head.jobs.test_lifecycle import held, illegal_moves
from tests.support.clusters.head import NOW, Person, Worker, ended, killed, running
from tests.support.servers.postgres import wait_for_blocked

InThread = Callable[[Callable[[], Any]], Callable[[], Any]]


def all_at_once(in_thread: InThread, works: list[Callable[[], Any]]) -> list[Any]:
    together = threading.Barrier(len(works))

    def begin(work: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> Any:
            together.wait(120)
            return work()

        return in_thread(run)

    return [answer() for answer in [begin(work) for work in works]]


@pytest.mark.parametrize("exit_codes", [[0] * 8, [0, 1] * 4])
@pytest.mark.threat("F34")
def test_eight_processes_that_end_at_once_end_their_job_once(
    head: Head,
    a_node: Callable[..., Worker],
    a_placed_job: Callable[..., int],
    anna: Person,
    in_thread: InThread,
    exit_codes: list[int],
) -> None:
    workers = [a_node(f"n{index}", gpus={"A100": 1}) for index in range(8)]
    number = a_placed_job("8:[a100]")
    processes = [next(iter(worker.orders())) for worker in workers]
    reports = [ended(process, code) for process, code in zip(processes, exit_codes, strict=True)]
    works = [lambda w=worker, r=report: w.beat(r) for worker, report in zip(workers, reports, strict=True)]
    all_at_once(in_thread, works)
    for worker, report in zip(workers, reports, strict=True):
        worker.beat(report)  # as real workers do until the head orders `forget`
    record = anna.job(number)
    assert [event["event"] for event in record["events"]].count("settled") == 1
    assert record["outcome"] == ("failed" if any(exit_codes) else "succeeded")
    assert illegal_moves(record) == []
    assert held(head) == []


@pytest.mark.threat("F34")
def test_when_a_stop_races_with_the_end_there_is_one_winner(
    head: Head,
    a_node: Callable[..., Worker],
    a_waiting_job: Callable[..., int],
    anna: Person,
    in_thread: InThread,
) -> None:
    worker = a_node(cores=64)
    numbers = [a_waiting_job("[cpu]") for _ in range(50)]
    head.scheduling()
    processes = {order.spec.job: order.process for order in worker.beat().orders}
    worker.beat(*map(running, processes.values()))
    for number in numbers:
        end = ended(processes[number])
        stopped, _ = all_at_once(in_thread, [lambda n=number: anna.stop(n), lambda e=end: worker.beat(e)])
        worker.beat(end)
        record = anna.job(number)
        expected = {200: "stopped", 409: "succeeded"}[stopped.status_code]
        assert (record["state"], record["outcome"]) == ("ended", expected)
        assert [event["to"] for event in record["events"] if not event["process"]].count("ended") == 1
        assert illegal_moves(record) == []
    assert held(head) == []


@pytest.mark.threat("F34")
def test_concurrent_stops_all_succeed(
    a_node: Callable[..., Worker], a_placed_job: Callable[..., int], anna: Person, in_thread: InThread
) -> None:
    worker = a_node()
    for _ in range(5):
        number = a_placed_job()
        answers = all_at_once(in_thread, [lambda n=number: anna.stop(n).status_code] * 6)
        assert answers == [200] * 6
        worker.beat(*(killed(process, KilledBy.USER) for process in worker.orders()))


def test_placing_and_stopping_at_once_place_the_whole_job_or_nothing(
    head: Head,
    a_node: Callable[..., Worker],
    a_waiting_job: Callable[..., int],
    anna: Person,
    in_thread: InThread,
) -> None:
    worker = a_node(gpus={"A100": 2})
    for _ in range(10):
        number = a_waiting_job("2:[a100]")
        all_at_once(in_thread, [head.scheduling, lambda n=number: anna.stop(n)])
        worker.beat(*(killed(process, KilledBy.USER) for process in worker.orders()))
        record = anna.job(number)
        assert (record["state"], record["outcome"]) == ("ended", "stopped")
        assert len(record["processes"]) in (0, 2)
        assert held(head) == []


class TestOnPostgres:
    """Cases that need a database with row locks."""

    @pytest.fixture
    def database_url(self, postgres_url: str) -> str:
        return postgres_url

    def test_a_second_stop_waits_and_succeeds(
        self,
        head: Head,
        a_node: Callable[..., Worker],
        a_placed_job: Callable[..., int],
        anna: Person,
        in_thread: InThread,
        postgres_url: str,
    ) -> None:
        a_node()
        number = a_placed_job()
        assert anna.get("/me").status_code == 200
        with head.database.write() as session:
            stop(session, number)
            second = in_thread(lambda: anna.stop(number))
            wait_for_blocked(postgres_url)
        assert second().status_code == 200

    def test_a_returning_node_and_a_stop_do_not_deadlock(
        self,
        head: Head,
        a_node: Callable[..., Worker],
        a_placed_job: Callable[..., int],
        anna: Person,
        in_thread: InThread,
        postgres_url: str,
    ) -> None:
        worker = a_node()
        number = a_placed_job()
        process = next(iter(worker.orders()))
        with head.database.write() as session:
            nodes.set_state(session, 1, NodeState.OFFLINE, now=NOW)
        with head.database.write() as session:
            stop(session, number)
            beat = in_thread(lambda: worker.beat(running(process)))
            wait_for_blocked(postgres_url)
        beat()
        assert anna.job(number)["state"] == "stopping"


def stop(session: Session, number: int) -> None:
    root = Caller(user_id=99, node_id=None, name="root", is_admin=True)
    jobs.stop(session, root, number, now=NOW)
