"""The state tables are complete: every state is reachable, and every state leads to the end."""

from collections.abc import Mapping
from typing import TypeVar

import pytest

from pit_protocol.states import (
    JOB_MOVES,
    LETTERS,
    PROCESS_MOVES,
    JobEvent,
    JobState,
    Outcome,
    ProcessEvent,
    ProcessState,
    letters,
)

S = TypeVar("S")
E = TypeVar("E")


def reachable(moves: Mapping[tuple[S, E], S], start: S) -> set[S]:
    found = {start}
    while new := {to for (state, _), to in moves.items() if state in found} - found:
        found |= new
    return found


def test_every_state_of_a_job_can_be_reached() -> None:
    assert reachable(JOB_MOVES, JobState.PREPARING) == set(JobState)


def test_every_state_of_a_process_can_be_reached() -> None:
    assert reachable(PROCESS_MOVES, ProcessState.ASSIGNED) == set(ProcessState)


def test_nothing_leads_out_of_ended() -> None:
    assert not [move for move in JOB_MOVES if move[0] is JobState.ENDED]
    assert not [move for move in PROCESS_MOVES if move[0] is ProcessState.ENDED]


def test_from_every_other_state_the_end_can_be_reached() -> None:
    for state in JobState:
        assert JobState.ENDED in reachable(JOB_MOVES, state)
    for process_state in ProcessState:
        assert ProcessState.ENDED in reachable(PROCESS_MOVES, process_state)


def test_every_event_has_a_move_or_is_the_first_one() -> None:
    assert {event for _, event in JOB_MOVES} == set(JobEvent) - {JobEvent.ACCEPTED}
    assert {event for _, event in PROCESS_MOVES} == set(ProcessEvent) - {ProcessEvent.ASSIGNED}


def test_a_user_can_stop_a_job_in_every_state_before_stopping() -> None:
    unstoppable = {state for state in JobState if (state, JobEvent.STOP) not in JOB_MOVES}
    assert unstoppable == {JobState.STOPPING, JobState.ENDED}


def test_a_stopping_process_can_only_end() -> None:
    moves = {event: to for (state, event), to in PROCESS_MOVES.items() if state is ProcessState.STOPPING}
    assert moves == {ProcessEvent.ENDED: ProcessState.ENDED}


def test_every_state_and_outcome_has_its_own_three_letters() -> None:
    assert set(LETTERS) == (set(JobState) - {JobState.ENDED}) | set(Outcome)
    assert len(set(LETTERS.values())) == len(LETTERS)
    assert {len(text) for text in LETTERS.values()} == {3}


@pytest.mark.parametrize(
    ("state", "outcome", "shown"),
    [
        (JobState.RUNNING, None, "RUN"),
        (JobState.STOPPING, Outcome.FAILED, "STG"),
        (JobState.ENDED, Outcome.FAILED, "FAI"),
    ],
)
def test_the_outcome_shows_only_when_the_job_has_ended(
    state: JobState, outcome: Outcome | None, shown: str
) -> None:
    assert letters(state, outcome) == shown
