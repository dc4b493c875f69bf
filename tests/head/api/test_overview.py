"""Status and lists: what is shown, in which order, and when a long poll ends."""

from collections.abc import Callable
from typing import Any

import pytest

from pit_protocol import __version__
from pit_server.context import Head
from pit_server.services.jobs import jobs
from pit_server.services.users.tokens import Caller
from tests.support.clusters.head import NOW, Person, Worker, ended


@pytest.fixture
def worker(a_node: Callable[..., Worker]) -> Worker:
    return a_node(gpus={"A100": 1})


def numbers(answer: Any) -> list[int]:
    return [job["number"] for job in answer.json["jobs"]]


def test_the_root_route_describes_the_head(head: Head, anna: Person) -> None:
    assert anna.get("/").json == {
        "name": "pit",
        "version": __version__,
        "cluster": head.cluster,
        "registration": "open",
        "needs_setup": False,
    }
    me = anna.get("/me").json
    assert (me["name"], me["admin"], me["groups"]) == ("anna", False, [])


def test_http_errors_are_problems(anna: Person) -> None:
    answer = anna.get("/nowhere")
    assert (answer.status_code, answer.mimetype) == (404, "application/problem+json")
    assert answer.json["code"] == "not_found"
    assert anna.call("PATCH", "/jobs").status_code == 405


def test_status_shows_running_waiting_and_done(
    head: Head, worker: Worker, a_waiting_job: Callable[..., int], anna: Person
) -> None:
    done = a_waiting_job("[a100]")
    head.scheduling()
    worker.beat(*(ended(process) for process in worker.orders()))
    runs, waits, behind = (a_waiting_job("[a100]") for _ in range(3))
    prepares = anna.submit()
    head.scheduling()
    status = anna.get("/status").json
    assert [[job["number"] for job in status[part]] for part in ("running", "waiting", "done")] == [
        [runs],
        [waits, behind, prepares],
        [done],
    ]
    assert status["totals"] == {"running": 1, "waiting": 3, "done": 1, "unapproved": 0}
    assert [job["reason"] for job in status["waiting"]] == [
        f"needs 1 a100, 0 free; job {runs} holds them",
        f"waits behind job {waits}, which needs the same",
        "",
    ]
    short = anna.get("/status?limit=1").json
    assert ([job["number"] for job in short["waiting"]], short["totals"]["waiting"]) == ([waits], 3)


def test_a_long_poll_of_the_status_ends_when_something_changes(
    worker: Worker, anna: Person, in_thread: Callable[..., Any]
) -> None:
    first = anna.submit()
    seen = anna.get("/status").json["revision"]
    assert anna.get(f"/status?seen={seen}").json["revision"] == seen
    held = in_thread(lambda: anna.get(f"/status?seen={seen}&wait_s=30").json)
    second = anna.submit()
    assert [job["number"] for job in held()["waiting"]] == [first, second]


def test_jobs_are_listed_by_filter_order_and_page(
    worker: Worker, anna: Person, a_user: Callable[..., Person]
) -> None:
    first = anna.submit(title="beta 1")
    second = anna.submit(title="alpha")
    third = anna.submit(title="beta 2")
    anna.stop(first)
    assert numbers(anna.get("/jobs")) == [third, second, first]
    assert numbers(anna.get("/jobs?asc=title")) == [second, first, third]
    assert numbers(anna.get("/jobs?desc=title")) == [third, first, second]
    assert numbers(anna.get("/jobs?title=beta%25&asc=date")) == [first, third]
    assert numbers(anna.get("/jobs?state=ended&outcome=stopped")) == [first]
    page = anna.get("/jobs?asc=date&limit=1&offset=1")
    assert (numbers(page), page.json["total"]) == ([second], 3)
    assert numbers(anna.get("/jobs?till=5")) == []
    a_user("berta").submit()
    root = a_user("root", admin=True)
    assert root.get("/jobs").json["total"] == 4
    assert root.get("/jobs?user=berta").json["total"] == 1
    assert [person.get("/jobs?user=me").json["total"] for person in (anna, root)] == [3, 0]


def test_a_wrong_filter_or_order_is_named(anna: Person) -> None:
    answer = anna.get("/jobs?color=red")
    assert (answer.status_code, answer.json["message"]) == (422, "there is no filter 'color'")
    answer = anna.get("/jobs?asc=color")
    assert (answer.status_code, answer.json["message"]) == (422, "jobs have no order 'color'")


def test_a_pattern_means_the_same_on_both_databases(worker: Worker, anna: Person) -> None:
    number = anna.submit(title="First light")
    assert numbers(anna.get("/jobs?title=first%25")) == [number]


def test_a_pattern_may_end_with_a_backslash(worker: Worker, anna: Person) -> None:
    number = anna.submit(title="back\\")
    assert numbers(anna.get("/jobs", query_string={"title": "back\\"})) == [number]


def test_a_node_shows_which_job_holds_its_resource(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job("[a100]")
    node = anna.get("/nodes/n0").json
    assert [resource["job"] for resource in node["resources"]] == [number]
    assert node["free_slots"] == node["slots"] - 1


class TestOnPostgres:
    """Two writers at a time: the one that began first may be the last to commit."""

    @pytest.fixture
    def database_url(self, postgres_url: str) -> str:
        return postgres_url

    def test_a_change_that_is_committed_late_is_still_reported(
        self, head: Head, worker: Worker, anna: Person
    ) -> None:
        number = anna.submit()
        with head.database.write() as session:
            root = Caller(user_id=99, node_id=None, name="root", is_admin=True)
            jobs.stop(session, root, number, now=NOW)
            session.flush()
            anna.submit()
            seen = anna.get("/status").json["revision"]
        assert anna.get(f"/status?seen={seen}").json["revision"] > seen


def test_ones_own_jobs_alone(anna: Person, root: Person, a_node: Callable[..., Worker]) -> None:
    a_node()
    anna.submit()
    mine = root.submit()
    everything, own = root.get("/status").json, root.get("/status?mine=yes").json
    assert everything["totals"]["waiting"] == 2
    assert ([job["number"] for job in own["waiting"]], own["totals"]["waiting"]) == ([mine], 1)


def test_a_limit_counts_for_running_jobs_too(
    anna: Person, a_placed_job: Callable[..., int], a_node: Callable[..., Worker]
) -> None:
    a_node()
    first = a_placed_job("[]")
    a_placed_job("[]")
    assert len(anna.get("/status").json["running"]) == 2
    short = anna.get("/status?limit=1").json
    assert ([job["number"] for job in short["running"]], short["totals"]["running"]) == ([first], 2)
