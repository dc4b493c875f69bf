"""GPUs at the end of a process: not released while a process uses them; and errors by Xid."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from pit_protocol.messages.beat import Order, OrderAction, Trouble
from pit_protocol.states import ProcessState
from tests.support.nvml.fake import GPU_IS_LOST, FakeInstance, FakeNvml
from tests.support.stubs.worker_head import StubHead, a_spec
from tests.worker.conftest import Eventually, Workers
from tests.worker.gpu.test_monitor import WAIT, A, B, run, troubles


@pytest.fixture
def nvml(tmp_path: Path) -> FakeNvml:
    # The end of a process is held back for half a second.
    return FakeNvml(tmp_path / "nvml", [A, B], speedup=60)


@pytest.fixture
def slow_nvml(tmp_path: Path) -> FakeNvml:
    """Its end is held back for 15 seconds."""
    return FakeNvml(tmp_path / "nvml", [A, B], speedup=2)


@pytest.fixture
def left() -> Iterator[int]:
    """What hangs in the driver though its container is gone."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process.pid
        process.kill()


def test_an_end_is_reported_when_its_gpus_are_idle(
    head: StubHead, eventually: Eventually, workers: Workers, slow_nvml: FakeNvml, data_root: Path, left: int
):
    workers.start(**slow_nvml.environ)
    run(head, "echo begun; " + WAIT, "GPU-a")
    eventually(lambda: head.log(1))
    slow_nvml.set([replace(A, processes={left: 100}), B])
    (data_root / "jobs/1/exit-now").touch()
    entry = workers.spool / "1-1"
    eventually(lambda: (entry / "exit").exists())
    beats = len(head.spoken)
    eventually(lambda: len(head.spoken) > beats + 1)
    assert (head.end(1), head.state(1)) == (None, ProcessState.RUNNING)
    slow_nvml.set([A, B])
    assert eventually(lambda: head.end(1)).exit_code == 0
    assert troubles(head) == {}


def test_a_stopped_process_ends_once_however_long_its_gpus_take(
    head: StubHead, eventually: Eventually, workers: Workers, slow_nvml: FakeNvml, left: int
):
    head.hold_s = 0.3
    workers.start(**slow_nvml.environ)
    spec = structs.replace(a_spec("trap '' TERM; echo begun; " + WAIT, grace_s=0.3), units=("GPU-a",))
    head.order(Order(1, 1, OrderAction.RUN, spec=spec))
    eventually(lambda: head.log(1))
    slow_nvml.set([replace(A, processes={left: 100}), B])
    head.stop(1)
    eventually(lambda: (workers.spool / "1-1/exit").exists())
    beats = len(head.spoken)
    eventually(lambda: len(head.spoken) > beats + 2)
    assert head.state(1) is ProcessState.STOPPING
    slow_nvml.set([A, B])
    assert eventually(lambda: head.end(1)).signal == 9
    assert workers.log().count("process 1-1 ended") == 1


def test_a_process_left_on_a_gpu_is_reported_as_its_trouble_before_the_end(
    head: StubHead, eventually: Eventually, workers: Workers, nvml: FakeNvml, data_root: Path, left: int
):
    workers.start(**nvml.environ)
    run(head, "echo begun; " + WAIT, "GPU-a")
    eventually(lambda: head.log(1))
    nvml.set([replace(A, processes={left: 3021}), B])
    # At once, before it could be taken for a foreign process.
    (data_root / "jobs/1/exit-now").touch()
    assert eventually(lambda: head.end(1)).exit_code == 0
    telling = next(b for b in head.spoken if any(r.state is ProcessState.ENDED for r in b.reports))
    assert telling.troubles and telling.troubles[0].unit == "GPU-a"
    assert telling.troubles[0].reason.endswith(f"used by pid {left} (sleep), 3,021 MiB")
    nvml.set([A, B])
    eventually(lambda: troubles(head) == {})


@pytest.mark.parametrize(
    ("code", "reason"), [(1, "its GPU GPU-a fails: GPU is lost"), (0, "")], ids=["failed", "succeeded"]
)
@pytest.mark.threat("F37")
def test_a_process_that_failed_with_its_gpu_says_so_and_the_gpu_is_not_given_again(
    head: StubHead, eventually: Eventually, workers: Workers, data_root: Path, slow_nvml: FakeNvml,
    code: int, reason: str,
):  # fmt: skip
    # The next check of the GPUs would come seconds later.
    workers.start(**slow_nvml.environ)
    run(head, f"echo begun; {WAIT}; exit {code}", "GPU-a")
    eventually(lambda: head.log(1))
    slow_nvml.set([replace(A, error=GPU_IS_LOST), B])
    (data_root / "jobs/1/exit-now").touch()
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, end.killed_by, end.reason) == (code, None, reason)
    first = next(beat for beat in head.spoken for report in beat.reports if report.state == "ended")
    assert first.troubles == (Trouble("GPU-a", "fails: GPU is lost"),)


def test_a_foreign_process_from_before_does_not_delay_an_end(
    head: StubHead, eventually: Eventually, workers: Workers, slow_nvml: FakeNvml, left: int
):
    slow_nvml.set([replace(A, processes={left: 1}), B])
    workers.start(**slow_nvml.environ)
    eventually(lambda: troubles(head) == {"GPU-a": f"is used by pid {left} (sleep), 1 MiB"})
    run(head, "true", "GPU-a")
    assert eventually(lambda: head.end(1)).exit_code == 0


def test_a_critical_error_takes_a_gpu_out_of_use_until_the_worker_restarts(
    head: StubHead, eventually: Eventually, workers: Workers, nvml: FakeNvml
):
    c, d = replace(B, uuid="GPU-c", pci="0000:03:00"), replace(B, uuid="GPU-d", pci="0000:04:00")
    nvml.set([A, B, c, d])
    worker = workers.start(**nvml.environ)
    eventually(lambda: troubles(head) == {})
    nvml.report("GPU-a", 31)  # a fault of the program that ran
    for unit, xid in (("GPU-b", 48), ("GPU-c", 79), ("GPU-d", 119)):
        nvml.report(unit, xid)
    told = {
        "GPU-b": "has reported Xid 48 (double-bit memory error)",
        "GPU-c": "has reported Xid 79 (fallen off the bus)",
        "GPU-d": "has reported Xid 119 (its GSP does not answer)",
    }
    eventually(lambda: troubles(head) == told)
    eventually(lambda: "GPU GPU-a has reported Xid 31; it stays in use" in workers.log())
    nvml.set([A, replace(B, error=GPU_IS_LOST), c, d])
    eventually(lambda: troubles(head) == {**told, "GPU-b": f"{told['GPU-b']}; fails: GPU is lost"})
    nvml.set([A, B, c, d])
    eventually(lambda: troubles(head) == told)
    workers.kill(worker)
    workers.start(**nvml.environ)
    eventually(lambda: head.epoch == 2 and troubles(head) == {})


def test_an_error_of_a_gpu_counts_for_all_its_instances(
    head: StubHead, eventually: Eventually, workers: Workers, nvml: FakeNvml
):
    whole = replace(B, uuid="GPU-m", instances=[FakeInstance("MIG-1"), FakeInstance("MIG-2")])
    nvml.set([A, whole])
    workers.start(**nvml.environ)
    eventually(lambda: troubles(head) == {})
    nvml.report("GPU-m", 95)
    told = "has reported Xid 95 (uncontained memory error)"
    eventually(lambda: troubles(head) == {"MIG-1": told, "MIG-2": told})
