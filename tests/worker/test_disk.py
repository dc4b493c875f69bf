"""A process that uses more disk than it may is ended; a node without space takes no new ones."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from pit_protocol.messages.beat import Order, OrderAction
from pit_protocol.states import KilledBy
from pit_worker.disk import measure_kib
from tests.support.requirements import lack
from tests.support.stubs.worker_head import StubHead, a_spec
from tests.worker.conftest import Eventually, Workers

FAST = {"PIT_WATCH_SPEEDUP": "50"}
WAIT = "echo written; sleep 600"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 64 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", place], check=False).returncode:
        lack("no right to mount")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def run(head: StubHead, command: str, process: int = 1) -> None:
    spec = replace(a_spec(command), disk_mib=5)
    head.order(Order(process, 1, OrderAction.RUN, spec=spec))


@pytest.mark.parametrize(
    "command",
    [
        f"head -c 9000000 /dev/zero >$JOB_DIR/large; {WAIT}",
        f"mkdir $JOB_DIR/many; cd $JOB_DIR/many; touch $(seq 2000); {WAIT}",
    ],
    ids=["one large", "many empty"],
)
@pytest.mark.threat("S43")
def test_a_process_that_uses_more_disk_than_it_may_is_ended(
    head: StubHead, workers: Workers, eventually: Eventually, command: str
):
    workers.start(**FAST)
    run(head, command)
    end = eventually(lambda: head.end(1))
    assert (end.killed_by, end.signal) == (KilledBy.LIMIT, 15)
    assert end.reason.startswith("it uses ") and end.reason.endswith(" MiB of disk, and may use 5 MiB")


def test_a_process_below_its_disk_limit_keeps_running(
    head: StubHead, workers: Workers, eventually: Eventually, data_root: Path, tmp_path: Path
):
    (tmp_path / "elsewhere").write_bytes(b"x" * 9_000_000)
    (data_root / "jobs/1/link").symlink_to(tmp_path)
    workers.start(**FAST)
    run(head, "head -c 3000000 /dev/zero >$JOB_DIR/some; echo written; sleep 1; exit 4")
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, end.killed_by, end.reason) == (4, None, "")


@pytest.mark.threat("F28")
def test_a_node_without_space_takes_no_new_processes_until_there_is_some(
    head: StubHead, workers: Workers, eventually: Eventually, small_disk: Path
):
    spool = small_disk / "spool"
    workers.start(spool, PIT_WORKER_DISK_RESERVE_MIB="32", **FAST)
    eventually(lambda: head.spoken and head.spoken[-1].trouble == "")
    (small_disk / "large").write_bytes(b"x" * 40_000_000)
    told = f"less than 32 MiB are free at {spool}"
    eventually(lambda: head.spoken[-1].trouble == told)
    run(head, "echo all the same")  # it was ordered before the head knew
    assert eventually(lambda: head.end(1)).exit_code == 0
    (small_disk / "large").unlink()
    eventually(lambda: head.spoken[-1].trouble == "")


def test_the_first_beat_of_a_worker_on_a_full_disk_does_not_say_that_all_is_well(
    head: StubHead, workers: Workers, eventually: Eventually, small_disk: Path
):
    (small_disk / "large").write_bytes(b"x" * 40_000_000)
    workers.start(small_disk / "spool", PIT_WORKER_DISK_RESERVE_MIB="32", **FAST)
    eventually(lambda: head.spoken and head.spoken[-1].trouble)
    assert "" not in [beat.trouble for beat in head.spoken]


@pytest.mark.threat("F28")
def test_a_full_disk_is_the_reason_if_the_exit_code_cannot_be_saved(
    head: StubHead, workers: Workers, eventually: Eventually, small_disk: Path
):
    workers.start(small_disk / "spool", PIT_WORKER_DISK_RESERVE_MIB="0", **FAST)
    head.run(1, f"cat /dev/zero >{small_disk}/large; exit 4")
    end = eventually(lambda: head.end(1))
    reason = "its node's disk is full: how it ended could not be written down"
    assert (end.exit_code, end.signal, end.killed_by, end.reason) == (None, None, KilledBy.WORKER, reason)


def test_disk_usage_of_a_directory(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"x" * 100_000)
    (tmp_path / "twin").hardlink_to(tmp_path / "file")
    assert 100 <= measure_kib(tmp_path) <= 120
    with pytest.raises(OSError, match="No such file"):
        measure_kib(tmp_path / "nowhere")
