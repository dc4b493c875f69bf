"""Jobs of others: visible through groups, read-only, hidden when the membership ends."""

from collections.abc import Callable
from contextlib import closing

import pytest
from werkzeug.test import TestResponse

from pit_server.context import Head
from pit_server.services.users.permissions import PERMISSIONS, Action, Relation
from tests.support.clusters.head import Person, Worker, a_submission, ended


@pytest.fixture
def berta(a_user: Callable[..., Person]) -> Person:
    return a_user("berta")


@pytest.fixture
def shared(
    anna: Person,
    berta: Person,
    a_group: Callable[..., None],
    a_node: Callable[..., Worker],
    a_waiting_job: Callable[..., int],
) -> int:
    """A job of anna's that berta sees as a member of students."""
    a_node()
    a_group("students", "anna", "berta")
    number = a_waiting_job(with_tree=True)
    anna.ok(anna.call("PUT", f"/jobs/{number}/groups/students"))
    return number


def test_a_member_sees_a_shared_job_and_cannot_change_it(shared: int, anna: Person, berta: Person) -> None:
    assert berta.job(shared)["groups"] == ["students"]
    assert [job["number"] for job in berta.get("/jobs").json["jobs"]] == [shared]
    assert berta.get("/status").json["totals"]["waiting"] == 1
    assert berta.get(f"/jobs/{shared}/log").status_code == 200
    with closing(berta.get(f"/jobs/{shared}/archive")) as answer:
        assert answer.status_code == 200
    for answer in (
        berta.stop(shared),
        berta.delete(f"/jobs/{shared}"),
        berta.patch(f"/jobs/{shared}", title="mine"),
        berta.delete(f"/jobs/{shared}/groups/students"),
    ):
        assert (answer.status_code, answer.json["message"]) == (
            403,
            f"job {shared}: only owners and admins may",
        )
    anna.ok(anna.stop(shared))
    assert berta.post("/jobs", json=a_submission(continues=shared)).status_code == 201


@pytest.mark.threat("S14")
def test_leaving_the_group_hides_the_job_at_once(
    shared: int,
    root: Person,
    berta: Person,
    in_thread: Callable[..., Callable[[], TestResponse]],
    anna: Person,
) -> None:
    held = in_thread(lambda: berta.get(f"/jobs/{shared}?wait_s=10"))
    root.ok(root.delete("/users/berta/groups/students"))
    assert berta.get(f"/jobs/{shared}").status_code == 404
    assert berta.get("/jobs").json["total"] == 0
    anna.ok(anna.stop(shared))
    assert held().status_code == 404


def test_an_unshared_job_is_hidden_from_others(shared: int, anna: Person, berta: Person) -> None:
    anna.ok(anna.delete(f"/jobs/{shared}/groups/students"))
    assert berta.get(f"/jobs/{shared}").status_code == 404
    assert anna.delete(f"/jobs/{shared}/groups/students").json["code"] == "not_shared"


def test_a_user_shares_only_with_their_own_groups(
    root: Person,
    anna: Person,
    a_group: Callable[..., None],
    a_node: Callable[..., Worker],
    a_waiting_job: Callable[..., int],
) -> None:
    a_node()
    a_group("others")
    number = a_waiting_job()
    assert anna.call("PUT", f"/jobs/{number}/groups/others").json["code"] == "not_allowed"
    assert anna.call("PUT", f"/jobs/{number}/groups/none").json["code"] == "no_such_group"
    root.ok(root.call("PUT", f"/jobs/{number}/groups/others"))


def test_autoshared_jobs_are_seen_and_private_ones_are_not(
    anna: Person, berta: Person, a_group: Callable[..., None], a_node: Callable[..., Worker]
) -> None:
    a_node()
    a_group("students", "anna", "berta")
    before = anna.submit()
    anna.ok(anna.patch("/users/me", autoshare="students"))
    assert anna.get("/me").json["autoshare"] == ["students"]
    shared, private = anna.submit(), anna.submit(private=True)
    answers = [berta.get(f"/jobs/{number}").status_code for number in (before, shared, private)]
    assert answers == [404, 200, 404]
    anna.ok(anna.patch("/users/me", autoshare=""))
    assert berta.get(f"/jobs/{anna.submit()}").status_code == 404


def test_a_removed_job_is_gone(
    anna: Person, root: Person, a_node: Callable[..., Worker], a_waiting_job: Callable[..., int]
) -> None:
    a_node()
    number = a_waiting_job(with_tree=True)
    assert anna.delete(f"/jobs/{number}").json["message"] == f"job {number} is still waiting"
    anna.ok(anna.stop(number))
    anna.ok(anna.delete(f"/jobs/{number}"))
    for person in (anna, root):
        assert person.get(f"/jobs/{number}").status_code == 404
        assert person.get("/jobs").json["total"] == 0
        assert person.get("/status").json["totals"]["done"] == 0
    assert anna.delete(f"/jobs/{number}").status_code == 404


def test_a_jobs_title_can_be_changed(anna: Person, a_node: Callable[..., Worker]) -> None:
    a_node()
    number = anna.submit()
    assert anna.ok(anna.patch(f"/jobs/{number}", title="Second light"))["title"] == "Second light"
    assert anna.patch(f"/jobs/{number}", request="[]").json["code"] == "unknown_property"


def test_a_process_gets_its_users_group_directories(
    anna: Person,
    berta: Person,
    a_group: Callable[..., None],
    a_node: Callable[..., Worker],
    a_placed_job: Callable[..., int],
) -> None:
    worker = a_node()
    a_group("deep-learning", "anna")
    a_group("others", "berta")
    a_placed_job()
    (order,) = worker.orders().values()
    assert order.spec is not None
    assert order.spec.paths["DEEP_LEARNING_GROUP_DIR"] == "groups/deep-learning"
    assert not [name for name in order.spec.paths if name.startswith("OTHERS")]


@pytest.mark.threat("S17")
def test_membership_counts_when_the_process_starts(
    root: Person,
    anna: Person,
    head: Head,
    a_group: Callable[..., None],
    node: Worker,
    a_waiting_job: Callable[..., int],
) -> None:
    a_group("left", "anna")
    a_group("joined")
    a_waiting_job()
    root.ok(root.delete("/users/anna/groups/left"))
    root.ok(root.put("/users/anna/groups/joined"))
    head.scheduling()
    (order,) = node.orders().values()
    assert order.spec is not None
    assert [name for name in order.spec.paths if name.endswith("_GROUP_DIR")] == ["JOINED_GROUP_DIR"]


def test_a_node_kept_for_a_group_is_used_by_its_members_alone(
    root: Person,
    anna: Person,
    berta: Person,
    head: Head,
    a_group: Callable[..., None],
    a_node: Callable[..., Worker],
) -> None:
    worker = a_node(gpus={"A100": 2})
    a_group("students", "berta")
    root.ok(root.put("/nodes/n0/groups/students"))
    refused = anna.post("/jobs", json=a_submission(request="[]"))
    assert refused.status_code == 422
    assert (
        "no node is open for you; others are reserved for groups that you are no member of"
        in refused.json["message"]
    )
    assert berta.post("/jobs", json=a_submission(request="[a100]")).status_code == 201
    root.ok(root.delete("/nodes/n0/groups/students"))
    root.ok(root.put("/nodes/n0/resources/1/groups/students"))
    assert anna.post("/jobs", json=a_submission(request="[2:a100]")).status_code == 422
    assert anna.post("/jobs", json=a_submission(request="[a100]")).status_code == 201
    assert worker.orders() == {}


def test_the_scheduler_gives_kept_resources_to_members_only(
    root: Person,
    anna: Person,
    berta: Person,
    head: Head,
    a_group: Callable[..., None],
    a_node: Callable[..., Worker],
    a_placed_job: Callable[..., int],
) -> None:
    a_node(gpus={"A100": 2})
    a_group("students", "berta")
    root.ok(root.put("/nodes/n0/resources/0/groups/students"))
    first, second = a_placed_job("[gpu]"), a_placed_job("[a100]")
    assert anna.job(first)["processes"][0]["resources"] == ["a100 A100-1"]
    assert anna.job(second)["state"] == "waiting"
    assert anna.job(second)["reason"] == f"needs 1 a100, 0 free for you; job {first} holds them"
    resources = anna.get("/nodes/n0").json["resources"]
    assert [(r["groups"], r["job"]) for r in resources] == [(["students"], None), ([], first)]


def test_a_job_waits_when_its_user_lost_access_to_a_resource(
    root: Person,
    anna: Person,
    head: Head,
    a_group: Callable[..., None],
    a_node: Callable[..., Worker],
    a_waiting_job: Callable[..., int],
) -> None:
    worker = a_node()
    a_group("students", "anna")
    root.ok(root.put("/nodes/n0/groups/students"))
    number = a_waiting_job()
    root.ok(root.delete("/users/anna/groups/students"))
    head.scheduling()
    assert anna.job(number)["state"] == "waiting"
    root.ok(root.put("/users/anna/groups/students"))
    head.scheduling()
    (process,) = worker.orders()
    worker.beat(ended(process))
    assert anna.job(number)["outcome"] == "succeeded"


def test_every_action_has_permissions_that_include_admins() -> None:
    assert set(PERMISSIONS) == set(Action)
    assert [action for action, relations in PERMISSIONS.items() if Relation.ADMIN not in relations] == []
