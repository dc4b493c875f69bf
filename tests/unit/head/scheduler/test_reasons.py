"""Why jobs wait, in words."""

from dataclasses import replace

import pytest

from pit_server.scheduler.capacity import Held, Share
from pit_server.scheduler.demand import Access
from pit_server.scheduler.kinds import CPU, MEMORY
from pit_server.scheduler.plan import plan
from tests.support.scheduling import a_job, a_view, given, planned, running


@pytest.mark.parametrize(
    ("requests", "reason"),
    [
        (["[4:a100]"], "needs 4 a100, 2 free"),
        (["2:[16:cpu]"], "needs 32 cores, 16 free"),
        (["3:[8:mem]"], "needs 24 GiB of memory, 16 free"),
        (["20:[]"], "needs 20 slots, 16 free"),
        (["[2:a100]"], "no single node has room for a process [2:a100]"),
        (["[a100]@n7"], "waits for @n7, which is not online"),
        (["[a100,8:cpu],[a100,8:cpu]@n0,[8:cpu]@n1"], "waits for room for all its processes at once"),
    ],
)
def test_the_reason_says_what_is_missing(requests: list[str], reason: str) -> None:
    views = a_view("n0", a100=1, mem=8), a_view("n1", a100=1, mem=8)
    assert planned(requests, *views).reasons[1].render() == reason


@pytest.mark.parametrize(
    ("request_text", "holders", "reason"),
    [
        ("[2:cpu]", {"cpu": {16}}, "needs 2 cores, 0 free; job 16 holds them"),
        ("[2:cpu]", {"cpu": {16}, "mem": {9}}, "needs 2 cores, 0 free; job 16 holds them"),
        ("[8:mem]", {"mem": {5, 4}}, "needs 8 GiB of memory, 4 free; job 4 and job 5 hold the others"),
        (
            "2:[]",
            {"slot": {1, 2, 3, 4, 5}},
            "needs 2 slots, 1 free; job 1, job 2, job 3 and 2 more hold the others",
        ),
        ("[3:a100]", {"a100": {7}, "h100": {8}}, "needs 3 a100, 2 free; job 7 holds the others"),
        ("[3:gpu]", {"a100": {7}, "h100": {8}}, "needs 3 gpu, 2 free; job 7 and job 8 hold the others"),
    ],
)
def test_the_reason_names_the_jobs_that_hold_what_is_missing(
    request_text: str, holders: dict[str, set[int]], reason: str
) -> None:
    view = replace(a_view(slots=1, cpu=0, mem=4, a100=2), held=_held(holders))
    assert planned([request_text], view).reasons[1].render() == reason


def test_only_nodes_in_trouble_that_could_run_it_are_named() -> None:
    busy = running(a_view("n0", a100=1), 9, 50.0, a100=1)
    ill = replace(a_view("n1"), trouble="its disk is full")
    for request, said in (("[a100]", False), ("[9:cpu]", False), ("[8:cpu]", True)):
        reason = plan(given([a_job(1, request)], replace(busy, cpu_milli=0), idle=[a_view(a100=1), ill]))
        assert ("n1 takes no new processes" in reason.reasons[1].render()) is said


def test_a_job_placed_in_the_same_pass_is_named_as_holder() -> None:
    made = planned(["[2:cpu]", "[cpu]"], a_view(cpu=2))
    assert made.reasons[2].render() == "needs 1 core, 0 free; job 1 holds them"


def test_jobs_of_one_hidden_user_are_named_once() -> None:
    made = plan(given([a_job(9, "[cpu]")], replace(a_view(cpu=0), held=_held({"cpu": {1, 2}}))))
    assert made.reasons[9].render(lambda number: "a job of bob").endswith("; a job of bob holds them")


def test_what_is_kept_for_others_is_not_counted_as_free() -> None:
    closed = Access(closed_units=frozenset({(0, "a100-0")}))
    made = plan(given([a_job(1, "[2:a100]", closed)], a_view(a100=2)))
    assert made.reasons[1].render() == "needs 2 a100, 1 free for you"


def test_cores_of_a_node_kept_for_others_are_not_counted_as_free() -> None:
    closed = Access(closed_nodes=frozenset({1}))
    made = plan(given([a_job(1, "[4:cpu]", closed)], a_view(cpu=2), a_view("n1", cpu=8)))
    assert made.reasons[1].render() == "needs 4 cores, 2 free for you"


def test_nodes_out_of_service_are_named_with_their_admins_reason() -> None:
    idle = [
        replace(a_view("n0"), state="draining", remark="new PSU"),
        replace(a_view("n1"), state="maintenance"),
    ]
    assert plan(given([a_job(1, "[]")], idle=idle)).reasons[1].render() == (
        "no node takes new jobs: n0 is draining (new PSU), n1 is in maintenance"
    )
    pinned = plan(given([a_job(1, "[]@n0")], idle=idle)).reasons[1].render()
    assert pinned == "waits for @n0, which is draining (new PSU)"


def test_without_a_node_online_the_reason_says_that() -> None:
    reason = planned(["[]"]).reasons[1].render()
    assert "None" not in reason
    assert "online" in reason


def test_a_request_that_became_impossible_gets_that_reason() -> None:
    queue = [a_job(1, "[h100]")]
    made = plan(given(queue, a_view(a100=1), idle=[a_view(a100=1)]))
    assert made.reasons[1].render() == "[h100] cannot be fulfilled: no node has h100; the cluster has a100"


def test_a_job_that_would_delay_a_reservation_names_it() -> None:
    view = running(a_view(a100=4), 99, 100.0, a100=2)
    made = planned(["[4:a100]", "[a100]"], view)
    assert made.reasons[1].render() == "needs 4 a100, 2 free; job 99 holds the others"
    assert made.reasons[2].render() == "would delay job 1"


def test_equal_requests_wait_behind_the_first_of_them() -> None:
    view = running(a_view(a100=4), 99, 100.0, a100=2)
    made = planned(["[4:a100]", "[4:a100]"], view)
    assert made.reasons[2].render() == "waits behind job 1, which needs the same"
    assert made.reasons[2].render(lambda number: "a job of bob").startswith("waits behind a job of bob")


def _held(holders: dict[str, set[int]]) -> tuple[Held, ...]:
    """Each job holds something of the kind."""
    return tuple(
        Held(
            job,
            1e9,
            Share(
                1 if kind == CPU else None,
                1 if kind == MEMORY else None,
                () if kind in (CPU, MEMORY, "slot") else ((kind, f"{kind}-9"),),
            ),
        )
        for kind, jobs in holders.items()
        for job in sorted(jobs)
    )
