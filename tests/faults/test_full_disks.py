"""Small disks that jobs fill: nothing else fails, and stops and ends get through."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from pit_protocol.messages.beat import Order, OrderAction
from pit_protocol.states import KilledBy
from tests.support.requirements import need_system_rights
from tests.support.stubs.worker_head import StubHead, a_spec
from tests.worker.conftest import (  # noqa: F401 - fixtures
    Eventually,
    Workers,
    data_root,
    eventually,
    head,
    workers,
)

KEEP = 8 * 1024 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MiB."""
    need_system_rights()
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", place], check=True)
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def order(head: StubHead, process: int, command: str) -> None:  # noqa: F811
    spec = replace(a_spec(command), output_bytes=KEEP)
    head.order(Order(process, 1, OrderAction.RUN, spec=spec))


def used(place: Path) -> int:
    return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())


@pytest.mark.threat("F27", "F28", "F31", "S43")
@pytest.mark.threat("F28", "F31")
def test_endless_output_fills_no_disk_and_neither_neighbour_nor_stop_suffers(
    head: StubHead,  # noqa: F811
    workers: Workers,  # noqa: F811
    eventually: Eventually,  # noqa: F811
    small_disk: Path,
) -> None:
    spool = small_disk / "spool"
    workers.start(spool, PIT_WORKER_DISK_RESERVE_MIB="0")
    order(head, 1, "yes")
    eventually(lambda: any(chunk.gap for beat in head.spoken for chunk in beat.chunks))
    assert used(spool / "1-1") <= KEEP + 64 * 1024
    order(head, 2, "echo neighbour; exit 3")
    end = eventually(lambda: head.end(2))
    assert (end.exit_code, head.log(2)) == (3, "neighbour\n")
    # More than the disk could hold.
    eventually(lambda: max(report.log_size for beat in head.spoken for report in beat.reports) > 64 * 2**20)
    head.stop(1)
    end = eventually(lambda: head.end(1))
    assert (end.killed_by, end.log_size > 64 * 2**20) == (KilledBy.USER, True)


@pytest.mark.threat("F28")
def test_the_process_that_fills_the_disk_is_ended_and_no_other(
    head: StubHead,  # noqa: F811
    workers: Workers,  # noqa: F811
    eventually: Eventually,  # noqa: F811
    small_disk: Path,
) -> None:
    for name in ("shared", "home/ann", "jobs/1/src", "jobs/1/keep", "jobs/2/src", "jobs/2/keep"):
        (small_disk / "data" / name).mkdir(parents=True)
    head.data_root = str(small_disk / "data")
    workers.start(small_disk / "spool", PIT_WORKER_DISK_RESERVE_MIB="32", PIT_WATCH_SPEEDUP="50")
    quiet = a_spec("head -c 20M /dev/zero >$JOB_DIR/result; echo written; sleep 600")
    head.order(Order(1, 1, OrderAction.RUN, spec=quiet))
    eventually(lambda: head.log(1) == "written\n")
    slow = "while :; do head -c 1M /dev/zero >>$JOB_DIR/large; sleep 0.2; done"
    paths = {name: path.replace("jobs/1", "jobs/2") for name, path in quiet.paths.items()}
    head.order(Order(2, 1, OrderAction.RUN, spec=replace(quiet, command=slow, paths=paths)))
    end = eventually(lambda: head.end(2))
    assert (end.killed_by, head.end(1)) == (KilledBy.LIMIT, None)
    spool = small_disk / "spool"
    assert end.reason == f"less than 16 MiB are free at {spool}, and this process fills that disk"
