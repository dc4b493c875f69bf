"""The table of a process's states on its node is closed, and nothing but the table moves a process."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pit_worker.process.states import (
    LIVE,
    MOVES,
    PAST_STOPPING,
    STORY_LENGTH,
    WAITING,
    Event,
    IllegalMove,
    Lifecycle,
    State,
)

FINAL = State.ENDED
# A life without trouble.
ORDINARY = (
    (Event.DEQUEUED, State.STAGING_IN),
    (Event.STAGED_IN, State.STARTING),
    (Event.STARTED, State.RUNNING),
    (Event.EXITED, State.COLLECTING_EXIT),
    (Event.EXIT_COLLECTED, State.KILLING_LEFTOVERS),
    (Event.TREE_GONE, State.RELEASING_GPUS),
    (Event.GPUS_RELEASED, State.STAGING_OUT),
    (Event.STAGED_OUT, State.ENDED),
)


def reachable(start: State) -> set[State]:
    found = {start}
    while new := {to for (state, _), to in MOVES.items() if state in found} - found:
        found |= new
    return found


def test_every_state_is_reachable() -> None:
    assert reachable(State.QUEUED) == set(State)


@pytest.mark.parametrize("state", State)
def test_every_state_leads_to_the_end(state: State) -> None:
    assert FINAL in reachable(state)


def test_every_event_leads_somewhere() -> None:
    assert {event for _, event in MOVES} == set(Event)


@pytest.mark.parametrize(("state", "event"), list(product(State, Event)))
def test_every_event_in_every_state_is_in_the_table_or_refused(state: State, event: Event) -> None:
    life = Lifecycle(state)
    target = MOVES.get((state, event))
    if target is None:
        with pytest.raises(IllegalMove, match=f"`{event}` leads nowhere from `{state}`"):
            life.advance(event)
        assert life.state is state
    else:
        assert life.advance(event) is target
        assert life.state is target


@pytest.mark.parametrize("event", Event)
def test_nothing_leads_out_of_the_end(event: Event) -> None:
    with pytest.raises(IllegalMove):
        Lifecycle(FINAL).advance(event)


def test_an_ordinary_life() -> None:
    life = Lifecycle()
    assert [life.advance(event) for event, _ in ORDINARY] == [state for _, state in ORDINARY]


def test_no_state_is_waiting_and_live_at_once() -> None:
    assert not WAITING & LIVE
    assert not WAITING & PAST_STOPPING


@pytest.mark.parametrize("state", sorted(WAITING))
def test_a_waiting_process_can_be_cancelled_adopted_or_found_ended(state: State) -> None:
    assert MOVES[state, Event.CANCELLED] is State.ENDED
    assert MOVES[state, Event.ADOPTED] is State.RUNNING
    assert MOVES[state, Event.EXITED] is State.COLLECTING_EXIT


def test_what_has_run_ends_only_after_its_gpus_are_released_and_its_files_staged_out() -> None:
    into_end = {state for (state, _), to in MOVES.items() if to is State.ENDED}
    assert into_end == {State.STAGING_OUT, *WAITING}
    into_stage_out = {state for (state, _), to in MOVES.items() if to is State.STAGING_OUT}
    # After a reboot there is nothing left to release.
    assert into_stage_out == {State.RELEASING_GPUS, State.QUEUED}


def test_an_illegal_move_tells_the_story_so_far() -> None:
    life = Lifecycle()
    life.advance(Event.DEQUEUED)
    life.advance(Event.START_FAILED)
    with pytest.raises(IllegalMove) as caught:
        life.advance(Event.STAGED_OUT)
    assert str(caught.value) == (
        "`staged out` leads nowhere from `queued`; "
        "so far: queued -dequeued-> staging in -start failed-> queued"
    )


def test_a_long_story_is_cut_at_its_beginning() -> None:
    life = Lifecycle()
    for _ in range(STORY_LENGTH):
        life.advance(Event.DEQUEUED)
        life.advance(Event.START_FAILED)
    assert life.story().count("->") == STORY_LENGTH
    assert life.story().endswith("-start failed-> queued")


@given(st.sampled_from([State.QUEUED, State.ENDED]), st.lists(st.sampled_from(Event), max_size=60))
def test_no_sequence_of_events_leaves_the_table(start: State, events: list[Event]) -> None:
    life = Lifecycle(start)
    for event in events:
        before = life.state
        try:
            life.advance(event)
        except IllegalMove:
            assert (before, event) not in MOVES
            assert life.state is before
        else:
            assert life.state is MOVES[before, event]
        assert before is not FINAL or life.state is FINAL


@given(st.data())
def test_every_walk_along_the_table_can_still_end(data: st.DataObject) -> None:
    life = Lifecycle()
    for _ in range(data.draw(st.integers(0, 40))):
        choices = [event for state, event in MOVES if state is life.state]
        if not choices:
            assert life.state is FINAL
            return
        life.advance(data.draw(st.sampled_from(choices)))
    assert FINAL in reachable(life.state)
