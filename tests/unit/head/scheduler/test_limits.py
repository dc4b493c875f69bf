"""Limits of users and groups, within one pass."""

from dataclasses import replace

from pit_server.scheduler.limits import Left, Limits
from pit_server.scheduler.plan import plan
from tests.support.scheduling import a_job, a_view, given, numbers

JOBS = [a_job(1, "[2:a100]"), a_job(2, "[2:a100]"), a_job(3, "[a100]"), a_job(4, "[4:a100]")]
STATE = given(JOBS, a_view(a100=16))
ANNA = dict.fromkeys((1, 2, 3), ("user anna",))


def started(left: Left, **fields: object) -> list[int]:
    limits = Limits({"user anna": left}, ANNA, **fields)  # type: ignore[arg-type]
    return numbers(plan(replace(STATE, limits=limits)))


def test_a_pass_starts_no_more_than_the_limits_allow_together() -> None:
    assert started(Left()) == [1, 2, 3, 4]
    assert started(Left(jobs=1)) == [1, 4]
    assert started(Left(gpus=3)) == [1, 3, 4]
    assert started(Left(gpu_s=7200), limit_s={1: 3600.0, 2: 3600.0, 3: 1800.0}) == [1, 4]


def test_all_accounts_of_a_job_must_allow_it() -> None:
    left = {"user anna": Left(jobs=2), "group ml": Left(gpus=1)}
    limits = Limits(left, dict.fromkeys(ANNA, ("user anna", "group ml")))
    made = plan(replace(STATE, limits=limits))
    assert numbers(made) == [3, 4]
    assert made.reasons[1].render() == "waits for other jobs of group ml, which use up its limits"


def test_what_was_over_a_limit_is_looked_at_again_at_once_but_not_for_ever() -> None:
    limits = Limits({"user anna": Left(jobs=1)}, ANNA)
    first = plan(replace(STATE, limits=limits))
    assert not first.is_complete
    waiting = [job for job in JOBS if job.number in (2, 3)]
    left = replace(given(waiting, a_view(a100=10)), limits=Limits({"user anna": Left(jobs=0)}, ANNA))
    second = plan(left, first.memory)
    assert (numbers(second), second.is_complete) == ([], True)


def test_a_job_without_gpus_uses_no_gpu_hours() -> None:
    assert Left(gpu_s=-5).allows(0, 0)
    assert not Left(gpu_s=-5).allows(1, 0)
