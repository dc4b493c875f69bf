"""One beat: every report, fair shares of output, no end before its output."""

from pathlib import Path

import pytest

from pit_protocol.messages.beat import MAX_CHUNK
from pit_protocol.states import ProcessState
from pit_worker.link.beat import MAX_OUTPUT, compose
from pit_worker.process.process import Process
from pit_worker.spool.entry import End, Entry, Intent


def a_process(
    folder: Path, number: int, size: int, *, shipped: int | None = 0, end: End | None = None
) -> Process:
    path = folder / f"{number}-1"
    path.mkdir()
    (path / "output").write_bytes(bytes([number]) * size)
    process = Process(Entry(path, Intent(number, 1, "test", "boot", "/data", None)), started_at=1.0, end=end)
    process.output.shipped = shipped
    return process


@pytest.mark.threat("F31")
def test_a_flood_of_output_does_not_starve_a_quiet_process(tmp_path: Path):
    flood = a_process(tmp_path, 1, 10 * MAX_OUTPUT)
    quiet = a_process(tmp_path, 2, 5)
    beat = compose([flood, quiet])
    assert sum(map(len, beat.data)) == MAX_OUTPUT
    assert beat.shipped[quiet.key] == 5
    assert max(chunk.length for chunk in beat.chunks) == MAX_CHUNK


def test_output_that_did_not_fit_comes_first_next_time(tmp_path: Path):
    processes = [a_process(tmp_path, number, MAX_CHUNK) for number in range(3)]
    first = compose(processes, max_output=MAX_CHUNK)
    for process in processes:
        process.output.shipped = first.shipped[process.key]
    second = compose(processes, max_output=MAX_CHUNK)
    assert [beat.chunks[0].process for beat in (first, second)] == [0, 1]


def test_an_end_is_reported_only_with_the_last_of_its_output(tmp_path: Path):
    process = a_process(tmp_path, 1, MAX_CHUNK + 1, end=End(2.0, exit_code=0))
    first = compose([process], max_output=MAX_CHUNK)
    assert (first.reports[0].state, first.withholds_end) == (ProcessState.RUNNING, True)
    process.output.shipped = first.shipped[process.key]
    second = compose([process])
    assert (second.reports[0].state, second.reports_end) == (ProcessState.ENDED, True)
    assert second.reports[0].log_size == MAX_CHUNK + 1


def test_no_output_is_shipped_before_the_head_says_what_it_has(tmp_path: Path):
    process = a_process(tmp_path, 1, 5, shipped=None, end=End(2.0, exit_code=0))
    beat = compose([process])
    assert (beat.chunks, beat.reports[0].state) == ((), ProcessState.RUNNING)


def test_output_that_was_dropped_is_shipped_as_a_gap(tmp_path: Path):
    process = a_process(tmp_path, 1, 10)
    process.entry.output.append(b"end", 100, 0)
    beat = compose([process])
    assert [(chunk.offset, chunk.length, chunk.gap) for chunk in beat.chunks] == [(0, 10, 0), (100, 3, 90)]
    assert (beat.data[-1], beat.shipped[process.key], beat.reports[0].log_size) == (b"end", 103, 103)


def test_output_that_was_dropped_at_its_end_does_not_withhold_the_end(tmp_path: Path):
    process = a_process(tmp_path, 1, 10, end=End(2.0, exit_code=0))
    process.entry.output.append(b"", 100, 0)
    beat = compose([process])
    assert [(chunk.offset, chunk.length, chunk.gap) for chunk in beat.chunks] == [(0, 10, 0), (100, 0, 90)]
    assert (beat.reports_end, beat.reports[0].log_size) == (True, 100)
