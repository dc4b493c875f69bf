"""Whose account processes run as: the head keeps several users off a node where all share one."""

import os
from collections.abc import Callable

import pytest

from pit_protocol.messages.beat import Account
from pit_server.context import Head
from pit_server.scheduler.plan import plan
from pit_server.services.jobs.processes import plan_commit
from pit_server.services.scheduling.queue import QueueReader
from tests.support.clusters.head import Person, Worker

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only a head that is root gives processes accounts")
WHY = "all users' jobs would run as lab there; an admin can allow that: `pit set node:n0 shared_account=yes`"
Node = Callable[..., Worker]


def test_a_single_users_jobs_run_on_a_node_with_one_account(
    anna: Person, a_node: Node, a_placed_job: Callable[..., int]
) -> None:
    worker = a_node(shared_account=False)
    assert anna.job(a_placed_job())["state"] == "starting"
    (order,) = worker.orders().values()
    assert order.spec is not None and order.spec.account is None
    assert anna.get("/nodes/n0").json["run_as"] == "lab"


def test_with_a_second_user_it_gets_no_jobs_until_an_admin_allows_it(
    head: Head, anna: Person, root: Person, a_node: Node, a_placed_job: Callable[..., int]
) -> None:
    a_node(shared_account=False)
    number = a_placed_job()
    assert anna.job(number)["reason"] == f"node n0 takes no new processes: {WHY}"
    assert anna.get("/nodes/n0").json["trouble"] == WHY
    root.ok(root.patch("/nodes/n0", shared_account="yes"))
    head.scheduling()
    assert anna.job(number)["state"] == "starting"
    assert anna.get("/nodes/n0").json["trouble"] == ""


def test_a_user_who_is_not_active_does_not_count(
    head: Head, anna: Person, root: Person, a_node: Node, a_waiting_job: Callable[..., int]
) -> None:
    a_node(shared_account=False)
    root.ok(root.put("/users/bert", full_name="Bert"))
    root.ok(root.patch("/users/bert", active="no"))
    root.ok(root.patch("/users/anna", admin="yes"))
    anna.ok(anna.patch("/users/root", active="no"))
    number = a_waiting_job()
    head.scheduling()
    assert anna.job(number)["state"] == "starting"


def test_a_plan_from_before_the_second_user_is_not_committed(
    head: Head, anna: Person, a_user: Callable[..., Person], a_node: Node, a_waiting_job: Callable[..., int]
) -> None:
    a_node(shared_account=False)
    a_waiting_job()
    with head.database.read() as session:
        found = QueueReader(head.settings).read(session, now=1.0)
    decided = plan(found.given)
    assert decided.placements
    a_user("bert")
    assert plan_commit.commit(head.database, decided, head.settings, now=1.0) == []


@ROOT
@pytest.mark.parametrize("runtime", ["process", "docker"])
def test_files_of_a_job_belong_to_its_user_wherever_it_runs(
    head: Head, anna: Person, root: Person, a_node: Node, a_placed_job: Callable[..., int], runtime: str
) -> None:
    worker = a_node(runtime=runtime, separates_users=True, shared_account=False)
    number = a_placed_job(with_tree=True)
    (order,) = worker.orders().values()
    uid = anna.get("/me").json["uid"]
    assert order.spec is not None and order.spec.account == Account(uid, uid)
    for place in (head.data.attempt(number, 1), head.data.home("anna")):
        assert (place.stat().st_uid, place.stat().st_mode & 0o777) == (uid, 0o700)
    assert anna.get("/nodes/n0").json["run_as"] == "user"


@ROOT
def test_a_tree_from_before_the_first_such_node_is_handed_over_when_it_is_placed(
    head: Head, anna: Person, a_node: Node, a_waiting_job: Callable[..., int]
) -> None:
    a_node("n0")
    number = a_waiting_job(with_tree=True)
    assert (head.data.attempt(number, 1) / "src").stat().st_uid == 0
    worker = a_node("n0", separates_users=True)
    head.scheduling()
    (order,) = worker.orders().values()
    assert order.spec is not None and order.spec.account is not None
    assert (head.data.attempt(number, 1) / "src").stat().st_uid == order.spec.account.uid


def test_a_process_knows_its_users_name(anna: Person, a_node: Node, a_placed_job: Callable[..., int]) -> None:
    worker = a_node()
    a_placed_job()
    (order,) = worker.orders().values()
    assert order.spec is not None
    assert (order.spec.env["USER"], order.spec.env["LOGNAME"]) == ("anna", "anna")
