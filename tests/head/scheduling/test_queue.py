"""The order of the queue: priorities, fair share, and what `pit show queue` gets."""

from collections.abc import Callable

import pytest
from sqlalchemy import update

from pit_server.context import Head
from pit_server.db.models import Allocation, Attempt
from pit_server.services.scheduling.fair_share import FairShare
from tests.support.clusters.head import NOW, Person, Worker, a_submission, ended


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
    a_waiting_job("[a100]", after=[{"job": running, "when": "ok"}])
    head.scheduling()
    queue = anna.ok(anna.get("/queue"))
    assert [entry["number"] for entry in queue["jobs"]] == [first, second]
    assert (queue["total"], queue["held"]) == (2, 1)
    assert queue["jobs"][0]["user_use"] < queue["jobs"][1]["user_use"]
    assert queue["jobs"][0]["starts_by"] is not None
    assert queue["jobs"][0]["reason"] == f"needs 2 a100, 0 free; job {running} holds them"


def test_a_job_of_high_priority_comes_first(
    head: Head,
    worker: Worker,
    anna: Person,
    root: Person,
    a_placed_job: Callable[..., int],
    a_waiting_job: Callable[..., int],
) -> None:
    a_placed_job("[2:a100]")
    root.ok(root.patch("/users/anna", max_priority="high"))
    normal, high = a_waiting_job("[a100]"), a_waiting_job("[a100]", priority="high")
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


def test_a_priority_above_what_the_user_may_give_is_refused(anna: Person, root: Person, node: Worker) -> None:
    assert anna.patch("/users/me", max_priority="high").status_code == 403
    refused = root.patch("/users/anna", max_priority="top")
    assert refused.json["message"] == "max_priority must be one of low, normal, high, not 'top'"
    refused = anna.post("/jobs", json=a_submission(priority="high"))
    assert refused.status_code == 403
    assert refused.json["message"] == "you may submit jobs with a priority up to normal, not high"
    assert refused.json["hint"] == "an admin can allow it: `pit set user:anna max_priority=high`"
    assert root.ok(root.post("/jobs", json=a_submission(priority="high")))["options"]["priority"] == "high"


def test_a_job_without_priority_gets_the_highest_that_is_not_above_normal(
    anna: Person, root: Person, node: Worker
) -> None:
    root.ok(root.patch("/users/anna", max_priority="low"))
    assert anna.job(anna.submit())["options"]["priority"] == "low"
    root.ok(root.patch("/users/anna", max_priority="high"))
    assert anna.job(anna.submit())["options"]["priority"] is None


def test_a_job_with_spread_uses_a_node_for_each_process(
    head: Head, anna: Person, a_node: Callable[..., Worker], a_waiting_job: Callable[..., int]
) -> None:
    for name in ("n0", "n1"):
        a_node(name, gpus={"A100": 2})
    number = a_waiting_job("2:[a100]", spread=True)
    head.scheduling()
    assert {process["node"] for process in anna.job(number)["processes"]} == {"n0", "n1"}
