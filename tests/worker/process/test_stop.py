"""Stopping reaches the whole tree, and gives it its grace period."""

from pathlib import Path

import pytest

from pit_protocol.messages.beat import Order, OrderAction
from pit_protocol.states import KilledBy, ProcessState
from pit_protocol.system.procfs import read_stat
from tests.support.stubs.worker_head import StubHead, a_spec
from tests.worker.conftest import Eventually, Workers, is_alive

# In a session of its own, reparented, ignoring SIGTERM: it cannot be found by session or parent.
DAEMON = """
(setsid bash -c 'trap "" TERM; echo $BASHPID >"$JOB_DIR/pid"; while :; do sleep 1000; done' &)
until [ -s "$JOB_DIR/pid" ]; do sleep 0.01; done
echo ready
sleep 1000
"""


@pytest.fixture(params=["on", "off"], ids=["cgroup", "marker"], autouse=True)
def cgroups(request: pytest.FixtureRequest, workers: Workers) -> str:
    workers.start(PIT_WORKER_CGROUPS=request.param)
    return str(request.param)


@pytest.mark.threat("F36")
def test_stop_kills_a_daemonised_child_that_ignores_sigterm(
    head: StubHead, eventually: Eventually, data_root: Path
):
    head.run(1, DAEMON, grace_s=0.3)
    eventually(lambda: head.log(1) == "ready\n")
    pid = (data_root / "jobs/1/pid").read_text()
    assert is_alive(pid)
    head.stop(1)
    end = eventually(lambda: head.end(1))
    assert not is_alive(pid)
    assert (end.exit_code, end.signal, end.killed_by) == (143, 15, KilledBy.USER)


def test_a_trap_has_its_grace_and_its_output_arrives(head: StubHead, eventually: Eventually):
    head.run(1, "trap 'sleep 0.3; echo saved; exit 3' TERM; echo ready; while :; do sleep 0.05; done")
    eventually(lambda: head.log(1) == "ready\n")
    head.stop(1, killed_by=KilledBy.JOB)
    end = eventually(lambda: head.end(1))
    assert head.log(1).endswith("saved\n")
    assert (end.exit_code, end.killed_by) == (3, KilledBy.JOB)


def test_a_child_has_its_grace_though_the_shell_above_it_died_at_once(head: StubHead, eventually: Eventually):
    head.run(
        1,
        "bash -c 'trap \"sleep 0.3; echo saved; exit\" TERM; echo ready; while :; do sleep 0.05; done'; true",
    )
    eventually(lambda: head.log(1) == "ready\n")
    head.stop(1)
    end = eventually(lambda: head.end(1))
    assert "saved\n" in head.log(1)
    assert end.signal == 15


@pytest.mark.threat("F36")
def test_a_process_that_ignores_sigterm_is_killed_after_its_grace(head: StubHead, eventually: Eventually):
    head.run(1, "trap '' TERM; echo ready; while :; do sleep 0.05; done", grace_s=0.2)
    eventually(lambda: head.log(1) == "ready\n")
    head.stop(1)
    eventually(lambda: head.state(1) is not ProcessState.RUNNING)
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, end.signal, end.killed_by) == (137, 9, KilledBy.USER)


def test_a_fork_bomb_ends(head: StubHead, eventually: Eventually):
    bomb = "forever() { while :; do (sleep 0.01; forever) & wait; done; }; forever"
    head.run(1, f"trap '' TERM; echo ready; {bomb}", grace_s=0.2)
    eventually(lambda: head.log(1) == "ready\n")
    head.stop(1)
    assert eventually(lambda: head.end(1)).signal == 9


def test_stop_of_a_process_never_seen_keeps_a_late_run_from_starting_it(
    head: StubHead, eventually: Eventually, data_root: Path, workers: Workers
):
    head.forgets = False
    head.stop(1)
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, end.killed_by, end.reason) == (None, KilledBy.USER, "never started")
    head.order(Order(1, 1, OrderAction.RUN, spec=a_spec("echo ran >>$JOB_DIR/ledger")))
    head.reports.clear()  # so that the order carries its spec
    head.run(2, "true")
    eventually(lambda: head.end(2) and head.state(1))
    assert (workers.spool / "1-1").is_dir()
    assert not (data_root / "jobs/1/ledger").exists()


def test_stop_at_once_after_start_ends_soon(head: StubHead, eventually: Eventually):
    for process in range(1, 6):
        head.run(process, "sleep 1000", grace_s=60)
        head.stop(process)
    for process in range(1, 6):
        assert eventually(lambda process=process: head.end(process)).killed_by is KilledBy.USER


def test_a_process_that_left_session_and_environment_but_keeps_the_output_open_is_killed(
    head: StubHead, eventually: Eventually, data_root: Path
):
    head.run(1, '(setsid env -i bash -c "echo \\$BASHPID >$JOB_DIR/pid; sleep 1000" &); sleep 0.3; echo bye')
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, head.log(1)) == (0, "bye\n")
    assert not is_alive((data_root / "jobs/1/pid").read_text())


def test_a_stopped_script_does_not_go_on_to_its_next_line(head: StubHead, eventually: Eventually):
    for number in range(1, 13):
        head.run(number, "echo ready; sleep 1000; echo went on; exit 0")
    for number in range(1, 13):
        eventually(lambda number=number: head.log(number) == "ready\n")
        head.stop(number)
    for number in range(1, 13):
        end = eventually(lambda number=number: head.end(number))
        assert "went on" not in head.log(number)
        assert end.exit_code == 143


# Its first thread has ended, so it looks like a zombie, but another one runs; SIGTERM is ignored.
THREADED = """
python3 - <<'EOP' &
import ctypes, os, signal, threading, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(os.environ["JOB_DIR"] + "/pid", "w").write(str(os.getpid()))
threading.Thread(target=time.sleep, args=(1000,)).start()
ctypes.CDLL(None).pthread_exit(None)
EOP
until [ -s "$JOB_DIR/pid" ] && grep -q 'State:.*Z' "/proc/$(cat "$JOB_DIR/pid")/status"; do sleep 0.01; done
echo ready
wait
"""


def test_a_process_whose_first_thread_ended_is_killed_with_the_others(
    head: StubHead, eventually: Eventually, data_root: Path
):
    head.run(1, THREADED, grace_s=0.3)
    eventually(lambda: head.log(1) == "ready\n")
    pid = int((data_root / "jobs/1/pid").read_text())
    head.stop(1)
    eventually(lambda: head.end(1))
    assert (stat := read_stat(pid)) is None or stat.has_ended


def test_a_stalled_process_shows_where_it_hangs_before_it_is_stopped(head: StubHead, eventually: Eventually):
    python = "import time; print('ready', flush=True); time.sleep(1000)"
    head.run(1, f'python3 -c "{python}"')
    eventually(lambda: head.log(1) == "ready\n")
    head.stop(1, killed_by=KilledBy.STALL)
    assert eventually(lambda: head.end(1)).killed_by is KilledBy.STALL
    assert "pit: where Python program " in head.log(1)
