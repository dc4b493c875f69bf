"""The order of the queue: priorities, fair share, and what `pit show queue` gets."""

from collections.abc import Callable

import pytest
from sqlalchemy import select, update

from pit_server.context import Head
from pit_server.db.models import Allocation, Attempt, Job, User
from pit_server.services.scheduling.fair_share import FairShare
from tests.support.clusters.head import NOW, Person, Worker, ended


@pytest.fixture
def worker(a_node: Callable[..., Worker]) -> Worker:
    return a_node(gpus={"A100": 2})


def test_the_queue_is_shown_in_order_with_its_factors(
    head: Head,
    worker: Worker,
    anna: Person,
    a_placed_job: Callable[..., int],
    a_waiting_job: Callable[..., int],
) -> None:
    running = a_placed_job("[2:a100]")
    first, second = a_waiting_job("[2:a100]"), a_waiting_job("[a100]")
    head.scheduling()
    queue = anna.ok(anna.get("/queue"))
    assert [entry["number"] for entry in queue["jobs"]] == [first, second]
    assert queue["total"] == 2
    assert queue["jobs"][0]["user_use"] < queue["jobs"][1]["user_use"]
    assert queue["jobs"][0]["starts_by"] is not None
    assert queue["jobs"][0]["reason"] == f"needs 2 a100, 0 free; job {running} holds them"


def test_a_job_of_high_priority_comes_first(
    head: Head,
    worker: Worker,
    anna: Person,
    a_placed_job: Callable[..., int],
    a_waiting_job: Callable[..., int],
) -> None:
    a_placed_job("[2:a100]")
    normal, high = a_waiting_job("[a100]"), a_waiting_job("[a100]")
    with head.database.write() as session:
        session.execute(update(Job).where(Job.id == high).values(options={"priority": "high"}))
    head.scheduling()
    entries = anna.ok(anna.get("/queue"))["jobs"]
    assert [(entry["number"], entry["priority"]) for entry in entries] == [(high, "high"), (normal, "normal")]


def test_a_job_that_one_may_not_see_is_in_the_queue_without_its_number(
    head: Head,
    worker: Worker,
    a_user: Callable[..., Person],
    a_placed_job: Callable[..., int],
    a_waiting_job: Callable[..., int],
) -> None:
    a_placed_job("[2:a100]")
    a_waiting_job("[a100]")
    head.scheduling()
    bob = a_user("bob")
    (entry,) = bob.ok(bob.get("/queue"))["jobs"]
    assert (entry["number"], entry["user"], entry["request"], entry["reason"]) == (None, "anna", "", "")


def test_use_is_weighted_and_decays(
    head: Head, worker: Worker, anna: Person, a_placed_job: Callable[..., int]
) -> None:
    number = a_placed_job("[2:a100]")
    with head.database.write() as session:
        session.execute(update(Attempt).where(Attempt.job_id == number).values(created_at=NOW - 3600))
    ledger = FairShare(head.settings)
    with head.database.read() as session:
        running = ledger.usage(session, NOW).users["anna"]
    assert running == pytest.approx(2 * 3600, rel=0.01)
    worker.beat(*(ended(process) for process in worker.orders()))
    with head.database.write() as session:
        session.execute(update(Allocation).values(released_at=NOW))
    with head.database.read() as session:
        assert ledger.usage(session, NOW).users["anna"] == pytest.approx(running, rel=0.01)
        half_life_s = head.settings.half_life_days * 86400
        assert ledger.usage(session, NOW + half_life_s).users["anna"] == pytest.approx(running / 2, rel=0.01)


def test_a_group_is_charged_for_its_users(
    head: Head, worker: Worker, anna: Person, root: Person, a_placed_job: Callable[..., int]
) -> None:
    assert root.patch("/users/anna", share_group="vision").status_code == 404
    root.ok(root.put("/groups/vision"))
    refused = root.patch("/users/anna", share_group="vision")
    assert refused.json["message"] == "user anna is not a member of vision"
    root.ok(root.put("/users/anna/groups/vision"))
    assert root.ok(root.patch("/users/anna", share_group="vision"))["share_group"] == "vision"
    a_placed_job("[a100]")
    with head.database.write() as session:
        session.execute(update(Attempt).values(created_at=NOW - 60))
    with head.database.read() as session:
        usage = FairShare(head.settings).usage(session, NOW)
    assert usage.groups == {"vision": usage.users["anna"]}
    root.ok(root.delete("/users/anna/groups/vision"))
    assert root.ok(root.get("/users/anna"))["share_group"] == ""


def test_only_those_who_may_give_a_high_priority(head: Head, anna: Person, root: Person) -> None:
    assert anna.patch("/users/me", max_priority="high").status_code == 403
    refused = root.patch("/users/anna", max_priority="top")
    assert refused.json["message"] == "max_priority must be one of low, normal, high, not 'top'"
    root.ok(root.patch("/users/anna", max_priority="high"))
    with head.database.read() as session:
        assert session.execute(select(User.max_priority).where(User.name == "anna")).scalar_one() == "high"


def test_a_job_with_spread_uses_a_node_for_each_process(
    head: Head, anna: Person, a_node: Callable[..., Worker], a_waiting_job: Callable[..., int]
) -> None:
    for name in ("n0", "n1"):
        a_node(name, gpus={"A100": 2})
    number = a_waiting_job("2:[a100]")
    with head.database.write() as session:
        session.execute(update(Job).where(Job.id == number).values(options={"spread": True}))
    head.scheduling()
    assert {process["node"] for process in anna.job(number)["processes"]} == {"n0", "n1"}
