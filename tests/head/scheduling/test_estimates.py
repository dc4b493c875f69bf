"""When waiting jobs will start: ranges from past run times, and how far they were from the starts."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select, update

from pit_protocol.durations import DAY_S
from pit_server.background import estimating
from pit_server.context import Head
from pit_server.db.models import Attempt, Job
from pit_server.services.scheduling.estimates import errors as estimate_errors
from pit_server.services.scheduling.estimates.start_range import StartRange
from tests.support.clusters.head import NOW, Person, Worker, ended

Build = Callable[..., int]


@pytest.fixture
def worker(a_node: Callable[..., Worker]) -> Worker:
    return a_node(gpus={"A100": 1})


@pytest.fixture
def estimate(head: Head, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Make a pass and estimates, however soon after the last."""
    monkeypatch.setattr(estimating, "LEAST_S", 0.0)
    monkeypatch.setattr(estimating, "MEASURE_S", 0.0)

    def run() -> None:
        head.scheduling._reader._refreshed_at = 0.0  # learn from what has ended just now
        head.scheduling()
        head.estimating()

    return run


@pytest.fixture
def past(head: Head, worker: Worker, a_placed_job: Build) -> Callable[..., None]:
    """Ended jobs of these lengths."""

    def build(*lengths: float, **fields: Any) -> None:
        for length in lengths:
            number = a_placed_job("[a100]", **fields)
            worker.beat(*(ended(process) for process in worker.orders()))
            with head.database.write() as session:
                session.execute(update(Attempt).where(Attempt.job_id == number).values(created_at=NOW))
                session.execute(update(Job).where(Job.id == number).values(since=NOW + length))

    return build


def _start_ago(head: Head, number: int, seconds: float) -> None:
    with head.database.write() as session:
        started = update(Attempt).where(Attempt.job_id == number)
        session.execute(started.values(created_at=time.time() - seconds))


def _starts_in(person: Person, number: int) -> tuple[float, float]:
    low, high = person.job(number)["starts"]
    return low - time.time(), high - time.time()


def test_the_range_comes_from_earlier_jobs_of_the_same_user_and_title(
    head: Head,
    anna: Person,
    a_placed_job: Build,
    a_waiting_job: Build,
    past: Callable[..., None],
    estimate: Callable[[], None],
) -> None:
    past(600, 1800, 2400, title="train")
    past(10, 10, 10, title="quick")
    running = a_placed_job("[a100]", title="train")
    _start_ago(head, running, 120)
    number = a_waiting_job("[a100]")
    estimate()
    low, high = _starts_in(anna, number)
    assert low == pytest.approx(480, abs=30)
    assert high == pytest.approx(2280, abs=30)
    (summary,) = anna.ok(anna.get("/status"))["waiting"]
    assert summary["starts"] == anna.ok(anna.get("/queue"))["jobs"][0]["starts"] == anna.job(number)["starts"]


def test_a_job_that_has_run_long_is_compared_with_those_that_ran_longer(
    head: Head,
    anna: Person,
    a_placed_job: Build,
    a_waiting_job: Build,
    past: Callable[..., None],
    estimate: Callable[[], None],
) -> None:
    past(600, 1800, 2400, title="train")
    running = a_placed_job("[a100]", title="train")
    _start_ago(head, running, 2000)
    number = a_waiting_job("[a100]")
    estimate()
    assert _starts_in(anna, number) == pytest.approx((400, 400), abs=30)


def test_of_unknown_jobs_the_range_is_wide_and_others_of_the_user_make_it_narrow(
    head: Head,
    anna: Person,
    worker: Worker,
    a_placed_job: Build,
    a_waiting_job: Build,
    past: Callable[..., None],
    estimate: Callable[[], None],
) -> None:
    a_placed_job("[a100]", title="new")
    number = a_waiting_job("[a100]")
    estimate()
    low, high = _starts_in(anna, number)
    assert low < 10
    assert high == pytest.approx(head.settings.planned_hours * 3600, rel=0.01)


def test_the_second_in_the_queue_waits_for_the_first(
    head: Head,
    anna: Person,
    a_placed_job: Build,
    a_waiting_job: Build,
    past: Callable[..., None],
    estimate: Callable[[], None],
) -> None:
    past(600, 1200, 1800, title="train")
    a_placed_job("[a100]", title="train")
    first, second = (a_waiting_job(request, title="train") for request in ("[a100]", "[a100,cpu]"))
    estimate()
    assert _starts_in(anna, first) == pytest.approx((600, 1800), abs=30)
    assert _starts_in(anna, second) == pytest.approx((1200, 3600), abs=30)


def test_a_job_without_a_reservation_has_no_estimate(
    head: Head,
    anna: Person,
    worker: Worker,
    a_placed_job: Build,
    a_waiting_job: Build,
    estimate: Callable[[], None],
) -> None:
    a_placed_job("[a100]")
    number = a_waiting_job("[a100]")
    worker.ail("its disk is full")
    estimate()
    assert anna.job(number)["starts"] is None


def test_the_first_estimate_is_kept_and_compared_with_the_start(
    head: Head,
    anna: Person,
    worker: Worker,
    a_placed_job: Build,
    a_waiting_job: Build,
    estimate: Callable[[], None],
) -> None:
    a_placed_job("[a100]")
    number = a_waiting_job("[a100]")
    estimate()
    first = anna.job(number)["starts"]
    with head.database.write() as session:
        estimate_errors.store_first(session, number, StartRange(1.0, 2.0), now=NOW)
    with head.database.read() as session:
        assert session.execute(select(Job.starts_from, Job.starts_by).where(Job.id == number)).one() == tuple(
            first
        )
    assert anna.ok(anna.get("/queue"))["estimates"]["jobs"] == 0
    worker.beat(*(ended(process) for process in worker.orders()))
    head.scheduling()
    started = sum(first) / 2 + 90
    with head.database.write() as session:
        session.execute(update(Attempt).where(Attempt.job_id == number).values(created_at=started))
    estimate()
    expected = {"days": 7, "jobs": 1, "median_error_s": pytest.approx(90), "inside_percent": 100.0}
    assert anna.ok(anna.get("/status"))["estimates"] == expected
    with head.database.read() as session:
        old = estimate_errors.measure(session, now=started + 8 * DAY_S)
    assert (old.jobs, old.median_error_s, old.inside_percent) == (0, None, None)


def test_estimates_are_made_at_most_every_few_seconds(head: Head) -> None:
    assert head.estimating() is None
    again_s = head.estimating()
    assert again_s is not None and 0 < again_s <= estimating.LEAST_S


def test_an_estimate_ends_with_its_time(
    head: Head, anna: Person, worker: Worker, a_placed_job: Build, a_waiting_job: Build
) -> None:
    a_placed_job("[a100]")
    a_waiting_job("[a100]")
    number = a_waiting_job("[a100,cpu]")
    head.scheduling()
    head.estimating._budget_s = 0.0
    head.estimating()
    low, high = anna.job(number)["starts"]
    assert low == high == head.scheduling.last.plan.reservations[number].start


def test_a_job_that_has_started_tells_what_it_waited_for(
    head: Head,
    anna: Person,
    worker: Worker,
    a_user: Callable[..., Person],
    a_group: Callable[..., None],
    a_placed_job: Build,
    a_waiting_job: Build,
    estimate: Callable[[], None],
) -> None:
    first = a_placed_job("[a100]")
    number = a_waiting_job("[a100]")
    head.scheduling()
    worker.beat(*(ended(process) for process in worker.orders()))
    estimate()
    story = anna.ok(anna.get(f"/jobs/{number}/why"))["story"]
    assert story["waited_for"] == f"needs 1 a100, 0 free; job {first} holds them"
    assert anna.ok(anna.get(f"/jobs/{first}/why"))["story"]["waited_for"] == ""
    bob = a_user("bob")
    a_group("vision", "bob", "anna")
    anna.ok(anna.put(f"/jobs/{number}/groups/vision"))
    shared = bob.ok(bob.get(f"/jobs/{number}/why"))["story"]
    assert shared["waited_for"] == "needs 1 a100, 0 free; a job of anna holds them"
