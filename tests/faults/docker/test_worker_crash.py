"""A worker dies at any line of a container's life, or with its machine; user code runs once."""

from pathlib import Path

import pytest

from pit_protocol.states import KilledBy
from tests.docker.conftest import Containers
from tests.support.stubs.worker_head import StubHead
from tests.worker.conftest import Eventually

LABELS = [
    "after-intent", "after-create", "after-engine-start", "after-record", "after-claim", "after-start",
    "after-exit-status", "after-exit", "before-remove", "before-end-report", "after-end-report",
    "before-forget",
]  # fmt: skip


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.threat("F08", "F11")
def test_user_code_runs_once_though_the_worker_crashes(
    head: StubHead, containers: Containers, eventually: Eventually, own_root: Path, label: str
):
    first = containers.start(PIT_CRASH_AT=label)
    containers.run(1, "echo ran >>$JOB_DIR/ledger; echo out; exit 4")
    assert first.wait(120) == 137
    containers.start()
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, head.log(1)) == (4, "out\n")
    assert (own_root / "jobs/1/ledger").read_text() == "ran\n"
    eventually(lambda: containers.left() == [])
    left = {"lock", "lease", "data_root", "hellos", "images"}
    eventually(lambda: {path.name for path in containers.spool.iterdir()} <= left)


@pytest.mark.threat("F36")
def test_a_stop_is_carried_out_though_the_worker_crashes_during_it(
    head: StubHead, containers: Containers, eventually: Eventually
):
    first = containers.start(PIT_CRASH_AT="after-stop")
    containers.run(1, "echo ready; while :; do sleep 0.05; done")
    eventually(lambda: head.log(1))
    head.stop(1)
    assert first.wait(120) == 137
    containers.start()
    end = eventually(lambda: head.end(1))
    assert (end.signal, end.killed_by) == (15, KilledBy.USER)


@pytest.mark.threat("F22")
def test_a_reboot_is_detected_by_the_boot_id(head: StubHead, containers: Containers, eventually: Eventually):
    first = containers.start(PIT_WORKER_BOOT_ID="monday")
    containers.run(1, "echo ready; sleep 1000")
    eventually(lambda: head.log(1))
    containers.kill(first)
    containers.start(PIT_WORKER_BOOT_ID="tuesday")
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, end.killed_by) == (None, KilledBy.REBOOT)
    eventually(lambda: containers.left() == [])


def test_a_container_removed_by_someone_else_is_reported_so(
    head: StubHead, containers: Containers, eventually: Eventually
):
    first = containers.start()
    containers.run(1, "echo ready; sleep 1000")
    eventually(lambda: head.log(1))
    containers.kill(first)
    containers.client.api.remove_container(containers.name(1), force=True)
    containers.start()
    end = eventually(lambda: head.end(1))
    assert (end.killed_by, end.reason) == (KilledBy.RUNTIME, "its container was removed by someone else")
