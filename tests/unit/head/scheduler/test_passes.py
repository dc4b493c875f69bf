"""Passes that follow one another: little is done if little changed, and a pass stops at its budget."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from pit_server.scheduler import passes
from pit_server.scheduler.capacity import FreeCapacity
from pit_server.scheduler.demand import Access, Demand, Shape
from pit_server.scheduler.memory import OVERTAKEN_S
from pit_server.scheduler.order import Usage
from pit_server.scheduler.plan import FULL_PASS_S, plan
from tests.support.scheduling import a_job, a_view, given, numbers, running

FREE = a_view(a100=4)
BUSY = running(FREE, 99, 1000.0, a100=4)
QUEUE = [a_job(1, "[4:a100]"), a_job(2, "[2:a100]", time=60), a_job(3, "[h100]")]


def after(steps: int) -> Callable[[], bool]:
    """A clock that says that the time is over when it was asked so often."""
    asked = 0

    def is_over() -> bool:
        nonlocal asked
        asked += 1
        return asked >= steps

    return is_over


@pytest.mark.threat("F33")
def test_a_pass_stops_at_its_budget_and_the_next_goes_on_there() -> None:
    jobs = [a_job(number, f"[{number}:a100]") for number in range(1, 5)]
    state = given(jobs, a_view(a100=3))
    first = plan(state, None, after(2))
    assert (numbers(first), first.is_complete) == ([1, 2], False)
    assert first.reasons[4].render() == "waits for the next pass of the scheduler"
    left = replace(state, queue={job.number: job for job in jobs[2:]}, nodes=(a_view(a100=0),))
    second = plan(left, first.memory)
    assert second.is_complete
    assert second.reasons[4].render() == "needs 4 a100, 0 free"


def test_a_job_that_a_pass_does_not_reach_keeps_its_reason_with_its_age() -> None:
    state = given(QUEUE, BUSY)
    first = plan(state)
    second = plan(replace(state, now=FULL_PASS_S), first.memory, after(1))
    assert second.reasons[3] == first.reasons[3]
    assert second.as_of == {1: 0.0, 2: 0.0, 3: 0.0}  # the first is reserved, and not explained again
    third = plan(replace(state, now=FULL_PASS_S), second.memory)
    assert (third.as_of, third.is_complete) == ({}, True)


def test_what_a_job_frees_goes_to_the_first_that_fits() -> None:
    first = plan(given(QUEUE, BUSY))
    assert not first.placements
    assert numbers(plan(given(QUEUE, FREE, now=1.0), first.memory)) == [1]


def test_a_new_job_is_tried_at_once() -> None:
    first = plan(given(QUEUE[:1], running(FREE, 99, 1000.0, a100=1)))
    second = plan(given(QUEUE[:2], running(FREE, 99, 1000.0, a100=1), now=1.0), first.memory)
    assert numbers(second) == [2]


def test_a_new_job_of_higher_priority_is_reserved_before_the_others() -> None:
    busy = running(FREE, 99, 1000.0, a100=4)
    first = plan(given(QUEUE[:1], busy))
    state = given([*QUEUE[:1], a_job(4, "[4:a100]")._replace(priority=1)], busy, now=1.0)
    second = plan(state, first.memory)
    assert not second.is_complete
    assert plan(state, second.memory).reservations[4].start == 1000.0


def test_a_plan_that_was_not_committed_is_made_again() -> None:
    state = given(QUEUE[:1], FREE)
    first = plan(state)
    assert numbers(first) == [1]
    assert numbers(plan(replace(state, now=1.0), first.memory)) == [1]


def test_a_job_that_was_overtaken_for_too_long_goes_first() -> None:
    """Others who have used less come again and again; at last they no longer pass."""
    dear = a_job(1, "[4:a100]")._replace(user="anna")
    busy, usage = running(FREE, 99, 100.0, a100=4), Usage({"anna": 1e9})
    made = plan(replace(given([dear], busy), usage=usage))
    assert made.reservations[1].start == 100.0
    others = [a_job(number, "[4:a100]")._replace(user="bob") for number in (2, 3)]
    for now, first in ((200.0, 2), (100.0 + OVERTAKEN_S, 2), (131.0 + OVERTAKEN_S, 1)):
        made = plan(
            replace(given([dear, *others], running(FREE, 98, now + 9, a100=4), now=now), usage=usage),
            made.memory,
        )
        assert min(made.reservations, key=lambda number: made.reservations[number].start) == first


def test_a_stopped_job_leaves_its_reservation_to_others() -> None:
    view = running(FREE, 99, 1000.0, a100=2)
    jobs = [a_job(1, "[4:a100]"), a_job(2, "[2:a100]")]
    first = plan(given(jobs, view))
    assert numbers(first) == []
    assert numbers(plan(given(jobs[1:], view, now=1.0), first.memory)) == [2]


def test_an_event_that_helps_nobody_costs_no_placement_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    other = a_view("n1", slots=1, h100=0)
    gang = a_job(4, "3:[h100]"), running(a_view("n2", h100=2), 98, 900.0, h100=2)
    first = plan(given([*QUEUE, gang[0]], BUSY, other, gang[1]))
    tried: list[Shape] = []
    monkeypatch.setattr(passes, "start_now", lambda shape, *_args, **_options: tried.append(shape))
    one_free = running(a_view("n2", h100=2), 98, 900.0, h100=1)
    plan(given([*QUEUE, gang[0]], BUSY, replace(other, slots=2), one_free, now=1.0), first.memory)
    assert tried == [QUEUE[2].shape]  # not the gang, for which one is too few


def test_a_node_that_leaves_takes_its_reservations_along() -> None:
    views = running(a_view("n0", a100=4), 9, 50.0, a100=4), running(a_view("n1", a100=4), 8, 70.0, a100=4)
    first = plan(given(QUEUE[:1], *views))
    assert first.reservations[1].nodes == {0}
    second = plan(given(QUEUE[:1], views[1], now=1.0), first.memory)
    assert second.reservations[1].nodes == {1}


def test_a_node_that_joins_in_trouble_is_named_at_once() -> None:
    before = plan(given(()))
    ill = replace(a_view(), trouble="its disk is full")
    after_it = plan(given([a_job(1, "[cpu]")], idle=[ill], now=1.0), before.memory)
    assert after_it.reasons[1].render() == "node n0 takes no new processes: its disk is full"


def test_a_reserved_job_whose_node_shrinks_is_reserved_elsewhere() -> None:
    views = running(a_view("n0", a100=4), 9, 50.0, a100=4), running(a_view("n1", a100=4), 8, 70.0, a100=4)
    first = plan(given(QUEUE[:1], *views))
    less = replace(views[0], slots=0, held=())
    second = plan(given(QUEUE[:1], less, views[1], now=1.0), first.memory)
    third = second if second.is_complete else plan(given(QUEUE[:1], less, views[1], now=1.0), second.memory)
    assert third.reservations[1].nodes == {1}


@pytest.mark.threat("F33")
def test_no_step_of_a_pass_is_longer_than_a_look_at_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever waits: 300 different requests, gangs and requests of several groups among them."""
    views = [running(a_view(f"n{n}", slots=16, a100=4), 900 + n, 10.0 * n + 10, a100=3) for n in range(50)]
    texts = [f"{n % 40 + 1}:[{n % 4 + 1}:a100]" for n in range(100)]
    texts += [f"[{n % 8 + 1}:cpu,{n % 3 + 1}:a100]" for n in range(100)]
    texts += [f"[2:a100,{n % 7 + 1}:cpu],{n % 9 + 2}:[{n % 4 + 1}:a100]" for n in range(100)]
    looks, longest = 0, 0
    count = FreeCapacity.count

    def counted(self: FreeCapacity, demand: Demand, access: Access) -> int:
        nonlocal looks
        looks += 1
        return count(self, demand, access)

    def measure() -> bool:
        nonlocal looks, longest
        longest, looks = max(longest, looks), 0
        return False

    monkeypatch.setattr(FreeCapacity, "count", counted)
    jobs = [a_job(number, text, time=600.0 + number) for number, text in enumerate(texts, 1)]
    made = plan(given(jobs, *views, idle=views), None, measure)
    measure()  # what comes after the last step
    assert made.is_complete
    assert len(made.reservations) == 50
    assert longest <= 6 * len(views)
