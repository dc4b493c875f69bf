"""What a worker knows of one process."""

from pathlib import Path

import pytest

from pit_protocol.states import KilledBy, ProcessState
from pit_worker.process.process import Process
from pit_worker.process.states import Event, IllegalMove, State
from pit_worker.spool.entry import End, Entry, Intent, Stop
from tests.support.stubs.worker_head import a_spec


@pytest.fixture
def process(tmp_path: Path) -> Process:
    intent = Intent(1, 1, "cluster", "boot", str(tmp_path), a_spec("true"))
    return Process(Entry(tmp_path / "1-1", intent))


def test_a_new_process_is_queued(process: Process) -> None:
    assert process.state is State.QUEUED
    assert process.is_waiting
    assert not process.is_live


def test_a_process_whose_end_is_on_record_has_ended(process: Process) -> None:
    assert Process(process.entry, end=End(1.0, exit_code=0)).state is State.ENDED


def test_a_process_whose_files_are_staged_out_is_not_started_again(process: Process) -> None:
    process.advance(Event.REBOOTED)
    assert not process.is_waiting
    assert not process.is_live


def test_an_illegal_move_names_the_process(process: Process) -> None:
    with pytest.raises(IllegalMove, match=r"^process 1-1: `exit collected` leads nowhere from `queued`"):
        process.advance(Event.EXIT_COLLECTED)


def test_why_it_waits_is_reported_only_while_it_waits(process: Process) -> None:
    process.waits_for = "no addresses are left"
    assert process.report(0, may_end=True).reason == "no addresses are left"
    process.advance(Event.ADOPTED)
    assert process.report(0, may_end=True).reason == ""


def test_its_end_is_reported_when_the_head_has_all_output(process: Process) -> None:
    ended = Process(process.entry, started_at=1.0, end=End(2.0, exit_code=3))
    assert ended.report(10, may_end=False).state is ProcessState.RUNNING
    assert ended.report(10, may_end=True).exit_code == 3


def test_a_process_with_a_request_to_stop_is_reported_as_stopping(process: Process) -> None:
    process.stop = Stop(1.0, KilledBy.USER)
    assert process.report(0, may_end=True).state is ProcessState.STOPPING
