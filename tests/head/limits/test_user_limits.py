"""Limits of users and groups: who sets them, what is refused, what waits, and what they show."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import update

from pit_protocol.durations import DAY_S
from pit_server.context import Head
from pit_server.db.models import Attempt
from pit_server.settings import Settings
from tests.head.conftest import skip_preparation
from tests.support.clusters.head import ONE_DATABASE, Person, Worker, a_submission, ended, running


@pytest.fixture
def node(a_node: Callable[..., Worker]) -> Worker:
    return a_node(cores=32, gpus={"A100": 8})


def states(anna: Person, *numbers: int) -> list[str]:
    return [anna.job(number)["state"] for number in numbers]


def a_queue(head: Head, person: Person, *requests: str, **options: str) -> list[int]:
    """Waiting jobs, before any of them is looked at."""
    found = [person.submit(request=request, **options) for request in requests]
    for number in found:
        skip_preparation(head, number)
    return found


def settle(head: Head) -> None:
    """Make passes until there is nothing more to do at once."""
    for _ in range(5):
        if head.scheduling() != 0.0:
            return
    raise AssertionError("the passes do not end")


def test_jobs_over_the_limit_of_running_ones_wait_and_start_when_one_ends(
    head: Head, node: Worker, anna: Person, root: Person
) -> None:
    root.ok(root.patch("/users/anna", max_running="2"))
    numbers = a_queue(head, anna, "[]", "[]", "[]")
    settle(head)
    assert states(anna, *numbers) == ["starting", "starting", "waiting"]
    reason = "user anna may run 2 jobs at once (max_running); it starts when one of them has ended"
    assert anna.job(numbers[2])["reason"] == reason
    first = next(iter(node.orders()))
    node.beat(running(first))
    node.beat(ended(first))
    settle(head)
    assert states(anna, numbers[2]) == ["starting"]


def test_the_elements_of_an_array_run_one_after_another_under_a_limit_of_one(
    head: Head, node: Worker, anna: Person, root: Person
) -> None:
    root.ok(root.patch("/users/anna", max_running="1"))
    (number,) = a_queue(head, anna, "[]", array="0-2")
    for _ in range(3):
        settle(head)
        (process,) = node.orders()
        node.beat(running(process))
        node.beat(ended(process))
    assert anna.job(number)["outcome"] == "succeeded"


def test_gpus_at_once_are_counted_over_the_members_of_a_group(
    head: Head,
    node: Worker,
    anna: Person,
    root: Person,
    a_user: Callable[..., Person],
    a_group: Callable[..., None],
) -> None:
    ben = a_user("ben")
    a_group("students", "anna", "ben")
    root.ok(root.patch("/groups/students", max_gpus="4"))
    (first,) = a_queue(head, anna, "[3:a100]")
    second, third = a_queue(head, ben, "[2:a100]", "[1-4:a100]")
    settle(head)
    assert (states(anna, first), states(ben, second, third)) == (["starting"], ["waiting", "starting"])
    assert len(ben.job(third)["processes"][0]["resources"]) == 1  # an elastic one at its minimum
    reason = "group students may use 4 GPUs at once (max_gpus) and has 4, and it needs 2; it starts when"
    assert ben.job(second)["reason"].startswith(reason)
    shown = anna.get("/groups/students").json
    assert shown["limits"] == ["group students: 4 of 4 GPUs at once"]
    assert anna.get("/me").json["limits"] == ["group students: 4 of 4 GPUs at once"]
    root.ok(root.patch("/groups/students", max_gpus=""))
    settle(head)
    assert states(ben, second) == ["starting"]


def test_a_user_counts_only_for_the_group_that_is_charged(
    head: Head, node: Worker, anna: Person, root: Person, a_group: Callable[..., None]
) -> None:
    a_group("students", "anna")
    a_group("staff", "anna")
    root.ok(root.patch("/groups/students", max_running="1"))
    root.ok(root.patch("/users/anna", share_group="staff"))
    numbers = a_queue(head, anna, "[]", "[]")
    settle(head)
    assert states(anna, *numbers) == ["starting", "starting"]


def test_gpu_hours_of_the_last_week_count_with_what_running_jobs_may_use(
    head: Head, node: Worker, anna: Person, root: Person
) -> None:
    root.ok(root.patch("/users/anna", max_gpu_hours="10"))
    first, second, third = a_queue(head, anna, "[2:a100]", "[2:a100]", "[]", time="4h")
    settle(head)
    assert states(anna, first, second, third) == ["starting", "waiting", "starting"]
    used = "of the last 7 days 8.0 are used or planned, and it may use 8.0; it starts when these are older"
    assert anna.job(second)["reason"] == f"user anna may use 10 GPU-hours a week (max_gpu_hours), and {used}"
    for process in node.orders():
        node.beat(running(process))
        node.beat(ended(process))
    with head.database.write() as session:  # as if the first had run for nine days until now
        session.execute(
            update(Attempt).where(Attempt.job_id == first).values(created_at=Attempt.created_at - 9 * DAY_S)
        )
    settle(head)
    assert "of the last 7 days 336.0 are used" in anna.job(second)["reason"]
    root.ok(root.patch("/users/anna", max_gpu_hours="none"))
    settle(head)
    assert states(anna, second) == ["starting"]


@ONE_DATABASE
@pytest.mark.parametrize(
    ("limit", "fields", "message"),
    [
        ({"max_gpus": "2"}, {}, "user anna may have 2 GPUs at once, and this job needs 4 (max_gpus)"),
        (
            {"max_job_gpus": "3"},
            {},
            "user anna may have 3 GPUs in a job, and this one needs 4 (max_job_gpus)",
        ),
        (
            {"max_gpu_hours": "7"},
            {"time": "2h"},
            "user anna may have 7 GPU-hours a week, and this job may use 8 (max_gpu_hours)",
        ),
        (
            {"max_time": "1h"},
            {"time": "2h"},
            "a time limit of 2h is more than user anna may give a job, 1h (max_time)",
        ),
    ],
)
def test_a_job_that_could_never_run_is_refused(
    node: Worker, anna: Person, root: Person, limit: dict[str, str], fields: dict[str, str], message: str
) -> None:
    root.ok(root.patch("/users/anna", **limit))
    answer = anna.post("/jobs", json=a_submission(request="2:[2:a100]", **fields))
    assert (answer.status_code, answer.json["message"]) == (422, message)
    assert answer.json["hint"] == f"an admin can change it: `pit set user:anna {next(iter(limit))}=…`"
    assert anna.get("/jobs").json["total"] == 0


@ONE_DATABASE
def test_the_longest_time_of_a_user_is_the_limit_of_a_job_that_names_none(
    node: Worker, anna: Person, root: Person
) -> None:
    root.ok(root.patch("/users/anna", max_time="90m"))
    number = anna.submit()
    assert anna.job(number)["options"]["time"] == "1h30m"
    assert anna.patch(f"/jobs/{number}", time="2h").json["code"] == "time_too_long"
    root.ok(root.patch(f"/jobs/{number}", time="2h"))


@ONE_DATABASE
def test_a_group_has_a_limit_of_waiting_jobs(
    node: Worker, anna: Person, root: Person, a_group: Callable[..., None]
) -> None:
    a_group("students", "anna")
    root.ok(root.patch("/groups/students", max_waiting="1"))
    anna.submit()
    answer = anna.post("/jobs", json=a_submission())
    message = "group students has 1 waiting job, and may have 1 (max_waiting)"
    assert (answer.status_code, answer.json["message"]) == (429, message)


@ONE_DATABASE
def test_only_admins_set_limits_and_only_valid_ones(node: Worker, anna: Person, root: Person) -> None:
    assert anna.patch("/users/anna", max_gpus="9").status_code == 403
    for text in ("0", "-1", "many", "1.5"):
        assert root.patch("/users/anna", max_gpus=text).json["code"] == "bad_max_gpus"
    assert root.patch("/users/anna", max_time="1").json["code"] == "bad_max_time"
    shown = root.ok(root.patch("/users/anna", max_gpus="9", max_time="90m", max_job_gpus="4"))
    assert (shown["max_gpus"], shown["max_time"], shown["max_running"]) == ("9", "1h30m", "")
    line = "user anna: 0 of 9 GPUs at once, GPUs in a job 4, time of a job 1h30m"
    assert anna.get("/me").json["limits"] == [line]


class TestDefaults:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, user_running_jobs=1)

    def test_a_setting_limits_every_user_and_a_property_overrules_it(
        self, head: Head, node: Worker, anna: Person, root: Person
    ) -> None:
        numbers = a_queue(head, anna, "[]", "[]")
        settle(head)
        assert states(anna, *numbers) == ["starting", "waiting"]
        root.ok(root.patch("/users/anna", max_running="none"))
        settle(head)
        assert states(anna, *numbers) == ["starting", "starting"]


def test_a_removed_group_comes_back_with_its_limits(root: Person, a_group: Callable[..., None]) -> None:
    a_group("students")
    root.ok(root.patch("/groups/students", max_gpus="4"))
    entry = root.ok(root.delete("/groups/students"))["trash"]["id"]
    root.ok(root.post(f"/trash/{entry}/restore"))
    assert root.get("/groups/students").json["max_gpus"] == "4"
