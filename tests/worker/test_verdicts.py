"""How a container ended, and when the engine is to blame; who is inside, by cgroup."""

from pathlib import Path

import pytest

from pit_protocol.states import KilledBy
from pit_worker.engine import Found
from pit_worker.entry import End
from pit_worker.occupants import parse_cgroup
from pit_worker.verdicts import REMOVED, RESTARTED, judge


def a_found(code: int, finished_at: float = 200.0, *, oom: bool = False) -> Found:
    return Found("id", "exited", 0, code, oom, finished_at, {})


def test_an_exit_code_is_told_as_it_is():
    assert judge(a_found(3), 100.0, 50.0, keeps=False, now=300.0) == End(200.0, exit_code=3)


def test_a_child_that_lacked_memory_does_not_change_the_code():
    assert judge(a_found(0, oom=True), 100.0, 50.0, keeps=False, now=300.0) == End(200.0, 0, oom=True)


@pytest.mark.parametrize(("code", "signal"), [(137, 9), (143, 15)])
def test_an_engine_that_was_started_since_and_keeps_nothing_is_to_blame(code: int, signal: int):
    end = judge(a_found(code), 100.0, 199.0, keeps=False, now=300.0)
    assert end == End(200.0, code, signal, KilledBy.RUNTIME, RESTARTED)


@pytest.mark.parametrize(
    ("engine_at", "keeps", "oom"),
    [
        (50.0, False, False),
        (199.0, True, False),
        (199.0, False, True),
        (120.0, False, False),
        (None, False, False),
    ],
    ids=["older", "live-restore", "memory", "long ago", "unknown"],
)
def test_a_kill_of_the_users_own_is_not_the_engines(engine_at: float | None, keeps: bool, oom: bool):
    end = judge(a_found(137, oom=oom), 100.0, engine_at, keeps=keeps, now=300.0)
    assert (end.signal, end.killed_by) == (9, None)


def test_a_container_that_is_gone_was_removed():
    end = judge(None, 100.0, 50.0, keeps=False, now=300.0)
    assert end == End(300.0, signal=9, killed_by=KilledBy.RUNTIME, reason=REMOVED)


def test_a_cgroup_is_found_in_both_versions():
    v1 = ["12:pids:/docker/abc", "11:cpu,cpuacct:/docker/abc", "0::/"]
    mounts = [
        "30 23 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct",
        "31 23 0:27 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids",
    ]
    assert parse_cgroup(v1, mounts) == Path("/sys/fs/cgroup/pids/docker/abc")
    v2 = ["0::/system.slice/docker-abc.scope"]
    mounts = ["30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate"]
    assert parse_cgroup(v2, mounts) == Path("/sys/fs/cgroup/system.slice/docker-abc.scope")


def test_the_root_cgroup_is_nobodys():
    mounts = ["30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"]
    assert parse_cgroup(["0::/"], mounts) is None
