"""A process ends by itself when its node has had no contact with the head for too long, worker or not."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from pit_protocol.messages.beat import Order, OrderAction
from pit_protocol.states import KilledBy, ProcessState
from pit_worker.spool.lease import Lease, since_boot
from tests.support.stubs.worker_head import StubHead, a_spec
from tests.worker.conftest import Eventually, Workers, is_alive

LEASE_S = 2.0
READY = "echo $$; until [ -e $JOB_DIR/go ]; do sleep 0.02; done"


def run(head: StubHead, command: str, *, grace_s: float = 5.0) -> None:
    head.hold_s = 0.5  # several beats in a lease
    spec = replace(a_spec(command, grace_s=grace_s), lease_s=LEASE_S)
    head.order(Order(1, 1, OrderAction.RUN, spec=spec))


def test_the_watchdog_ends_with_its_process(
    head: StubHead, workers: Workers, eventually: Eventually, data_root: Path
):
    workers.start()
    spec = replace(a_spec("echo on; until [ -e $JOB_DIR/go ]; do :; done"), lease_s=50.0)
    head.order(Order(1, 1, OrderAction.RUN, spec=spec))
    eventually(lambda: head.log(1))
    supervisor = int((workers.spool / "1-1/started").read_text().split()[0])
    (data_root / "jobs/1/go").touch()
    eventually(lambda: head.end(1))
    assert not is_alive(supervisor)


@pytest.mark.threat("F12")
def test_without_a_worker_it_is_killed_and_the_next_worker_reports_why(
    head: StubHead, workers: Workers, eventually: Eventually
):
    first = workers.start()
    run(head, "trap '' TERM; " + READY, grace_s=0.1)
    pid = eventually(lambda: head.log(1)).strip()
    workers.kill(first)
    eventually(lambda: not is_alive(pid))
    workers.start()
    end = eventually(lambda: head.end(1))
    assert (end.killed_by, end.signal) == (KilledBy.LEASE, 9)
    assert end.reason == "its node had no contact with the head for 2 s"


@pytest.mark.threat("F17")
def test_a_worker_that_cannot_reach_the_head_does_not_renew(
    head: StubHead, workers: Workers, eventually: Eventually
):
    workers.start()
    run(head, READY)
    pid = eventually(lambda: head.log(1)).strip()
    head.is_deaf = True
    eventually(lambda: not is_alive(pid))
    head.is_deaf = False
    end = eventually(lambda: head.end(1))
    assert (end.killed_by, end.signal) == (KilledBy.LEASE, 15)


def test_while_the_head_answers_it_keeps_running_and_ends_by_itself(
    head: StubHead, workers: Workers, eventually: Eventually, data_root: Path
):
    workers.start()
    run(head, READY + "; exit 3")
    eventually(lambda: head.log(1))
    begun = since_boot()
    eventually(lambda: since_boot() > begun + LEASE_S + 1)
    assert head.state(1) is ProcessState.RUNNING
    (data_root / "jobs/1/go").touch()
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, end.killed_by, end.reason) == (3, None, "")


def test_a_stop_is_reported_as_a_stop_whatever_the_lease(
    head: StubHead, workers: Workers, eventually: Eventually, tmp_path: Path
):
    workers.start()
    run(head, READY)
    pid = eventually(lambda: head.log(1)).strip()
    head.stop(1)
    assert eventually(lambda: head.end(1)).killed_by is KilledBy.USER
    assert not is_alive(pid)


def test_the_file_is_written_in_place_and_never_backwards(tmp_path: Path):
    lease, file = Lease(tmp_path), tmp_path / "lease"
    inode = file.stat().st_ino
    for asked_at, told in ((12.2, 13), (100_000.0, 100_000), (99.0, 100_000)):
        lease.renew(asked_at)
        assert (int(file.read_text()), file.stat().st_ino) == (told, inode)
