"""The checker of the fault tests notices each kind of damage."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.faults import checker
from tests.support.faults.checker import Accepted
from tests.support.faults.ledger import Run

RUN = Run(job=1, attempt=1, rank=0, starts=1, begun=10.0, last=20.0, lines=2, exit_code=0)


def an_event(event: str, before: str | None, after: str, process: int | None = None) -> Any:
    return SimpleNamespace(
        event=event, from_state=before, to_state=after, process_id=process, job_id=1, at=5.0
    )


LIFE = [
    an_event("accepted", None, "preparing"),
    an_event("prepared", "preparing", "waiting"),
    an_event("placed", "waiting", "starting"),
    an_event("assigned", None, "assigned", 7),
    an_event("started", "assigned", "running", 7),
    an_event("started", "starting", "running"),
    an_event("ended", "running", "ended", 7),
    an_event("settled", "running", "ended"),
]


def check_life(events: list[Any], job: str = "ended", process: str = "ended") -> None:
    jobs: Any = {1: SimpleNamespace(state=job)}
    checker.check_events(jobs, {7: SimpleNamespace(state=process)}, events)  # type: ignore[dict-item]


def test_a_submission_must_be_one_job() -> None:
    jobs: Any = {1: SimpleNamespace(id=1, submission_key="a"), 2: SimpleNamespace(id=2, submission_key="b")}
    checker.check_submissions([Accepted("a", 1), Accepted("b", 2), Accepted("a", 1)], jobs)
    for wrong in ([Accepted("c", 3)], [Accepted("a", 2)], [Accepted("a", 1), Accepted("a", 2)]):
        with pytest.raises(AssertionError, match="was accepted as job"):
            checker.check_submissions(wrong, jobs)


def test_every_change_must_be_legal_and_recorded() -> None:
    check_life(LIFE)
    with pytest.raises(AssertionError, match="does not follow"):
        check_life([event for event in LIFE if event.event != "placed"])
    with pytest.raises(AssertionError, match="the last event led to running"):
        check_life(LIFE[:-1])
    with pytest.raises(AssertionError, match="is not legal"):
        check_life([*LIFE, an_event("settled", "ended", "ended")])
    with pytest.raises(AssertionError, match="is not legal"):
        check_life([*LIFE, an_event("ended", "ended", "ended", 7)])


def test_a_process_must_start_once_and_attempts_must_not_overlap() -> None:
    checker.check_starts([RUN, replace(RUN, attempt=2, begun=21.0, last=30.0)])
    with pytest.raises(AssertionError, match="was started 2 times"):
        checker.check_starts([replace(RUN, starts=2)])
    with pytest.raises(AssertionError, match="overlaps"):
        checker.check_starts([RUN, replace(RUN, attempt=2, begun=19.0, last=30.0)])


def test_allocations_must_fit_at_all_times() -> None:
    nodes: Any = {1: SimpleNamespace(name="n0", cores=2, memory_mib=100)}
    events = [an_event("assigned", None, "assigned", process) for process in (7, 8)]

    def held(process: int, kind: str, unit: str | None, amount: int, until: float | None = None) -> Any:
        return SimpleNamespace(
            process_id=process, node_id=1, kind=kind, unit=unit, amount=amount, released_at=until
        )

    checker.check_capacity(nodes, [held(7, "cpu", None, 1000), held(8, "cpu", None, 1000)], events)
    for wrong in (
        [held(7, "cpu", None, 1000), held(8, "cpu", None, 1001, until=9.0)],
        [held(7, "a100", "gpu-0", 1), held(8, "a100", "gpu-0", 1)],
    ):
        with pytest.raises(AssertionError, match="is used"):
            checker.check_capacity(nodes, wrong, events)


def test_the_exit_code_must_be_the_true_one() -> None:
    def ended(code: int | None, killed_by: str | None = None) -> Any:
        return SimpleNamespace(id=7, state="ended", exit_code=code, killed_by=killed_by)

    checker.check_exit(ended(0), RUN)
    checker.check_exit(ended(None, "user"), replace(RUN, exit_code=None))
    with pytest.raises(AssertionError, match="ended with 3"):
        checker.check_exit(ended(3), RUN)
    with pytest.raises(AssertionError, match="did not end by itself"):
        checker.check_exit(ended(0), replace(RUN, exit_code=None))


@pytest.mark.parametrize(
    "log", [b"line 0\n", b"line 1\nline 0\n", b"line 0\nline 0\nline 1\n", b"line 0\nline 2\n"]
)
def test_the_log_must_be_what_was_printed(log: bytes) -> None:
    checker.check_log(b"line 0\nline 1\n", RUN, is_complete=True)
    checker.check_log(b"line 0\n", RUN, is_complete=False)
    with pytest.raises(AssertionError, match="log of"):
        checker.check_log(log, RUN, is_complete=True)
