"""How a container ended, and when the engine caused it; the processes inside, by cgroup."""

from pathlib import Path

import pytest

from pit_protocol.states import KilledBy
from pit_worker.runtime.docker.container_cgroup import parse_cgroup
from pit_worker.runtime.docker.engine import ContainerInfo
from pit_worker.runtime.docker.exit_status import REMOVED, RESTARTED, interpret
from pit_worker.spool.entry import End


def a_container(code: int, finished_at: float = 200.0, *, oom: bool = False) -> ContainerInfo:
    return ContainerInfo("id", "exited", 0, code, oom, finished_at, {})


def test_an_exit_code_is_reported_unchanged():
    assert interpret(a_container(3), 100.0, 50.0, live_restore=lambda: False, now=300.0) == End(
        200.0, exit_code=3
    )


def test_a_child_killed_for_memory_does_not_change_the_exit_code():
    assert interpret(a_container(0, oom=True), 100.0, 50.0, live_restore=lambda: False, now=300.0) == End(
        200.0, 0, oom=True
    )


@pytest.mark.parametrize(("code", "signal"), [(137, 9), (143, 15)])
def test_an_engine_restarted_without_live_restore_is_the_cause(code: int, signal: int):
    end = interpret(a_container(code), 100.0, 199.0, live_restore=lambda: False, now=300.0)
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
def test_a_users_own_kill_is_not_blamed_on_the_engine(engine_at: float | None, keeps: bool, oom: bool):
    end = interpret(a_container(137, oom=oom), 100.0, engine_at, live_restore=lambda: keeps, now=300.0)
    assert (end.signal, end.killed_by) == (9, None)


def test_a_container_that_is_gone_was_removed():
    end = interpret(None, 100.0, 50.0, live_restore=lambda: False, now=300.0)
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


def test_the_root_cgroup_does_not_count():
    mounts = ["30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"]
    assert parse_cgroup(["0::/"], mounts) is None
