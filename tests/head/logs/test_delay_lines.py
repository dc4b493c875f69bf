"""Lines of the log that say what keeps a job from going on."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import update

from pit_protocol.states import NodeState
from pit_server.api.http import context
from pit_server.context import Head
from pit_server.db.models import Attempt
from pit_server.services.nodes import nodes
from tests.support.clusters.head import ONE_DATABASE, Person, Worker, ended, running

pytestmark = ONE_DATABASE


def of_head(batch: dict[str, Any]) -> list[str]:
    return [line["text"] for line in batch["lines"] if line["source"] == "head"]


def test_a_follower_of_a_waiting_job_reads_why_it_waits(
    head: Head, a_node: Callable[..., Worker], a_waiting_job: Callable[..., int], anna: Person
) -> None:
    a_node(cores=2)
    first, second = a_waiting_job("[2:cpu]"), a_waiting_job("[cpu]")
    head.scheduling()
    batch = anna.log(second)
    assert of_head(batch)[-1] == f"waiting: needs 1 core, 0 free; job {first} holds them"
    assert anna.log(second, cursor=batch["cursor"])["lines"] == []


def test_a_follower_is_woken_when_the_scheduler_knows_the_reason(
    head: Head,
    a_node: Callable[..., Worker],
    a_waiting_job: Callable[..., int],
    anna: Person,
    in_thread: Callable[..., Callable[[], Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(context, "MAX_WAIT_S", 100.0)
    a_node(cores=2)
    a_waiting_job("[2:cpu]")
    second = a_waiting_job("[cpu]")
    cursor = anna.log(second)["cursor"]
    begun = time.monotonic()
    follower = in_thread(lambda: anna.log(second, cursor=cursor, wait_s=100))
    head.scheduling()
    assert of_head(follower())[0].startswith("waiting: needs 1 core")
    assert time.monotonic() - begun < 50


def test_a_record_is_answered_early_if_something_new_delays_the_job(
    head: Head, a_node: Callable[..., Worker], a_waiting_job: Callable[..., int], anna: Person
) -> None:
    a_node(cores=2)
    a_waiting_job("[2:cpu]")
    second = a_waiting_job("[cpu]")
    head.scheduling()
    record = anna.get(f"/jobs/{second}?wait_s=10&delay=").json
    assert record["reason"].startswith("needs 1 core")
    assert record["delay"]


@pytest.fixture
def a_silent_job(
    head: Head, a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
) -> tuple[int, Worker]:
    """A running job whose node has been silent for 40 s."""
    worker = a_node()
    number = a_placed_job()
    worker.beat(running(*worker.orders()))
    with head.database.write() as session:
        nodes.set_state(session, 1, NodeState.OFFLINE, now=time.time() - 40)
    return number, worker


def test_the_log_and_the_record_say_for_how_long_a_node_is_silent(
    a_silent_job: tuple[int, Worker], anna: Person
) -> None:
    number, _ = a_silent_job
    said = of_head(anna.log(number))[-1]
    assert said.startswith("n0 has been silent for 4")
    assert said.endswith("unless an admin gives it up (`pit remove node:n0 --lost`)")
    (shown,) = anna.get("/status").json["running"]
    assert shown["reason"].startswith("n0 has been silent for 4")
    assert anna.job(number)["reason"].startswith("n0 has been silent for 4")


def test_with_a_lease_the_log_says_when_the_processes_are_lost(
    head: Head, a_silent_job: tuple[int, Worker], anna: Person
) -> None:
    with head.database.write() as session:
        session.execute(update(Attempt).values(lost_after_s=300.0, grace_s=10.0))
    head.node_watch._silent[1] = time.monotonic() - 40
    assert of_head(anna.log(a_silent_job[0]))[-1].endswith(
        "; its processes are lost in 5 min unless it answers"
    )


def test_the_return_of_a_node_is_told(a_silent_job: tuple[int, Worker], anna: Person) -> None:
    number, worker = a_silent_job
    cursor = anna.log(number)["cursor"]
    worker.beat()
    long_ago = cursor[: cursor.rindex("-") + 1] + "1000"
    assert of_head(anna.log(number, cursor=long_ago)) == ["all its nodes answer again"]


def test_a_job_that_has_ended_is_not_delayed(a_silent_job: tuple[int, Worker], anna: Person) -> None:
    number, worker = a_silent_job
    (process,) = worker.orders()
    worker.beat(ended(process, 0))
    assert of_head(anna.log(number))[-1] == f"job {number} succeeded"
    assert anna.job(number)["reason"] == ""
