"""What delays a job is told to each reader of its log once, and not too often."""

import pytest

from pit_protocol.states import JobState
from pit_server.services.jobs.records.delays import Delay
from pit_server.services.logs.delay_lines import EVERY_S, Told, parse_told, render_told, tell

NO_CORE, BEHIND = Delay("needs 1 core", "needs 1 core"), Delay("waits behind job 3", "waits behind job 3")


def texts(state: JobState, delay: Delay | None, told: Told, now: float) -> tuple[list[str], Told]:
    lines, after = tell(state, delay, told, now=now)
    return [line.text for line in lines], after


def test_a_reason_is_told_at_once_and_once() -> None:
    said, told = texts(JobState.WAITING, NO_CORE, Told(), 1000.0)
    assert said == ["waiting: needs 1 core"]
    assert texts(JobState.WAITING, NO_CORE, told, 5000.0)[0] == []


def test_another_reason_is_told() -> None:
    told = texts(JobState.WAITING, NO_CORE, Told(), 1000.0)[1]
    assert texts(JobState.WAITING, BEHIND, told, 1000.0 + EVERY_S)[0] == ["waiting behind job 3"]


def test_a_reason_that_changes_all_the_time_does_not_flood_the_log() -> None:
    told, said = Told(), 0
    for second in range(600):
        lines, told = texts(JobState.WAITING, (NO_CORE, BEHIND)[second % 2], told, 1000.0 + second)
        said += len(lines)
    assert 2 <= said <= 600 / EVERY_S


def test_what_was_told_travels_in_the_cursor() -> None:
    told = texts(JobState.WAITING, NO_CORE, Told(), 1000.0)[1]
    assert parse_told("AAA" + render_told(told)) == told


@pytest.mark.parametrize("cursor", ["", "AAA", "AAA.", "AAA.x", "AAA.w-", "AAA.w12-99999999999999"])
def test_a_cursor_that_says_nothing_means_that_nothing_was_told(cursor: str) -> None:
    assert parse_told(cursor) == Told()
