"""A node that is ill refuses processes as its own fault, takes no more, and recovers by itself."""

import queue
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pit_protocol.states import KilledBy, ProcessState
from pit_worker.health import Check, NodeHealth
from pit_worker.loop import Call, Timer
from pit_worker.timing import Timing
from tests.support.requirements import lack, need_programs
from tests.support.stubs.worker_head import StubHead
from tests.worker.conftest import Eventually, Workers

FAST = {"PIT_WATCH_SPEEDUP": "50"}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem that can fail."""
    need_programs("mkfs.ext4")
    place, image = tmp_path / "disk", tmp_path / "image"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(32 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    if subprocess.run(["mount", "-o", "loop", image, place], check=False).returncode:
        lack("no right to mount")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fail(place: Path) -> None:
    """Make it read-only at once, though files on it are open, as ext4 does after an error."""
    subprocess.run(["mount", "-o", "remount,abort", place], check=True)


def test_a_missing_data_root_is_the_nodes_fault_and_keeps_jobs_away_until_it_is_back(
    head: StubHead, workers: Workers, eventually: Eventually, data_root: Path
):
    workers.start(**FAST)
    eventually(lambda: head.spoken and head.spoken[-1].trouble == "")
    moved = data_root.rename(data_root.with_name("elsewhere"))
    head.run(1, "echo never")
    end = eventually(lambda: head.end(1))
    assert (end.node_fault, end.killed_by, end.exit_code) == (True, KilledBy.WORKER, None)
    assert end.reason == f"the data root {data_root} is not there on this node"
    eventually(lambda: head.spoken[-1].trouble == f"the data root {data_root} is not there")
    moved.rename(data_root)
    eventually(lambda: head.spoken[-1].trouble == "")
    head.run(2, "echo well")
    assert eventually(lambda: head.end(2)).exit_code == 0


def test_a_mistake_in_the_job_is_not_the_nodes_fault(
    head: StubHead, workers: Workers, eventually: Eventually
):
    workers.start(**FAST)
    head.run(1, None)  # there is no .compute
    assert not eventually(lambda: head.end(1)).node_fault
    eventually(lambda: head.spoken[-1].trouble == "")


@pytest.mark.threat("F29")
def test_a_spool_that_becomes_read_only_is_reported_and_its_worker_lives(
    head: StubHead, workers: Workers, eventually: Eventually, disk: Path
):
    spool = disk / "spool"
    worker = workers.start(spool, PIT_WORKER_DISK_RESERVE_MIB="0", **FAST)
    head.run(1, 'until [ -e "$JOB_DIR/go" ]; do sleep 0.05; done', grace_s=0.1)
    eventually(lambda: head.state(1) is ProcessState.RUNNING)
    fail(disk)
    told = f"its spool {spool} cannot be written: Read-only file system"
    eventually(lambda: head.spoken[-1].trouble == told)
    head.run(2, "echo never")
    end = eventually(lambda: head.end(2))
    assert end.node_fault
    assert end.reason.startswith("the worker cannot write to its spool: ")
    assert worker.poll() is None


@pytest.mark.threat("F29")
def test_a_worker_whose_spool_is_read_only_at_its_start_is_started_again(workers: Workers, disk: Path):
    (disk / "spool").mkdir()
    fail(disk)
    assert workers.start(disk / "spool").wait(120) == 70
    assert "disk/spool cannot be used: " in workers.log()


def test_a_thread_that_dies_ends_the_worker_with_70(head: StubHead, workers: Workers):
    program = "from pit_worker.link.threads import HeadLink as L; L._receive = lambda self: self.x; "
    program += "from pit_worker.__main__ import main; import sys; sys.exit(main())"
    worker = workers.start(program=program)
    assert worker.wait(120) == 70
    assert "internal worker error: thread receiver ended; exiting" in workers.log()


@pytest.mark.threat("F40")
def test_a_process_whose_start_crashes_the_worker_is_given_up(
    head: StubHead, workers: Workers, eventually: Eventually
):
    program = "from pit_worker.runtime.local import LocalRuntime as L; import os, sys; "
    program += "L.start = lambda *_: os._exit(9); from pit_worker.__main__ import main; sys.exit(main())"
    head.run(1, "echo never")
    for _ in range(3):
        assert workers.start(program=program).wait(120) == 9
    workers.start()
    end = eventually(lambda: head.end(1))
    assert end.reason == "the worker crashed 3 times while it started this process"
    assert not end.node_fault  # other nodes would not survive it either


class StubLoop:
    """Makes the calls of threads when the test says so; timers never fire."""

    def __init__(self) -> None:
        self.posted: queue.SimpleQueue[Call] = queue.SimpleQueue()

    def post(self, call: Call) -> None:
        self.posted.put(call)

    def after(self, _delay_s: float, call: Call) -> Timer:
        return Timer(call)

    def finish_check(self) -> None:
        self.posted.get(timeout=120)()


def a_health(pause_s: float, **checks: Check) -> tuple[NodeHealth, StubLoop]:
    loop = StubLoop()
    timing = Timing(fault_pause_s=pause_s)
    return NodeHealth(loop, checks, 3, lambda: None, timing), loop  # type: ignore[arg-type]


def test_a_node_that_could_not_start_three_jobs_takes_none_until_a_later_check_is_good():
    health, loop = a_health(0.0)
    for job in (1, 1, 1, 2):
        health.note_fault(job, "no mounts")
    loop.finish_check()
    assert health.trouble == ""  # one job may be the cause itself
    health.note_fault(3, "no mounts")
    assert health.trouble == "it could not start the last 3 jobs: no mounts"
    loop.finish_check()
    assert health.trouble == ""
    health.note_fault(4, "no mounts")  # it has not recovered, so one more is enough
    assert health.trouble == "it could not start the last 4 jobs: no mounts"


def test_the_pause_after_failed_starts_outlasts_a_good_check_and_a_good_start_forgets_them():
    health, loop = a_health(1e6)
    for job in (1, 2):
        health.note_fault(job, "no mounts")
    health.note_start()
    loop.finish_check()
    for job in (3, 4, 5):
        health.note_fault(job, "no mounts")
    loop.finish_check()
    assert health.trouble == "it could not start the last 3 jobs: no mounts"


def test_a_check_that_does_not_end_is_a_trouble_of_its_own():
    go = threading.Event()
    health, loop = a_health(0.0, **{"the data root": lambda: "" if go.wait(60) else "never"})
    timers: list[Call] = []
    loop.after = lambda _delay_s, call: timers.append(call) or Timer(call)  # type: ignore[assignment, func-returns-value]
    health.check()
    timers[-1]()
    assert health.trouble == "the data root does not answer"
    go.set()
    loop.finish_check()
    assert health.trouble == ""
