"""A node on which jobs of different users fail in a row takes no more jobs."""

from collections.abc import Callable
from typing import Any

import pytest

from pit_protocol.states import KilledBy
from pit_server.context import Head
from tests.support.clusters.head import ONE_DATABASE, Person, Worker, ended, running, skip_preparation

WHY = "the last 5 jobs that ended there failed, and they were of 3 users"


@pytest.fixture
def end_one(head: Head, node: Worker) -> Callable[..., None]:
    """Run a job of a user that ends like this, with exit code 1 if nothing is said."""

    def run(user: Person, **end: Any) -> None:
        skip_preparation(head, user.submit())
        head.scheduling()
        (process,) = node.orders()
        node.beat(running(process))
        node.beat(ended(process, **{"exit_code": 1, **end}))

    return run


@pytest.fixture
def users(a_user: Callable[..., Person]) -> list[Person]:
    return [a_user(name) for name in ("berta", "carl", "dora")]


def test_a_node_on_which_jobs_of_several_users_fail_is_drained(
    head: Head, node: Worker, root: Person, users: list[Person], end_one: Callable[..., None]
) -> None:
    for index in range(5):
        assert root.ok(root.get("/nodes/n0"))["state"] == "online"
        end_one(users[index % 3])
    shown = root.ok(root.get("/nodes/n0"))
    assert (shown["state"], shown["reason"]) == ("draining", WHY)
    notice = f"node n0 is drained, because {WHY}; `pit set node:n0 state=online` puts it back in service"
    assert root.ok(root.get("/status"))["notices"] == [notice]
    assert users[0].ok(users[0].get("/status"))["notices"] == []
    (entry,) = root.ok(root.get("/audit", query_string={"object": "node:n0"}))["entries"]
    assert (entry["actor"], entry["act"], entry["detail"]) == (
        "head",
        "drained",
        "jobs 1, 2, 3, 4, 5 failed there",
    )
    root.ok(root.patch("/nodes/n0", state="online"))
    assert root.ok(root.get("/status"))["notices"] == []
    end_one(users[0])
    assert root.ok(root.get("/nodes/n0"))["state"] == "online"


def test_a_success_shows_that_the_node_is_well(
    node: Worker, root: Person, users: list[Person], end_one: Callable[..., None]
) -> None:
    for user, code in [
        (users[0], 1),
        (users[1], 1),
        (users[2], 1),
        (users[0], 0),
        (users[1], 1),
        (users[2], 1),
    ]:
        end_one(user, exit_code=code)
    assert root.ok(root.get("/nodes/n0"))["state"] == "online"


@ONE_DATABASE
@pytest.mark.parametrize("killed_by", [KilledBy.USER, KilledBy.LIMIT, KilledBy.REBOOT])
def test_what_was_ended_from_outside_says_nothing_about_the_node(
    node: Worker, root: Person, users: list[Person], end_one: Callable[..., None], killed_by: KilledBy
) -> None:
    for index in range(6):
        end_one(users[index % 3], exit_code=None, signal=15, killed_by=killed_by)
    assert root.ok(root.get("/nodes/n0"))["state"] == "online"


def test_one_users_mistake_drains_no_node(
    node: Worker, root: Person, users: list[Person], end_one: Callable[..., None]
) -> None:
    for _ in range(7):
        end_one(users[0])
    end_one(users[1])
    assert root.ok(root.get("/nodes/n0"))["state"] == "online"
