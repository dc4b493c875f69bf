"""Stopping reaches everything inside, and gives it its grace period."""

import subprocess

import pytest

from pit_protocol.states import KilledBy
from tests.docker.conftest import Containers
from tests.support.stubs.worker_head import StubHead
from tests.worker.conftest import Eventually

FAST = {"PIT_WATCH_SPEEDUP": "30"}  # after two seconds, what was killed should have ended


@pytest.fixture(autouse=True)
def worker(containers: Containers) -> subprocess.Popen[str]:
    return containers.start()


def test_a_trap_has_its_grace_and_gets_the_signal_once(
    head: StubHead, containers: Containers, eventually: Eventually
):
    containers.run(1, "trap 'echo told; sleep 0.5; exit 3' TERM; echo ready; while :; do sleep 0.05; done")
    eventually(lambda: head.log(1) == "ready\n")
    head.stop(1, killed_by=KilledBy.JOB)
    end = eventually(lambda: head.end(1))
    assert head.log(1).count("told") == 1
    assert (end.exit_code, end.killed_by) == (3, KilledBy.JOB)


@pytest.mark.threat("F36")
def test_a_daemonised_child_is_signalled_too(head: StubHead, containers: Containers, eventually: Eventually):
    child = 'trap "echo child told; exit" TERM; echo ready; while :; do sleep 0.05; done'
    containers.run(
        1, f"(setsid sh -c '{child}' &); trap 'sleep 1; exit 0' TERM; while :; do sleep 0.05; done"
    )
    eventually(lambda: head.log(1) == "ready\n")
    head.stop(1)
    eventually(lambda: head.end(1))
    assert "child told\n" in head.log(1)


@pytest.mark.threat("F36")
def test_a_process_that_ignores_sigterm_is_killed_after_its_grace(
    head: StubHead, containers: Containers, eventually: Eventually
):
    containers.run(1, "trap '' TERM; (setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' &); "
                   "echo ready; while :; do sleep 0.05; done", grace_s=0.3)  # fmt: skip
    eventually(lambda: head.log(1) == "ready\n")
    head.stop(1)
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, end.signal, end.killed_by) == (137, 9, KilledBy.USER)
    eventually(lambda: containers.left() == [])


@pytest.mark.threat("F36")
def test_a_process_that_outlives_sigkill_is_a_trouble_of_its_node_until_it_ends(
    head: StubHead, containers: Containers, eventually: Eventually, worker: subprocess.Popen[str]
):
    if containers.client.info()["CgroupVersion"] != "1":
        pytest.skip("with cgroup 2 a frozen container can be killed")
    containers.kill(worker)
    worker = containers.start(**FAST)
    containers.run(1, "echo ready; while :; do sleep 0.05; done", grace_s=0.1)
    eventually(lambda: head.log(1) == "ready\n")
    containers.client.api.pause(containers.name(1))
    head.stop(1)
    hangs = "a process that was killed does not end: it hangs in the kernel, or is frozen"
    eventually(lambda: head.spoken[-1].trouble == hangs)
    containers.kill(worker)
    beats = len(head.spoken)
    containers.start(**FAST)
    # The next worker knows for how long it has been so.
    eventually(lambda: len(head.spoken) > beats and head.spoken[-1].trouble == hangs)
    assert head.end(1) is None
    containers.client.api.unpause(containers.name(1))
    end = eventually(lambda: head.end(1))
    assert (end.signal, end.killed_by) == (9, KilledBy.USER)
    eventually(lambda: head.spoken[-1].trouble == "")
    eventually(lambda: containers.left() == [])


def test_what_a_command_leaves_running_ends_with_it(
    head: StubHead, containers: Containers, eventually: Eventually
):
    containers.run(1, "(setsid sh -c 'trap \"\" TERM; echo left; sleep 1000' &); sleep 0.3; exit 5")
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, head.log(1)) == (5, "left\n")
    eventually(lambda: containers.left() == [])


def test_stop_at_once_after_start_leaves_nothing(
    head: StubHead, containers: Containers, eventually: Eventually
):
    for process in range(1, 5):
        containers.run(process, "sleep 1000", grace_s=60, name=f"p{process}")
        head.stop(process)
    for process in range(1, 5):
        assert eventually(lambda process=process: head.end(process)).killed_by is KilledBy.USER
    eventually(lambda: containers.left() == [])


def test_stop_while_the_container_is_created_leaves_nothing(
    head: StubHead, containers: Containers, eventually: Eventually
):
    for process in range(1, 5):
        containers.run(process, "sleep 1000", grace_s=0, name=f"p{process}")
        eventually(lambda process=process: head.state(process))
        head.stop(process)
    for process in range(1, 5):
        assert eventually(lambda process=process: head.end(process)).killed_by is KilledBy.USER
    eventually(lambda: containers.left() == [])
