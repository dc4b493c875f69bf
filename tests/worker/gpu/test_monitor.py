"""A real worker and the GPUs of a fake driver: found, watched, measured."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from pit_protocol.messages.beat import Order, OrderAction, Resource, Trouble
from pit_protocol.states import ProcessState
from tests.support.nvml.fake import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    RESET_REQUIRED,
    FakeGpu,
    FakeInstance,
    FakeNvml,
)
from tests.support.stubs.worker_head import StubHead, a_spec
from tests.worker.conftest import Eventually, Workers

A, B = FakeGpu("GPU-a"), FakeGpu("GPU-b", pci="0000:02:00")
WAIT = "until [ -e $JOB_DIR/exit-now ]; do sleep 0.02; done"


@pytest.fixture
def nvml(tmp_path: Path) -> FakeNvml:
    return FakeNvml(tmp_path / "nvml", [A, B], speedup=60)


@pytest.fixture
def foreign_pid() -> Iterator[int]:
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process.pid
        process.kill()


def troubles(head: StubHead) -> dict[str, str] | None:
    """What the newest beat reports."""
    told = head.spoken[-1].troubles if head.spoken else None
    return None if told is None else {trouble.unit: trouble.reason for trouble in told}


def run(head: StubHead, command: str, *units: str) -> None:
    head.order(Order(1, 1, OrderAction.RUN, spec=structs.replace(a_spec(command), units=units)))


def test_gpus_are_found_in_the_order_of_the_bus(
    head: StubHead, eventually: Eventually, workers: Workers, nvml: FakeNvml
):
    nvml.set([FakeGpu("GPU-x", "NVIDIA GeForce GTX 1070", "0000:81:00", 8192), A])
    workers.start(**nvml.environ)
    hello = eventually(lambda: head.hellos)[0]
    assert hello.inventory.resources == (
        Resource("GPU-a", "NVIDIA A100-SXM4-40GB", 40960, "0000:01:00.0"),
        Resource("GPU-x", "NVIDIA GeForce GTX 1070", 8192, "0000:81:00.0"),
    )


def test_mig_instances_are_found_in_place_of_their_gpu(
    head: StubHead, eventually: Eventually, workers: Workers, nvml: FakeNvml
):
    parts = [FakeInstance("MIG-1"), FakeInstance("MIG-2", memory_mib=19968, slices=3)]
    nvml.set([FakeGpu("GPU-m", instances=parts), B])
    workers.start(**nvml.environ)
    hello = eventually(lambda: head.hellos)[0]
    assert hello.inventory.resources == (
        Resource("MIG-1", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4864, "0000:01:00.0"),
        Resource("MIG-2", "NVIDIA A100-SXM4-40GB MIG 3g.20gb", 19968, "0000:01:00.0"),
        Resource("GPU-b", "NVIDIA A100-SXM4-40GB", 40960, "0000:02:00.0"),
    )


@pytest.mark.parametrize("has_library", [True, False], ids=["no driver", "no library"])
def test_without_a_driver_there_are_no_gpus_and_no_thread(
    head: StubHead, eventually: Eventually, workers: Workers, nvml: FakeNvml, has_library: bool
):
    nvml.set([A], error=DRIVER_NOT_LOADED)
    if not has_library:
        # Not just deleted: this machine may have a real one.
        nvml.library.write_text("no library")
    worker = workers.start(**nvml.environ)
    eventually(lambda: head.spoken)
    assert head.hellos[0].inventory.resources == ()
    assert head.spoken[-1].troubles is None
    assert workers.log().count("this node has no GPUs: ") == 1
    eventually(lambda: len(list(Path(f"/proc/{worker.pid}/task").iterdir())) == 3)


@pytest.mark.threat("F37")
def test_a_gpu_that_vanishes_is_reported_at_once_and_so_is_its_return(
    head: StubHead, eventually: Eventually, workers: Workers, nvml: FakeNvml
):
    head.hold_s = 60  # changes are reported at once, or not during this test
    workers.start(**nvml.environ)
    eventually(lambda: troubles(head) == {})
    nvml.set([A])
    eventually(lambda: troubles(head) == {"GPU-b": "is gone"})
    nvml.set([A, B])
    eventually(lambda: troubles(head) == {})
    assert head.epoch == 1


@pytest.mark.threat("F37")
def test_a_faulty_gpu_is_reported_with_the_drivers_error(
    head: StubHead, eventually: Eventually, workers: Workers, nvml: FakeNvml
):
    workers.start(**nvml.environ)
    eventually(lambda: troubles(head) == {})
    for sick, reason in (
        (replace(A, error=GPU_IS_LOST), "fails: GPU is lost"),
        (replace(A, error=RESET_REQUIRED), "fails: GPU requires restart"),
        (replace(A, ecc_errors=2), "has 2 uncorrected memory errors (ECC) since its last reset"),
    ):
        nvml.set([sick, B])
        eventually(lambda reason=reason: troubles(head) == {"GPU-a": reason})
        nvml.set([A, B])
        eventually(lambda: troubles(head) == {})


def test_the_first_beat_reports_what_the_last_worker_reported(
    head: StubHead, eventually: Eventually, workers: Workers, nvml: FakeNvml, foreign_pid: int
):
    nvml.set([replace(A, ecc_errors=1), replace(B, processes={foreign_pid: 3021})])
    workers.start(**nvml.environ)
    eventually(lambda: head.spoken)
    assert head.spoken[0].troubles == (
        Trouble("GPU-a", "has 1 uncorrected memory error (ECC) since its last reset"),
        Trouble("GPU-b", f"is used by pid {foreign_pid} (sleep), 3,021 MiB"),
    )


def test_a_reloaded_driver_is_found_again(
    head: StubHead, eventually: Eventually, workers: Workers, nvml: FakeNvml
):
    workers.start(**nvml.environ)
    eventually(lambda: troubles(head) == {})
    nvml.set([], error=DRIVER_NOT_LOADED)
    reason = "fails: Driver Not Loaded"
    eventually(lambda: troubles(head) == {"GPU-a": reason, "GPU-b": reason})
    nvml.set([A, B])
    eventually(lambda: troubles(head) == {})


def test_a_foreign_process_is_reported_until_it_ends(
    head: StubHead, eventually: Eventually, workers: Workers, nvml: FakeNvml, foreign_pid: int
):
    part = FakeInstance("MIG-1")
    whole = FakeGpu("GPU-m", pci="0000:03:00", instances=[part])
    nvml.set([A, whole])
    workers.start(**nvml.environ)
    eventually(lambda: troubles(head) == {})
    busy = replace(part, processes={foreign_pid: 12})
    nvml.set([replace(A, processes={foreign_pid: 3021}), replace(whole, instances=[busy])])
    name = f"is used by pid {foreign_pid} (sleep)"
    eventually(lambda: troubles(head) == {"GPU-a": f"{name}, 3,021 MiB", "MIG-1": f"{name}, 12 MiB"})
    nvml.set([A, whole])
    eventually(lambda: troubles(head) == {})


@pytest.mark.parametrize("hides", ["", "exec env -i "], ids=["", "without its environment"])
def test_a_process_of_ours_is_not_foreign_even_to_the_next_worker(
    head: StubHead,
    eventually: Eventually,
    workers: Workers,
    nvml: FakeNvml,
    data_root: Path,
    foreign_pid: int,
    hides: str,
):
    worker = workers.start(**nvml.environ)
    run(head, f"{hides}sh -c 'echo $$ >{data_root}/jobs/1/pid; sleep 1000'", "GPU-a")
    file = data_root / "jobs/1/pid"
    pid = int(eventually(lambda: file.exists() and file.read_text()))
    nvml.set([replace(A, processes={pid: 100}), replace(B, processes={foreign_pid: 1})])
    foreign = {"GPU-b": f"is used by pid {foreign_pid} (sleep), 1 MiB"}
    # The foreign process is there as long: what is reported of it would be reported of the other too.
    eventually(lambda: troubles(head) == foreign)
    workers.kill(worker)
    beats = len(head.spoken)
    workers.start(**nvml.environ)
    eventually(lambda: len(head.spoken) > beats)
    assert all(trouble.unit == "GPU-b" for beat in head.spoken for trouble in beat.troubles or ())
    assert troubles(head) == foreign


def test_usage_is_reported_at_intervals_and_not_twice_at_the_end(
    head: StubHead, eventually: Eventually, workers: Workers, nvml: FakeNvml, data_root: Path
):
    head.hold_s = 0.2
    head.forgets = False
    nvml.set([replace(A, busy_percent=90, used_mib=10240), replace(B, busy_percent=30), FakeGpu("GPU-c")])
    workers.start(**nvml.environ)
    run(head, WAIT, "GPU-a", "GPU-b")

    def told() -> list[tuple[ProcessState, float, float]]:
        reports = [report for beat in head.spoken for report in beat.reports]
        return [(r.state, r.usage.gpu_percent, r.usage.memory_percent) for r in reports if r.usage]

    eventually(lambda: len(told()) > 1)
    running = told()
    assert set(running) == {(ProcessState.RUNNING, 60.0, 12.5)}
    (data_root / "jobs/1/exit-now").touch()
    eventually(lambda: head.end(1))
    beats = len(head.spoken)
    eventually(lambda: len(head.spoken) > beats + 2)
    # None if it ended before the next sample.
    assert [state for state, *_ in told()].count(ProcessState.ENDED) <= 1


def test_the_usage_of_a_short_process_is_reported_with_its_end(
    head: StubHead, eventually: Eventually, workers: Workers, tmp_path: Path
):
    # It ends after some samples, and before the first report of usage.
    nvml = FakeNvml(tmp_path / "nvml", [replace(A, busy_percent=80), B], speedup=10)
    workers.start(**nvml.environ)
    run(head, "sleep 1", "GPU-a")
    end = eventually(lambda: head.end(1))
    assert end.usage and end.usage.gpu_percent == 80.0


def test_a_process_without_gpus_has_no_usage_of_any(
    head: StubHead, eventually: Eventually, workers: Workers, nvml: FakeNvml
):
    workers.start(**nvml.environ)
    run(head, "sleep 0.5")
    usage = eventually(lambda: head.end(1)).usage
    assert usage is None or usage.gpu_percent is None


def test_a_driver_that_hangs_delays_neither_beats_nor_processes(
    head: StubHead, eventually: Eventually, workers: Workers, nvml: FakeNvml, data_root: Path
):
    head.hold_s = 0.2
    workers.start(**nvml.environ)
    eventually(lambda: troubles(head) == {})
    nvml.set([A], hangs=True)
    run(head, "echo begun; " + WAIT, "GPU-a")
    eventually(lambda: head.log(1) == "begun\n")
    beats = len(head.spoken)
    eventually(
        lambda: len(head.spoken) > beats + 10
    )  # while the driver hangs, which it does until told otherwise
    (data_root / "jobs/1/exit-now").touch()
    assert eventually(lambda: head.end(1)).exit_code == 0
    assert troubles(head) == {}
    nvml.set([A])
    eventually(lambda: troubles(head) == {"GPU-b": "is gone"})
