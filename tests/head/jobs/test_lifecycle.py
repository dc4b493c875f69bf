"""A job from its submission to its end."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import select

from pit_protocol.messages.beat import OrderAction
from pit_protocol.states import JOB_MOVES, PROCESS_MOVES, KilledBy
from pit_server.context import Head
from pit_server.db.models import Allocation
from pit_server.services.logs.event_text import STOPPED_BY_PROCESS
from tests.support.clusters.head import NOW, Person, Worker, a_chunk, ended, killed, prepare, running


@pytest.fixture
def worker(a_node: Callable[..., Worker]) -> Worker:
    return a_node(gpus={"A100": 8})


def held(head: Head) -> list[tuple[str, str | None]]:
    with head.database.read() as session:
        rows = session.execute(
            select(Allocation.kind, Allocation.unit).where(Allocation.released_at.is_(None))
        ).all()
    return [(row.kind, row.unit) for row in rows if row.kind != "port"]


def illegal_moves(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The job's events that are not in the state tables, or do not follow from the state before."""
    odd, where = [], {}
    for event in record["events"]:
        is_process = event["process"] is not None and event["event"] not in STOPPED_BY_PROCESS
        key = event["process"] if is_process else None
        moves: Any = PROCESS_MOVES if is_process else JOB_MOVES
        begins = event["from"] is None and key not in where
        legal = begins or moves.get((event["from"], event["event"])) == event["to"]
        if not legal or where.get(key) != event["from"]:
            odd.append(event)
        if event["event"] == "requeued":
            where = {}  # the processes of the next attempt are others
        where[key] = event["to"]
    return odd


def test_a_job_runs_from_submission_to_success(head: Head, worker: Worker, anna: Person) -> None:
    number = anna.submit(request="[2:a100,2:cpu,4:mem]", command="./train")
    prepare(head, number)
    assert anna.job(number)["state"] == "waiting"
    head.scheduling()
    assert anna.job(number)["state"] == "starting"
    (order,) = worker.beat().orders
    assert (order.action, order.spec.command, order.spec.job) == (OrderAction.RUN, "./train", number)
    assert (order.spec.cpus, order.spec.memory_mib, order.spec.units) == (2.0, 4096, ("A100-0", "A100-1"))
    worker.beat(running(order.process, started_at=NOW))
    assert anna.job(number)["state"] == "running"
    chunk = a_chunk(order.process, b"hello\n")
    (answer,) = worker.beat(ended(order.process, 0, log_size=6, ended_at=NOW + 1), chunks=[chunk]).orders
    assert answer.action is OrderAction.FORGET
    record = anna.job(number)
    assert (record["state"], record["outcome"], record["letters"]) == ("ended", "succeeded", "SUC")
    (process,) = record["processes"]
    assert (process["exit_code"], process["node"], process["host"]) == (0, "n0", "n0.lab")
    assert process["resources"] == ["a100 A100-0", "a100 A100-1", "2 cores", "4 GiB"]
    assert illegal_moves(record) == []
    with closing(anna.get(f"/jobs/{number}/archive")) as archive:
        assert archive.status_code == 200


def test_processes_get_each_others_addresses(head: Head, a_node: Callable[..., Worker], anna: Person) -> None:
    first, second = a_node("n0", gpus={"A100": 1}), a_node("n1", gpus={"A100": 1})
    number = anna.submit(request="[]@n0,2:[a100]")
    prepare(head, number)
    head.scheduling()
    specs = sorted(
        (order.spec for worker in (first, second) for order in worker.beat().orders), key=lambda s: s.rank
    )
    assert [(s.group, s.index, s.rank) for s in specs] == [(0, 0, 0), (1, 0, 1), (1, 1, 2)]
    env = specs[2].env
    assert (env["RANK"], env["WORLD_SIZE"], env["NUM_GROUPS"]) == ("2", "3", "2")
    assert (env["MASTER_ADDR"], env["GROUP_INDEX"], env["PROCESS_INDEX"]) == ("n0.lab", "1", "1")
    assert {env["HOST_GROUP1_PROCESS0"], env["HOST_GROUP1_PROCESS1"]} == {"n0.lab", "n1.lab"}
    assert len({spec.env["MASTER_PORT"] for spec in specs}) == 1
    assert sorted(specs[0].hostfile.splitlines()) == ["n0.lab slots=2", "n1.lab slots=1"]


@pytest.mark.parametrize(
    ("report", "outcome", "reason"),
    [
        ({"exit_code": 0}, "succeeded", ""),
        ({"exit_code": 3}, "failed", "worker 0 ended with exit code 3"),
        ({"exit_code": None, "signal": 9}, "failed", "worker 0 was killed by signal 9 (SIGKILL)"),
        ({"exit_code": None, "reason": "no such image"}, "failed", "worker 0 ended: no such image"),
        (
            {"exit_code": None, "killed_by": KilledBy.REBOOT, "reason": "the node was rebooted"},
            "lost",
            "worker 0 ended: the node was rebooted",
        ),
        (
            {"exit_code": 0, "killed_by": KilledBy.LEASE, "reason": "no word for 9 s"},
            "lost",
            "worker 0 ended: no word for 9 s",
        ),
    ],
)
def test_the_outcome_follows_from_how_the_process_ended(
    worker: Worker,
    a_placed_job: Callable[..., int],
    anna: Person,
    report: dict[str, Any],
    outcome: str,
    reason: str,
) -> None:
    number = a_placed_job()
    (process,) = worker.orders()
    worker.beat(running(process))
    worker.beat(ended(process, **report))
    record = anna.job(number)
    assert (record["state"], record["outcome"], record["reason"]) == ("ended", outcome, reason)
    assert illegal_moves(record) == []


def test_a_process_that_ends_before_it_was_seen_running_ends_its_job(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job()
    (process,) = worker.orders()
    worker.beat(ended(process, 0))
    assert anna.job(number)["outcome"] == "succeeded"


def test_one_failed_process_stops_the_others_and_is_the_reason(
    head: Head, worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job("3:[a100]")
    first, second, third = worker.orders()
    worker.beat(running(first), running(second), running(third))
    orders = {order.process: order for order in worker.beat(ended(second, 7)).orders}
    assert [orders[process].action for process in (first, second, third)] == [
        OrderAction.STOP,
        OrderAction.FORGET,
        OrderAction.STOP,
    ]
    assert orders[first].killed_by is KilledBy.JOB
    assert anna.job(number)["state"] == "stopping"
    worker.beat(ended(first, 9), killed(third, KilledBy.JOB))
    record = anna.job(number)
    assert (record["outcome"], record["reason"]) == ("failed", "worker 1 ended with exit code 7")
    assert [process["killed_by"] for process in record["processes"]] == [None, None, "job"]
    assert held(head) == []
    assert illegal_moves(record) == []


def test_a_job_ends_when_its_last_process_does(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job("2:[]")
    first, second = worker.orders()
    worker.beat(ended(first, 0))
    assert anna.job(number)["state"] == "starting"
    worker.beat(running(second))
    assert anna.job(number)["state"] == "running"
    worker.beat(ended(second, 0))
    assert anna.job(number)["outcome"] == "succeeded"


def test_allocations_are_released_when_the_process_ends(
    head: Head,
    worker: Worker,
    a_placed_job: Callable[..., int],
    a_waiting_job: Callable[..., int],
    anna: Person,
) -> None:
    ahead = a_placed_job("2:[4:a100]")
    behind = a_waiting_job("[4:a100]")
    head.scheduling()
    assert anna.job(behind)["reason"] == f"needs 4 a100, 0 free; job {ahead} holds them"
    first, _ = worker.orders()
    worker.beat(ended(first, 0))
    assert len(held(head)) == 4
    head.scheduling()
    assert anna.job(behind)["state"] == "starting"
    assert len(held(head)) == 8


def test_a_preparing_or_waiting_job_is_stopped_at_once(
    head: Head, worker: Worker, a_waiting_job: Callable[..., int], anna: Person
) -> None:
    jobs = anna.submit(), a_waiting_job()
    for number in jobs:
        answer = anna.stop(number)
        assert (answer.status_code, answer.json["state"], answer.json["outcome"]) == (200, "ended", "stopped")
        assert answer.json["reason"] == "by anna"
        prepare(head, number)
    head.scheduling()
    assert [anna.job(number)["state"] for number in jobs] == ["ended", "ended"]
    assert worker.beat().orders == ()


@pytest.mark.parametrize("seen_running", [False, True])
def test_a_running_job_is_stopped_by_its_worker(
    head: Head, worker: Worker, a_placed_job: Callable[..., int], anna: Person, seen_running: bool
) -> None:
    number = a_placed_job("[a100]")
    (process,) = worker.orders()
    if seen_running:
        worker.beat(running(process))
    assert anna.stop(number).json["state"] == "stopping"
    assert anna.stop(number).status_code == 200
    order = worker.orders()[process]
    assert (order.action, order.killed_by) == (OrderAction.STOP, KilledBy.USER)
    assert len(held(head)) == 1
    worker.beat(killed(process, KilledBy.USER))
    record = anna.job(number)
    assert (record["state"], record["outcome"], record["reason"]) == ("ended", "stopped", "by anna")
    assert held(head) == []
    assert illegal_moves(record) == []


def test_a_stopped_job_stays_stopped_whatever_its_exit_codes(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    for exit_code in (0, 1):
        number = a_placed_job()
        (process,) = worker.orders()
        anna.stop(number)
        worker.beat(ended(process, exit_code))
        assert anna.job(number)["outcome"] == "stopped"


def test_an_ended_job_cannot_be_stopped(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job()
    worker.beat(ended(next(iter(worker.orders())), 0))
    before = anna.job(number)
    answer = anna.stop(number)
    assert (answer.status_code, answer.json["code"]) == (409, "already_ended")
    assert anna.job(number) == before


def test_until_first_the_first_process_that_ends_well_is_enough(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job("3:[]", until="first")
    first, second, third = worker.orders()
    worker.beat(running(first), running(second), running(third))
    worker.beat(ended(second, 0))
    assert (anna.job(number)["state"], anna.job(number)["outcome"]) == ("stopping", "succeeded")
    orders = worker.orders()
    assert {orders[process].action for process in (first, third)} == {OrderAction.STOP}
    # One fails of the signal, the other had failed before it came.
    worker.beat(killed(first, KilledBy.JOB), ended(third, 1))
    job = anna.job(number)
    assert (job["state"], job["outcome"], job["reason"]) == ("ended", "succeeded", "worker 1 ended first")
    assert illegal_moves(job) == []
    lines = [line["text"] for line in anna.log(number)["lines"]]
    assert "stopping the others: worker 1 ended first" in lines


@pytest.mark.parametrize("until", ["first", "all", None])
def test_a_process_that_fails_before_any_ended_well_fails_the_job(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person, until: str | None
) -> None:
    number = a_placed_job("2:[]", until=until)
    first, second = worker.orders()
    worker.beat(ended(first, 3))
    worker.beat(ended(second, 0))
    assert anna.job(number)["outcome"] == "failed"


def test_without_until_first_a_job_waits_for_all_processes(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job("2:[]", until="all")
    first, second = worker.orders()
    worker.beat(running(first), running(second))
    worker.beat(ended(first, 0))
    assert anna.job(number)["state"] == "running"
    worker.beat(ended(second, 0))
    assert anna.job(number)["outcome"] == "succeeded"


def test_a_repeated_or_late_report_changes_nothing(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job()
    (process,) = worker.orders()
    worker.beat(running(process))
    worker.beat(ended(process, 0))
    before = anna.job(number)
    for late in (running(process), ended(process, 0), ended(process, 1), killed(process, KilledBy.REBOOT)):
        worker.beat(late)
    assert anna.job(number) == before


def test_a_held_record_is_answered_when_the_job_ends(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person, in_thread: Callable[..., Any]
) -> None:
    number = a_placed_job()
    (process,) = worker.orders()
    answer = in_thread(lambda: anna.get(f"/jobs/{number}?wait_s=30").json["state"])
    worker.beat(ended(process, 0))
    assert answer() == "ended"
