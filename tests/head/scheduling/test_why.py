"""Why a job waits, what would start now, and what happened to jobs that do not wait."""

from collections.abc import Callable
from typing import Any

import pytest

from pit_server.context import Head
from pit_server.services.scheduling.why import smaller_requests
from tests.support.clusters.head import (
    NOW,
    Person,
    Worker,
    a_chunk,
    ended,
    running,
    skip_preparation,
)

Build = Callable[..., int]


@pytest.fixture
def worker(a_node: Callable[..., Worker]) -> Worker:
    return a_node(gpus={"A100": 4})


def _why(person: Person, number: int) -> dict[str, Any]:
    return dict(person.ok(person.get(f"/jobs/{number}/why")))


def _submit(head: Head, person: Person, request: str, **fields: Any) -> int:
    number = person.submit(request=request, **fields)
    skip_preparation(head, number)
    return number


def test_a_waiting_job_learns_what_is_missing_and_who_holds_it_until_when(
    head: Head, worker: Worker, anna: Person, a_placed_job: Build, a_waiting_job: Build
) -> None:
    running = a_placed_job("[3:a100]")
    number = a_waiting_job("[2:a100]")
    head.scheduling()
    why = _why(anna, number)
    assert why["job"]["reason"] == f"needs 2 a100, 1 free; job {running} holds the others"
    (missing,) = why["queued"]["missing"]
    assert (missing["kind"], missing["wanted"], missing["free"]) == ("a100", 2, 1)
    assert missing["nodes"] == [{"node": "n0", "free": 1}]
    (holder,) = why["queued"]["holders"]
    assert holder["job"] == {"number": running, "user": "anna"}
    assert (holder["kind"], holder["amount"], holder["nodes"]) == ("a100", 3, ["n0"])
    planned_s = head.settings.planned_hours * 3600
    assert holder["until"] == pytest.approx(why["queued"]["as_of"] + planned_s, abs=60)
    assert why["story"] is None


def test_memory_is_missing_in_gib_and_cores_in_cores(
    head: Head, worker: Worker, anna: Person, a_placed_job: Build, a_waiting_job: Build
) -> None:
    a_placed_job("[6:cpu,12:mem]")
    number = a_waiting_job("[4:cpu,6.5:mem]")
    head.scheduling()
    missing = {each["kind"]: each for each in _why(anna, number)["queued"]["missing"]}
    assert (missing["cpu"]["wanted"], missing["cpu"]["free"]) == (4, 2)
    assert (missing["mem"]["wanted"], missing["mem"]["free"]) == (6.5, 4)


def test_a_reason_names_the_jobs_that_hold_it_now(
    head: Head, worker: Worker, anna: Person, a_placed_job: Build, a_waiting_job: Build
) -> None:
    first = a_placed_job("[4:a100]")
    second, number = a_waiting_job("[4:a100]"), a_waiting_job("[a100,cpu]")
    head.scheduling()
    assert _why(anna, number)["job"]["reason"] == f"needs 1 a100, 0 free; job {first} holds them"
    worker.beat(*(ended(process) for process in worker.orders()))
    head.scheduling()
    assert anna.job(second)["state"] == "starting"
    reason = f"needs 1 a100, 0 free; job {second} holds them"
    assert _why(anna, number)["job"]["reason"] == anna.job(number)["reason"] == reason


def test_nobody_waits_behind_a_job_that_has_started(
    head: Head, worker: Worker, anna: Person, a_placed_job: Build, a_waiting_job: Build
) -> None:
    a_placed_job("[4:a100]")
    first, second, third = (a_waiting_job("[4:a100]") for _ in range(3))
    head.scheduling()
    assert anna.job(third)["reason"] == f"waits behind job {first}, which needs the same"
    worker.beat(*(ended(process) for process in worker.orders()))
    head.scheduling()
    assert anna.job(second)["reason"] == f"needs 4 a100, 0 free; job {first} holds them"
    assert anna.job(third)["reason"] == f"waits behind job {second}, which needs the same"
    # Before the next pass, too.
    anna.ok(anna.stop(second))
    assert anna.job(third)["reason"] == f"needs 4 a100, 0 free; job {first} holds them"


def test_those_ahead_are_named_by_the_factor_that_puts_them_there(
    head: Head, worker: Worker, anna: Person, root: Person, a_user: Callable[..., Person], a_placed_job: Build
) -> None:
    bob = a_user("bob")
    a_placed_job("[4:a100]")
    first = _submit(head, anna, "[4:a100]")
    urgent = _submit(head, root, "[4:a100]", priority="high")
    modest = _submit(head, bob, "[4:a100]")
    number = _submit(head, anna, "[4:a100]")
    head.scheduling()
    queued = _why(root, number)["queued"]
    ahead = {each["factor"]: each["jobs"] for each in queued["ahead"]}
    assert ahead == {
        "priority": [{"number": urgent, "user": "root"}],
        "user use": [{"number": modest, "user": "bob"}],
        "arrival": [{"number": first, "user": "anna"}],
    }
    assert (queued["place"], queued["length"]) == (4, 4)
    assert [each["count"] for each in queued["ahead"]] == [1, 1, 1]


def test_jobs_of_a_group_that_has_used_less_are_ahead_by_that(
    head: Head,
    worker: Worker,
    anna: Person,
    root: Person,
    a_group: Callable[..., None],
    a_user: Callable[..., Person],
    a_placed_job: Build,
) -> None:
    bob = a_user("bob")
    a_group("vision", "bob")
    root.ok(root.patch("/users/bob", share_group="vision"))
    a_placed_job("[4:a100]")
    _submit(head, anna, "[4:a100]")
    other = _submit(head, bob, "[4:a100]")
    number = _submit(head, anna, "[4:a100]")
    head.scheduling()
    (group, arrival) = _why(root, number)["queued"]["ahead"]
    assert (group["factor"], group["jobs"]) == ("group use", [{"number": other, "user": "bob"}])
    assert arrival["factor"] == "arrival"


def test_jobs_that_one_may_not_see_have_no_number(
    head: Head, worker: Worker, a_user: Callable[..., Person], a_placed_job: Build, a_waiting_job: Build
) -> None:
    hidden = a_placed_job("[4:a100]", title="secret plan")
    a_waiting_job("[4:a100]", title="secret plan")
    bob = a_user("bob")
    number = _submit(head, bob, "[4:a100]")
    head.scheduling()
    answer = bob.get(f"/jobs/{number}/why")
    queued = bob.ok(answer)["queued"]
    assert queued["holders"][0]["job"] == {"number": None, "user": "anna"}
    assert "secret" not in answer.text
    named = [job for each in queued["ahead"] for job in each["jobs"]]
    assert all(job == {"number": None, "user": "anna"} for job in named)
    refused = bob.get(f"/jobs/{hidden}/why")
    assert (refused.status_code, refused.json["message"]) == (404, f"there is no job {hidden}")


@pytest.mark.parametrize(
    ("request_text", "smaller"),
    [
        ("4:[a100]", [("with fewer processes", "2:[a100]")]),
        ("[4:a100]", [("with fewer GPUs per process", "[2:a100]")]),
        ("[3-8:a100]", [("with fewer GPUs per process", "[2-8:a100]")]),
        ("[a100,8:cpu]", [("with fewer cores per process", "[a100,6:cpu]")]),
        ("[a100,15:mem]", [("with less memory per process", "[a100,12:mem]")]),
    ],
)
def test_a_smaller_request_is_named_if_it_would_start_now(
    head: Head,
    worker: Worker,
    anna: Person,
    a_placed_job: Build,
    a_waiting_job: Build,
    request_text: str,
    smaller: list[tuple[str, str]],
) -> None:
    a_placed_job("[2:a100,2:cpu,4:mem]")
    number = a_waiting_job(request_text)
    head.scheduling()
    queued = _why(anna, number)["queued"]
    assert [(each["change"], each["request"]) for each in queued["smaller"]] == smaller
    assert queued["all_tried"]
    anna.ok(anna.stop(number))
    again = a_waiting_job(smaller[0][1])
    head.scheduling()
    assert anna.job(again)["state"] == "starting"


def test_another_node_or_kind_is_named_if_it_is_free(
    head: Head, a_node: Callable[..., Worker], anna: Person, a_placed_job: Build, a_waiting_job: Build
) -> None:
    a_node("n0", gpus={"A100": 1})
    a_node("n1", gpus={"A100": 1, "RTX 3090": 1})
    a_placed_job("[a100]@n0")
    number = a_waiting_job("[a100]@n0")
    head.scheduling()
    found = _why(anna, number)["queued"]["smaller"]
    assert [(each["change"], each["request"]) for each in found] == [("on any node", "[a100]")]
    a_placed_job("[a100]@n1")
    number = a_waiting_job("[a100]")
    head.scheduling()
    found = _why(anna, number)["queued"]["smaller"]
    assert [(each["change"], each["request"]) for each in found] == [
        ("with rtx3090 instead of a100", "[rtx3090]")
    ]


def test_a_request_that_would_delay_the_jobs_ahead_is_not_named(
    head: Head, worker: Worker, anna: Person, a_placed_job: Build, a_waiting_job: Build
) -> None:
    a_placed_job("[2:a100]")
    a_waiting_job("[4:a100]")
    number = a_waiting_job("[3:a100]")
    head.scheduling()
    # Two GPUs are free, but kept for the job ahead.
    assert _why(anna, number)["queued"]["smaller"] == []


def test_a_request_that_is_over_a_limit_is_not_named(
    head: Head, worker: Worker, anna: Person, root: Person, a_placed_job: Build, a_waiting_job: Build
) -> None:
    a_placed_job("[3:cpu]")
    number = a_waiting_job("[8:cpu]")
    root.ok(root.patch("/users/anna", max_running="2"))
    head.scheduling()
    assert [each["request"] for each in _why(anna, number)["queued"]["smaller"]] == ["[5:cpu]"]
    root.ok(root.patch("/users/anna", max_running="1"))
    head.scheduling()
    why = _why(anna, number)
    assert "may run 1 job at once" in why["job"]["reason"]
    assert (why["queued"]["place"], why["queued"]["smaller"]) == (None, [])


def test_a_time_limit_is_named_if_the_job_would_end_before_a_reservation(
    head: Head, worker: Worker, anna: Person, a_placed_job: Build, a_waiting_job: Build
) -> None:
    running = a_placed_job("[2:a100]", time="3h")
    large = a_waiting_job("[4:a100]")
    number = a_waiting_job("[2:a100]")
    head.scheduling()
    why = _why(anna, number)
    assert why["job"]["reason"] == f"would delay job {large}"
    assert why["queued"]["smaller"][0] == {
        "request": "[2:a100]",
        "change": "with a time limit of 2h",
        "time": "2h",
    }
    holder = _why(anna, large)["queued"]["holders"][0]
    assert (holder["job"]["number"], holder["has_limit"]) == (running, True)
    anna.ok(anna.patch(f"/jobs/{number}", time="2h"))
    head.scheduling()
    assert anna.job(number)["state"] == "starting"


def test_the_search_for_smaller_requests_ends_with_its_time(
    head: Head,
    worker: Worker,
    anna: Person,
    a_placed_job: Build,
    a_waiting_job: Build,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a_placed_job("[2:a100]")
    number = a_waiting_job("[4:a100]")
    head.scheduling()
    monkeypatch.setattr(smaller_requests, "BUDGET_S", 0.0)
    queued = _why(anna, number)["queued"]
    assert (queued["smaller"], queued["all_tried"]) == ([], False)


def test_a_job_that_no_pass_has_seen_and_one_that_is_held_have_answers(
    head: Head, worker: Worker, anna: Person, root: Person, a_waiting_job: Build
) -> None:
    number = a_waiting_job("[a100]")
    assert _why(anna, number)["queued"]["as_of"] is None
    root.ok(root.patch("/users/anna", active="no"))
    head.scheduling()
    why = _why(root, number)
    assert "anna" in why["job"]["reason"]
    assert (why["queued"]["place"], why["queued"]["missing"]) == (None, [])
    assert why["is_mine"] is False


def test_a_running_job_tells_where_it_runs_and_how_long_it_waited(
    head: Head, worker: Worker, anna: Person, a_placed_job: Build
) -> None:
    number = a_placed_job("2:[a100]")
    worker.beat(*(running(process, started_at=NOW) for process in worker.orders()))
    story = _why(anna, number)["story"]
    assert (story["nodes"], story["processes"]) == (["n0"], 2)
    assert story["waited_s"] > 0
    assert story["started_at"] == NOW
    assert story["failure"] is None


def test_a_failed_job_tells_what_failed_first_with_its_last_lines(
    head: Head, worker: Worker, anna: Person, a_placed_job: Build
) -> None:
    number = a_placed_job("2:[a100]")
    first, second = sorted(worker.orders().values(), key=lambda order: order.spec.rank if order.spec else 0)
    lines = b"".join(b"line %d\n" % n for n in range(9))
    worker.beat(running(first.process), running(second.process), chunks=[a_chunk(second.process, lines)])
    worker.beat(ended(second.process, 3))
    worker.beat(ended(first.process, None, signal=15, killed_by="job"))
    why = _why(anna, number)
    assert why["job"]["outcome"] == "failed"
    failure = why["story"]["failure"]
    assert (failure["rank"], failure["node"]) == (1, "n0")
    assert failure["lines"] == [f"line {n}" for n in range(4, 9)]


def test_a_job_that_never_ran_has_no_start(
    head: Head, worker: Worker, anna: Person, a_waiting_job: Build
) -> None:
    number = a_waiting_job("[a100]")
    anna.ok(anna.stop(number))
    story = _why(anna, number)["story"]
    assert (story["waited_s"], story["started_at"], story["processes"]) == (None, None, 0)


def test_an_array_waits_for_what_its_next_element_waits_for(
    head: Head, worker: Worker, anna: Person, a_waiting_job: Build
) -> None:
    number = a_waiting_job("[3:a100]", array="0-9")
    head.scheduling()
    head.scheduling()
    head.estimating()
    why = _why(anna, number)
    assert why["job"]["elements"]["running"] == 1
    assert why["queued"]["reason"] == f"needs 3 a100, 1 free; job {number} holds the others"
    assert why["queued"]["missing"][0]["wanted"] == 3
    assert why["queued"]["place"] == 1
    low, high = head.estimating.ranges[number]
    assert high - low > 3600  # the element that runs may end at any moment
    last = anna.ok(anna.get(f"/jobs/{number}.9/why"))
    assert last["queued"]["reason"] == why["queued"]["reason"]
    for process in worker.orders():
        worker.beat(ended(process, 3))
    assert _why(anna, number)["failed"][0]["index"] == 0
