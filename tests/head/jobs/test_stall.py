"""Jobs that do nothing: found by their samples, told once, stopped if the user asked for it."""

from collections.abc import Callable
from typing import Any

import pytest

from pit_protocol.messages.beat import OrderAction, Usage
from pit_protocol.states import KilledBy
from pit_server.context import Head
from tests.head.jobs.test_lifecycle import illegal_moves
from tests.support.clusters.head import ONE_DATABASE, Person, Worker, a_submission, ended, running

BEGIN = 1_800_000_000.0
WHY = "no process has written output or used a core or GPU for 5m"


class Run:
    """A job with processes that report what a test says, every half minute."""

    def __init__(self, workers: list[Worker], clock: list[float]) -> None:
        self._clock = clock
        self._processes = {worker: list(worker.orders()) for worker in workers}
        for worker, processes in self._processes.items():
            worker.beat(*(running(process, started_at=clock[0]) for process in processes))

    def report(
        self, minutes: float, *, log_size: int = 0, silent: Worker | None = None, **usage: float
    ) -> None:
        for _ in range(int(minutes * 2)):
            self._clock[0] += 30
            for worker, processes in self._processes.items():
                if worker is not silent:
                    use = Usage(**{"cpu_percent": 0.5, "memory_mib": 100.0, **usage})
                    worker.beat(*(running(each, usage=use, log_size=log_size) for each in processes))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    clock = [BEGIN]
    monkeypatch.setattr("pit_server.api.routes.worker.sessions.time.time", lambda: clock[0])
    return clock


@pytest.fixture
def a_run(a_placed_job: Callable[..., int], clock: list[float]) -> Callable[..., tuple[int, Run]]:
    def build(*workers: Worker, request: str = "[]", **options: Any) -> tuple[int, Run]:
        number = a_placed_job(request, **{"stall": "5m", **options})
        return number, Run(list(workers), clock)

    return build


def events(anna: Person, number: int) -> list[str]:
    return [event["event"] for event in anna.job(number)["events"]]


def test_a_job_that_does_nothing_is_told_once_and_goes_on(
    node: Worker, anna: Person, a_run: Callable[..., tuple[int, Run]]
) -> None:
    number, run = a_run(node)
    began = anna.job(number)["since"]
    run.report(4.5)
    assert "stalled" not in events(anna, number)
    run.report(3)
    assert events(anna, number).count("stalled") == 1
    assert f"stalled: {WHY}" in [line["text"] for line in anna.log(number)["lines"]]
    job = anna.job(number)
    assert (job["state"], job["since"], illegal_moves(job)) == ("running", began, [])
    run.report(0.5, cpu_percent=100.0)
    run.report(6)
    assert events(anna, number).count("stalled") == 2


@pytest.mark.parametrize("use", [{"cpu_percent": 50.0}, {"gpu_percent": 5.0}, {"log_size": 10}])
@ONE_DATABASE
def test_any_use_or_output_counts(
    node: Worker, anna: Person, a_run: Callable[..., tuple[int, Run]], use: dict[str, Any]
) -> None:
    number, run = a_run(node)
    run.report(4)
    run.report(0.5, **use)
    run.report(4)
    assert "stalled" not in events(anna, number)


def test_one_busy_or_silent_process_is_enough(
    a_node: Callable[..., Worker], anna: Person, a_run: Callable[..., tuple[int, Run]]
) -> None:
    first, second = a_node("n0"), a_node("n1")
    number, run = a_run(first, second, request="[]@n0,[]@n1")
    run.report(10, silent=second)
    assert "stalled" not in events(anna, number)
    run.report(1)
    assert "stalled" in events(anna, number)


def test_a_stalled_job_is_stopped_if_asked_for(
    head: Head, node: Worker, anna: Person, a_run: Callable[..., tuple[int, Run]]
) -> None:
    number, run = a_run(node, stall="5m:stop", retry=2, retry_on=[143])
    run.report(5.5)
    ((process, order),) = node.orders().items()
    assert (order.action, order.killed_by) == (OrderAction.STOP, KilledBy.STALL)
    node.beat(ended(process, None, signal=15, killed_by=KilledBy.STALL))
    job = anna.job(number)
    assert (job["state"], job["outcome"], job["reason"]) == ("ended", "failed", f"stalled: {WHY}")
    assert illegal_moves(job) == []


@ONE_DATABASE
@pytest.mark.parametrize(
    ("stall", "message"),
    [
        ("10s", "--stall: 10s is too short: write 2m or more"),
        ("5m:kill", "--stall: 'kill' is not what happens then: write 5m:stop, or 5m to be told"),
    ],
)
def test_wrong_rules_are_refused(anna: Person, node: Worker, stall: str, message: str) -> None:
    answer = anna.post("/jobs", json=a_submission(stall=stall))
    assert (answer.status_code, answer.json["message"]) == (422, message)
