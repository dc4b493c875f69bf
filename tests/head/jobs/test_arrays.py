"""Arrays: one object of many elements, each started once, in order and within its limit."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, inspect, select
from sqlalchemy.exc import IntegrityError

from pit_protocol.arrays.numbers import element_number
from pit_protocol.messages.beat import Order, Report
from pit_protocol.states import ProcessState
from pit_server.app import create_app, create_head
from pit_server.context import Head
from pit_server.db.models import Job, Process
from pit_server.scheduler.capacity import Share
from pit_server.scheduler.passes import JobPlacement
from pit_server.scheduler.placement import ProcessPlacement
from pit_server.scheduler.plan import Plan
from pit_server.services.incarnation import restored_jobs
from pit_server.services.jobs.processes import plan_commit
from pit_server.settings import Settings
from pit_server.store.log_stream import process_log
from tests.support.clusters.head import (
    NOW,
    ONE_DATABASE,
    Person,
    Worker,
    a_submission,
    ended,
    prepare,
    running,
)

AnArray = Callable[..., int]


@pytest.fixture
def an_array(a_waiting_job: Callable[..., int]) -> AnArray:
    def build(array: str | None = "0-3", **fields: Any) -> int:
        return a_waiting_job(fields.pop("request", "[]"), array=array, **fields)

    return build


def indices(worker: Worker) -> dict[int, Order]:
    """The elements that a node is to run, by index."""
    return {int(order.spec.env["PIT_ARRAY_INDEX"]): order for order in worker.orders().values() if order.spec}


def end(worker: Worker, order: Order, exit_code: int = 0) -> None:
    worker.beat(running(order.process), ended(order.process, exit_code))


def element(anna: Person, name: str) -> dict[str, Any]:
    answer = anna.get(f"/jobs/{name}")
    assert answer.status_code == 200, answer.json
    return dict(answer.json)


def count_rows(head: Head) -> int:
    with head.database.read() as session:
        return session.execute(select(func.count(Job.id)).where(Job.array_job.is_not(None))).scalar_one()


def test_an_array_is_one_job_whose_elements_have_rows_from_their_start_on(
    head: Head, node: Worker, anna: Person, an_array: AnArray
) -> None:
    number = an_array("0-99%3")
    assert count_rows(head) == 0
    assert head.scheduling() == 0.0  # there may be more to start
    assert count_rows(head) == 3
    orders = indices(node)
    assert list(orders) == [0, 1, 2]
    head.scheduling()
    job = anna.job(number)
    assert (job["state"], job["elements"]["running"], job["elements"]["waiting"]) == ("starting", 3, 97)
    assert job["reason"] == "3 of its elements run, and %3 allows no more at a time"
    shown = anna.ok(anna.get("/status"))
    assert [row["number"] for row in shown["running"]] == [number]
    assert [row["number"] for row in anna.ok(anna.get("/jobs"))["jobs"]] == [number]
    end(node, orders[1])
    head.scheduling()
    assert list(indices(node)) == [0, 2, 3]
    assert anna.job(number)["state"] == "running"


def test_elements_know_their_place_and_share_one_tree(
    head: Head, node: Worker, anna: Person, a_waiting_job: Callable[..., int]
) -> None:
    number = a_waiting_job(
        with_tree=True, sweep=["lr=1e-3,1e-4", "seed=0-2"], env={"A": "b"}, variables={"TOKEN": "t"}
    )
    assert head.data.array_tree(element_number(number, 4)).stat().st_mode & 0o222 == 0
    head.scheduling()
    spec = indices(node)[4].spec
    assert spec
    assert (spec.env["JOB_NUMBER"], spec.env["PIT_ARRAY_SIZE"]) == (str(number), "6")
    assert spec.variables == {"A": "b", "lr": "1e-4", "seed": "1", "TOKEN": "t"}
    assert spec.paths["SRC_DIR"] == f"jobs/{number}/1/src"
    assert spec.paths["KEEP_DIR"] == f"jobs/{number}/1/4/1/keep"
    assert (head.data.root / spec.paths["KEEP_DIR"]).is_dir()
    shown = element(anna, f"{number}.4")
    assert (shown["number"], shown["index"], shown["sweep"]) == (number, 4, {"lr": "1e-4", "seed": "1"})


def test_an_array_fails_if_an_element_did_and_says_how_many(
    head: Head, node: Worker, anna: Person, an_array: AnArray
) -> None:
    number = an_array("0-3")
    head.scheduling()
    for index, order in indices(node).items():
        end(node, order, exit_code=index % 2)
    job = anna.job(number)
    assert (job["state"], job["outcome"]) == ("ended", "failed")
    assert job["reason"] == "2 of 4 elements failed"
    assert [failed["index"] for failed in job["failed"]] == [1, 3]
    assert job["elements"] == {
        "size": 4, "waiting": 0, "running": 0, "succeeded": 2, "failed": 2, "stopped": 0
    }  # fmt: skip
    failed = anna.ok(anna.get(f"/jobs/{number}/elements?failed=yes"))["elements"]
    assert [one["index"] for one in failed] == [1, 3]


def test_a_rerun_of_failed_elements_keeps_their_indices_and_the_size(
    head: Head, node: Worker, anna: Person, an_array: AnArray
) -> None:
    number = an_array("0-3", with_tree=True)
    head.scheduling()
    for index, order in indices(node).items():
        end(node, order, exit_code=index % 2)
    again = anna.submit(snapshot=None, reruns=number, array="1,3/4")
    prepare(head, again)
    head.scheduling()
    orders = indices(node)
    assert {index: order.spec.env["PIT_ARRAY_SIZE"] for index, order in orders.items() if order.spec} == {
        1: "4", 3: "4"
    }  # fmt: skip
    for order in orders.values():
        end(node, order)
    job = anna.job(again)
    assert (job["outcome"], job["elements"]["size"]) == ("succeeded", 2)


def test_one_stop_stops_all_elements_and_starts_no_more(
    head: Head, node: Worker, anna: Person, an_array: AnArray
) -> None:
    number = an_array("0-9%2")
    head.scheduling()
    first, second = indices(node).values()
    end(node, first)
    anna.ok(anna.stop(number))
    head.scheduling()
    assert anna.job(number)["state"] == "stopping"
    assert count_rows(head) == 2
    node.beat(ended(second.process, None, signal=15))
    job = anna.job(number)
    assert (job["state"], job["outcome"], job["reason"]) == ("ended", "stopped", "by anna")
    assert (job["elements"]["succeeded"], job["elements"]["stopped"]) == (1, 9)
    assert element(anna, f"{number}.7")["outcome"] == "stopped"
    waiting = an_array("0-9")
    assert anna.ok(anna.stop(waiting))["state"] == "ended"


def test_an_element_is_addressed_before_it_begins(
    head: Head, node: Worker, anna: Person, an_array: AnArray
) -> None:
    number = an_array("0-4%2")
    head.scheduling()
    assert element(anna, f"{number}.4")["state"] == "waiting"
    assert anna.ok(anna.post(f"/jobs/{number}.2/stop"))["outcome"] == "stopped"
    assert anna.post(f"/jobs/{number}.2/stop").json["code"] == "already_ended"
    first, second = indices(node).values()
    anna.ok(anna.post(f"/jobs/{number}.1/stop"))
    node.beat(ended(second.process, None, signal=15))
    end(node, first)
    head.scheduling()
    assert list(indices(node)) == [3, 4]
    for order in indices(node).values():
        end(node, order)
    job = anna.job(number)
    assert (job["outcome"], job["reason"]) == ("stopped", "2 of 5 elements were stopped")
    assert anna.get(f"/jobs/{number}.5").json["message"] == f"there is no element {number}.5"
    assert anna.delete(f"/jobs/{number}.1").json["code"] == "is_element"


def test_an_array_whose_elements_were_all_stopped_has_ended(
    head: Head, node: Worker, anna: Person, an_array: AnArray
) -> None:
    number = an_array("0-1")
    for index in (1, 0):
        anna.ok(anna.post(f"/jobs/{number}.{index}/stop"))
    assert (anna.job(number)["state"], anna.job(number)["outcome"]) == ("ended", "stopped")
    head.scheduling()
    assert indices(node) == {}


def test_the_database_refuses_a_second_row_of_an_element(head: Head, node: Worker, an_array: AnArray) -> None:
    number = an_array()
    head.scheduling()
    with pytest.raises(IntegrityError), head.database.write() as session:
        row = session.get_one(Job, element_number(number, 0))
        values = {name: getattr(row, name) for name in inspect(Job).columns.keys()}  # noqa: SIM118
        session.add(Job(**{**values, "id": 999, "submission_key": "another"}))
        session.flush()


def test_a_plan_that_is_stale_neither_loses_nor_doubles_an_element(
    head: Head, node: Worker, anna: Person, an_array: AnArray
) -> None:
    number = an_array("0-3")
    share = Share(None, None, ())
    plan = Plan(
        tuple(
            JobPlacement(element_number(number, index), (ProcessPlacement(0, 0, 1, share),))
            for index in (1, 0, 0, 2)
        )
    )
    placed = plan_commit.commit(head.database, plan, head.settings, now=NOW)
    assert placed == [element_number(number, 0)]  # 1 came too early, and 2 after a gap
    head.scheduling()
    assert list(indices(node)) == [0, 1, 2, 3]


def test_a_head_that_restarts_goes_on_where_the_last_one_was(
    head: Head, node: Worker, anna: Person, an_array: AnArray, settings: Settings
) -> None:
    number = an_array("0-7%2")
    started: list[int] = []
    for _ in range(4):
        again = create_head(settings)
        app = create_app(again)
        node.app = app
        again.scheduling()
        orders = indices(node)
        started += orders
        for order in orders.values():
            end(node, order)
        again.wakeups.close()
        again.database.dispose()
    assert started == list(range(8))
    assert anna.job(number)["outcome"] == "succeeded"
    with head.database.read() as session:
        assert session.execute(select(func.count(Process.id))).scalar_one() == 8


def test_elements_that_ran_after_a_backup_do_not_run_again(
    head: Head, node: Worker, anna: Person, an_array: AnArray
) -> None:
    number = an_array("0-3")
    for index in (0, 2):  # the restored database does not know that these have begun
        process_log(head.data, element_number(number, index), 1, 0, 0).touch()
    with head.database.write() as session:
        ended = restored_jobs.settle(session, head.data, now=NOW)
    assert ended == [element_number(number, 0), element_number(number, 2)]
    head.scheduling()
    assert list(indices(node)) == [1, 3]
    assert element(anna, f"{number}.2")["outcome"] == "lost"


def test_an_element_that_its_node_could_not_start_is_requeued_alone(
    head: Head, node: Worker, anna: Person, an_array: AnArray
) -> None:
    number = an_array("0-1", with_tree=True)
    head.scheduling()
    first, second = indices(node).values()
    node.beat(Report(first.process, 1, ProcessState.ENDED, reason="no disk", node_fault=True))
    end(node, second)
    prepare(head, element_number(number, 0))
    head.scheduling()
    (order,) = node.beat().orders
    assert order.attempt == 2
    assert order.spec
    assert order.spec.paths["JOB_DIR"] == f"jobs/{number}/1/0/2"
    node.beat(Report(order.process, 2, ProcessState.ENDED, exit_code=0))
    assert anna.job(number)["outcome"] == "succeeded"


def test_an_array_counts_as_one_waiting_job(
    head: Head, node: Worker, anna: Person, an_array: AnArray
) -> None:
    object.__setattr__(head, "settings", replace(head.settings, user_waiting_jobs=2))
    an_array("0-99")
    an_array("0-99")
    assert anna.post("/jobs", json=a_submission()).json["code"] == "too_many_jobs"


def test_users_take_turns_although_one_has_an_array(
    head: Head, a_node: Callable[..., Worker], a_user: Callable[..., Person], an_array: AnArray
) -> None:
    ben = a_user("ben")
    a_node(cores=2)
    an_array("0-99", request="[cpu]")
    number = ben.submit(request="[cpu]")
    prepare(head, number)
    head.scheduling()
    assert (ben.job(number)["state"], count_rows(head)) == ("starting", 1)


def test_the_queue_shows_an_array_once(
    head: Head, a_node: Callable[..., Worker], anna: Person, an_array: AnArray
) -> None:
    a_node(cores=1)
    number = an_array("0-99", request="[cpu]")
    head.scheduling()
    head.scheduling()
    queue = anna.ok(anna.get("/queue"))
    assert ([entry["number"] for entry in queue["jobs"]], queue["total"]) == ([number], 1)
    assert anna.job(number)["reason"] == f"needs 1 core, 0 free; job {number} holds them"


@ONE_DATABASE
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"array": "5-2"}, "the range 5-2 is empty"),
        ({"array": "0-5,3"}, "'0-5,3' names element 3 twice"),
        ({"array": "%8"}, "'%8' names no elements"),
        ({"array": "0-100000"}, "an array has at most 100,000 elements, and this has 100,001"),
        ({"array": "x"}, "'x' is not a range of elements"),
        ({"array": "0-9%0"}, "%0 would let no element run"),
        ({"array": "2000000"}, "there is no element 2000000"),
        ({"sweep": ["lr"]}, "'lr' is not a variable with values"),
        ({"sweep": ["lr=1,,2"]}, "--sweep lr has an empty value"),
        ({"sweep": ["lr=1,1"]}, "--sweep lr has the value 1 twice"),
        ({"sweep": ["lr=1", "lr=2"]}, "--sweep lr is given twice"),
        ({"sweep": ["a=0-999", "b=0-999"]}, "an array has at most 100,000 elements, and this has 1,000,000"),
        ({"sweep": ["RANK=1,2"]}, "RANK is set by pit itself"),
        ({"sweep": ["1a=1,2"]}, "'1a' is not a valid variable name"),
        ({"sweep": ["a=1,2"], "env": {"a": "3"}}, "a is given both by --sweep and by another option"),
        ({"sweep": ["a=1,2"], "array": "5"}, "the sweep has 2 elements, and there is no 5"),
        ({"array": "0-3", "continues": 1}, "an array cannot continue another job"),
    ],
)
def test_bad_arrays_are_refused_in_one_sentence(
    node: Worker, anna: Person, options: dict[str, Any], message: str
) -> None:
    answer = anna.post("/jobs", json=a_submission(**options))
    assert (answer.status_code, answer.json["message"]) == (422, message)
    assert anna.ok(anna.get("/jobs"))["total"] == 0
