"""The job that fills the head's disk is ended (M12)."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from pit_server.background.disk_watch import DiskWatch
from pit_server.context import Head
from tests.support.clusters.head import Person, Worker, ended, running

MIB = 1024 * 1024


@pytest.mark.threat("F27")
def test_the_job_that_writes_most_while_space_is_low_is_ended_with_the_reason_in_its_log(
    head: Head,
    anna: Person,
    a_node: Callable[..., Worker],
    a_placed_job: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = a_node()
    free = [1000 * MIB]
    monkeypatch.setattr(head.quotas, "free", lambda: (free[0], 1000 * MIB))
    watch = DiskWatch(head.database, head.data, head.quotas, replace(head.settings, end_free_percent=1.0))
    large, runaway, quiet = (a_placed_job(with_tree=True) for _ in range(3))
    processes = {order.spec.job: number for number, order in node.orders().items() if order.spec}
    for process in processes.values():
        node.beat(running(process, started_at=1.0))
    (head.data.job(large) / "1/keep/model").write_bytes(b"x" * 3 * MIB)
    watch()
    free[0] = 15 * MIB
    watch()
    (head.data.job(runaway) / "1/keep/large").write_bytes(b"x" * MIB)
    free[0] = 9 * MIB
    for _ in range(2):  # the next one is chosen only when this one has ended
        watch()
        assert [anna.job(number)["state"] for number in (large, runaway, quiet)] == [
            "running",
            "stopping",
            "running",
        ]
    node.beat(ended(processes[runaway], None, signal=15))
    record = anna.job(runaway)
    told = "the head's disk has 9.0 MiB left, and this job has written the most: 1.0 MiB"
    assert (record["outcome"], record["reason"]) == ("failed", told)
    assert any(told in line["text"] for line in anna.log(runaway)["lines"])


def test_the_reserve_is_given_up_just_before_the_end_is_stored(
    head: Head,
    a_node: Callable[..., Worker],
    a_placed_job: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = a_node()
    number = a_placed_job(with_tree=True)
    node.beat(running(next(iter(node.orders())), started_at=1.0))
    (head.data.job(number) / "1/keep/large").write_bytes(b"x" * MIB)
    reserve = head.settings.home / "reserve"
    reserve.write_bytes(b"x")
    monkeypatch.setattr(head.quotas, "free", lambda: (0, 1000 * MIB))
    DiskWatch(head.database, head.data, head.quotas, replace(head.settings, end_free_percent=1.0))()
    assert not reserve.exists()
