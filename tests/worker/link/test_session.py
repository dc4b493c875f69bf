"""The worker and its head: tokens, epochs, outages, and the lock on the spool."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from pit_protocol import PROTOCOL
from pit_protocol.states import ProcessState
from tests.support.stubs.worker_head import StubHead
from tests.worker.conftest import Eventually, Workers, is_alive


def test_a_worker_exits_when_another_has_taken_over(head: StubHead, eventually: Eventually, workers: Workers):
    worker = workers.start()
    eventually(lambda: head.spoken)
    with head.changed:
        head.epoch += 1
        head.changed.notify_all()
    assert worker.wait(120) == 1
    assert "another worker has taken over node n0" in workers.log()


@pytest.mark.threat("S19", "F24")
def test_of_two_workers_with_one_token_the_second_displaces_the_first_and_its_processes_keep_running(
    head: StubHead, eventually: Eventually, workers: Workers, data_root: Path
):
    first = workers.start()
    head.run(1, "echo $$ >$JOB_DIR/pid; exec sleep 1000")
    eventually(lambda: head.state(1) is ProcessState.RUNNING)
    pid = eventually(lambda: (data_root / "jobs/1/pid").exists() and (data_root / "jobs/1/pid").read_text())
    second = workers.start(spool=workers.folder / "spool-of-another-machine")
    assert first.wait(120) == 1
    assert "another worker has taken over node n0" in workers.log()
    beats = len(head.spoken)
    eventually(lambda: len(head.spoken) > beats)
    assert is_alive(pid)
    assert second.poll() is None
    assert head.epoch == 2


def test_a_removed_node_logs_it_once_and_retries_with_growing_pauses(
    head: StubHead, eventually: Eventually, workers: Workers
):
    worker = workers.start()
    eventually(lambda: head.spoken)
    head.token = "pit_n1_new"
    eventually(lambda: head.refused >= 6)
    workers.token_file.write_text(head.token)
    beats = len(head.spoken)
    eventually(lambda: len(head.spoken) > beats)
    assert worker.poll() is None
    assert workers.log().count("the head refuses this node's token") == 1


@pytest.mark.threat("F24")
def test_a_second_worker_on_one_spool_refuses_to_start(
    head: StubHead, eventually: Eventually, workers: Workers
):
    workers.start()
    eventually(lambda: head.spoken)
    second = workers.start()
    assert second.wait(120) == 1
    assert f"pit-worker: another worker holds the spool {workers.spool}\n" in workers.log()


def test_a_refused_token_is_logged_and_retried_slowly(
    head: StubHead, eventually: Eventually, workers: Workers
):
    workers.token_file.write_text("pit_n1_wrong")
    began = time.monotonic()
    worker = workers.start()
    eventually(lambda: head.refused >= 3)
    assert time.monotonic() - began > 0.3
    workers.token_file.write_text(head.token)
    eventually(lambda: head.spoken)
    assert worker.poll() is None
    assert "the head refuses this node's token" in workers.log()
    assert "wrong" not in workers.log() and "secret" not in workers.log()


@pytest.mark.threat("F07")
def test_processes_keep_running_while_the_head_is_away(
    head: StubHead, eventually: Eventually, workers: Workers
):
    workers.start()
    head.run(1, "echo one; until [ -e $JOB_DIR/exit-now ]; do sleep 0.02; done; echo two; exit 5")
    eventually(lambda: head.log(1) == "one\n")
    head.is_deaf = True
    (workers.folder / "data/jobs/1/exit-now").touch()
    eventually(lambda: (workers.spool / "1-1/end").exists())
    assert head.end(1) is None
    head.is_deaf = False
    assert eventually(lambda: head.end(1)).exit_code == 5
    assert head.log(1) == "one\ntwo\n"


def test_many_processes_are_reported_with_few_beats(head: StubHead, eventually: Eventually, workers: Workers):
    workers.start()
    eventually(lambda: head.spoken)
    with head.changed:
        for process in range(60):
            head.run(process, "true")
    eventually(lambda: len(head.ends) == 60)
    assert {end.exit_code for end in head.ends.values()} == {0}
    assert len(head.spoken) < 60


def test_the_token_is_not_seen_by_others(head: StubHead, eventually: Eventually, workers: Workers):
    worker = workers.start()
    eventually(lambda: head.spoken)
    arguments = Path(f"/proc/{worker.pid}/cmdline").read_bytes()
    assert b"pit_worker" in arguments
    assert head.token.encode() not in arguments


def test_it_runs_as_a_module():
    assert subprocess.run([sys.executable, "-m", "pit_worker", "--help"], capture_output=True).returncode == 0


@pytest.mark.threat("F41")
def test_a_worker_of_another_version_says_which_side_to_upgrade_and_lets_processes_run(
    head: StubHead, eventually: Eventually, workers: Workers
):
    head.protocol = str(PROTOCOL + 1)
    worker = workers.start()
    said = f"the head speaks protocol {PROTOCOL + 1} and the worker protocol {PROTOCOL}: upgrade the worker"
    eventually(lambda: said in workers.log())
    assert worker.poll() is None
    head.protocol = str(PROTOCOL)
    eventually(lambda: head.spoken)


def test_a_head_whose_database_was_restored_is_greeted_again(
    head: StubHead, workers: Workers, eventually: Eventually
) -> None:
    worker = workers.start()
    head.run(1, "echo one; sleep 1000")
    eventually(lambda: "one" in head.log(1))
    head.go_back()
    eventually(lambda: len(head.hellos) == 2)
    assert (head.hellos[0].epoch, head.hellos[1].epoch) == (0, 1)
    head.run(2, "echo two")
    assert eventually(lambda: head.end(2)).exit_code == 0
    assert head.state(1) is ProcessState.RUNNING
    assert worker.poll() is None
