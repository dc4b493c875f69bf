"""A worker may die at any moment; its processes keep running, run once, and nothing of them is lost."""

import os
import signal
from pathlib import Path

import pytest

from pit_protocol.states import KilledBy, ProcessState
from tests.support.stubs.worker_head import StubHead
from tests.worker.conftest import EMPTY_SPOOL, Eventually, Workers, is_alive

COUNT = 'i=0; until [ -e "$JOB_DIR/go" ]; do echo line $((i++)); sleep 0.01; done; echo last $i $$'


@pytest.mark.threat("F09")
def test_a_running_process_is_adopted_with_no_gap_in_its_log(
    head: StubHead, eventually: Eventually, workers: Workers, data_root: Path
):
    first = workers.start()
    head.run(1, "echo $$ >>$JOB_DIR/ledger; " + COUNT)
    eventually(lambda: "line 5\n" in head.log(1))
    workers.kill(first)
    pid = (data_root / "jobs/1/ledger").read_text()
    size = len(head.log(1))
    assert is_alive(pid)
    workers.start()
    eventually(lambda: len(head.log(1)) > size)
    assert head.state(1) is ProcessState.RUNNING
    (data_root / "jobs/1/go").touch()
    assert eventually(lambda: head.end(1)).exit_code == 0
    assert (data_root / "jobs/1/ledger").read_text() == pid
    lines = head.log(1).splitlines()
    assert lines[:-1] == [f"line {i}" for i in range(len(lines) - 1)]
    assert lines[-1] == f"last {len(lines) - 1} {pid.strip()}"


@pytest.mark.parametrize("cgroups", ["on", "off"])
@pytest.mark.threat("F10")
def test_an_end_while_the_worker_is_down_is_reported_correctly(
    head: StubHead, eventually: Eventually, workers: Workers, data_root: Path, cgroups: str
):
    first = workers.start(PIT_WORKER_CGROUPS=cgroups)
    head.run(1, COUNT + "; exit 9")
    eventually(lambda: "line 1\n" in head.log(1))
    workers.kill(first)
    (data_root / "jobs/1/go").touch()
    eventually(lambda: (workers.spool / "1-1/exit").exists())
    workers.start(PIT_WORKER_CGROUPS=cgroups)
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, end.killed_by) == (9, None)
    assert "\nlast " in head.log(1)


@pytest.mark.parametrize(
    "label",
    ["after-intent", "after-start", "after-exit", "before-end-report", "after-end-report", "before-forget"],
)
@pytest.mark.threat("F08", "F11")
def test_user_code_runs_once_though_the_worker_crashes(
    head: StubHead, eventually: Eventually, workers: Workers, data_root: Path, label: str
):
    first = workers.start(PIT_CRASH_AT=label)
    head.run(1, "echo ran >>$JOB_DIR/ledger; echo out; exit 4")
    assert first.wait(120) == 137
    workers.start()
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, head.log(1)) == (4, "out\n")
    assert (data_root / "jobs/1/ledger").read_text() == "ran\n"
    eventually(lambda: {path.name for path in workers.spool.iterdir()} == EMPTY_SPOOL)


def test_a_stop_is_carried_out_though_the_worker_crashes_during_it(
    head: StubHead, eventually: Eventually, workers: Workers
):
    first = workers.start(PIT_CRASH_AT="after-stop")
    head.run(1, "echo ready; sleep 1000")
    eventually(lambda: head.log(1))
    head.stop(1)
    assert first.wait(120) == 137
    head.is_deaf = True
    workers.start()
    eventually(lambda: (workers.spool / "1-1/end").exists())
    head.is_deaf = False
    end = eventually(lambda: head.end(1))
    assert (end.signal, end.killed_by) == (15, KilledBy.USER)


@pytest.mark.threat("F22")
def test_a_reboot_is_detected_by_the_boot_id(head: StubHead, eventually: Eventually, workers: Workers):
    first = workers.start(PIT_WORKER_BOOT_ID="monday")
    head.run(1, "echo ready; sleep 1000")
    eventually(lambda: head.log(1))
    workers.kill(first)
    workers.start(PIT_WORKER_BOOT_ID="tuesday")
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, end.killed_by, end.reason) == (None, KilledBy.REBOOT, "the node was rebooted")
    assert [hello.boot_id for hello in head.hellos] == ["monday", "tuesday"]


def test_the_tree_of_a_killed_supervisor_is_killed(
    head: StubHead, eventually: Eventually, workers: Workers, data_root: Path
):
    workers.start()
    head.run(1, "echo $$ >$JOB_DIR/pid; echo ready; sleep 1000")
    eventually(lambda: head.log(1))
    supervisor = int((workers.spool / "1-1/started").read_text().split()[0])
    os.kill(supervisor, signal.SIGKILL)
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, end.signal, end.reason) == (None, 9, "its supervisor was killed")
    assert not is_alive((data_root / "jobs/1/pid").read_text())


def test_processes_keep_running_after_the_worker_is_terminated(
    head: StubHead, eventually: Eventually, workers: Workers, data_root: Path
):
    first = workers.start()
    head.run(1, COUNT)
    eventually(lambda: head.log(1))
    first.terminate()
    assert first.wait(120) == 0
    (data_root / "jobs/1/go").touch()
    workers.start()
    assert eventually(lambda: head.end(1)).exit_code == 0
