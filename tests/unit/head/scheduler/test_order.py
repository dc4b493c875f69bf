"""The order of the queue: priority, fair share, arrival."""

import pytest

from pit_server.scheduler.order import Order, Usage, Waiting
from tests.support.scheduling import a_shape

SHAPE = a_shape("[a100]")


def a_waiting(number: int, user: str, group: str = "", priority: int = 0, cost: float = 10) -> Waiting:
    return Waiting(number, SHAPE, user, group, priority, cost)


def order(*jobs: Waiting, users: dict[str, float] | None = None, **groups: float) -> list[int]:
    queue = Order(Usage(users or {}, groups))
    for job in jobs:
        queue.add(job)
    return _all_of(queue)


def _all_of(queue: Order) -> list[int]:
    found = []
    while job := queue.pop():
        found.append(job.number)
    return found


def test_without_usage_jobs_of_one_user_come_in_order_of_arrival() -> None:
    assert order(a_waiting(1, "anna"), a_waiting(2, "anna"), a_waiting(3, "anna")) == [1, 2, 3]


@pytest.mark.threat("F33")
def test_a_user_with_many_jobs_does_not_hold_up_one_with_few() -> None:
    many = [a_waiting(number, "anna") for number in range(1, 501)]
    assert order(*many, a_waiting(501, "bob")).index(501) == 1


def test_who_used_less_comes_first() -> None:
    jobs = a_waiting(1, "anna"), a_waiting(2, "bob")
    assert order(*jobs, users={"anna": 5.0}) == [2, 1]


def test_priority_comes_before_share() -> None:
    jobs = a_waiting(1, "bob"), a_waiting(2, "anna", priority=1)
    assert order(*jobs, users={"anna": 1e9}) == [2, 1]


def test_groups_come_before_their_users() -> None:
    jobs = a_waiting(1, "anna", "vision"), a_waiting(2, "bob", "speech")
    assert order(*jobs, users={"bob": 9.0}, vision=1.0) == [2, 1]


def test_jobs_of_two_groups_alternate_whatever_the_number_of_their_users() -> None:
    vision = [a_waiting(number, f"user{number}", "vision") for number in range(1, 7)]
    speech = [a_waiting(number, "bob", "speech") for number in range(7, 10)]
    assert order(*vision, *speech)[:6] == [1, 7, 2, 8, 3, 9]


def test_cheap_jobs_come_more_often() -> None:
    cheap = [a_waiting(number, "anna", cost=1) for number in range(1, 9)]
    dear = [a_waiting(number, "bob", cost=4) for number in range(9, 11)]
    assert order(*cheap, *dear) == [1, 9, 2, 3, 4, 5, 10, 6, 7, 8]


def test_a_new_job_gets_the_place_that_its_users_share_gives_it() -> None:
    queue = Order(Usage())
    for number in range(1, 6):
        queue.add(a_waiting(number, "anna"))
    assert _all_of(queue) == [1, 2, 3, 4, 5]
    queue.add(a_waiting(6, "bob"))
    assert _all_of(queue) == [6]
    assert queue.factors[1] < queue.factors[6] < queue.factors[3]


def test_a_job_that_comes_while_others_are_taken_out_is_next_if_its_user_has_used_less() -> None:
    queue = Order(Usage())
    for number in range(1, 4):
        queue.add(a_waiting(number, "anna"))
    assert queue.pop() == a_waiting(1, "anna")
    queue.add(a_waiting(4, "bob"))
    queue.add(a_waiting(5, "anna", priority=1))
    assert _all_of(queue) == [5, 4, 2, 3]
