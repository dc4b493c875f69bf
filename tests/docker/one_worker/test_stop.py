"""Stopping reaches everything inside, and gives it its grace period."""

import pytest

from pit_protocol.messages.beat import Order, OrderAction, TimeLimit
from pit_protocol.states import KilledBy
from tests.docker.conftest import Containers
from tests.support.stubs.worker_head import StubHead
from tests.worker.conftest import Eventually


def test_a_trap_has_its_grace_and_gets_the_signal_once(
    head: StubHead, containers: Containers, eventually: Eventually
):
    containers.run(1, "trap 'echo told; sleep 0.2; exit 3' TERM; echo ready; while :; do sleep 0.05; done")
    eventually(lambda: head.log(1) == "ready\n")
    head.stop(1, killed_by=KilledBy.JOB)
    end = eventually(lambda: head.end(1))
    assert head.log(1).count("told") == 1
    assert (end.exit_code, end.killed_by) == (3, KilledBy.JOB)


def test_a_time_limit_warns_who_handles_the_signal_and_ends_the_process(
    head: StubHead, containers: Containers, eventually: Eventually
):
    child = 'trap "echo warned" USR1; trap "echo saved; exit" TERM; echo ready; while :; do sleep 0.05; done'
    containers.run(1, f"trap : TERM; sh -c '{child}'; true")  # stays until its child has ended
    eventually(lambda: head.log(1) == "ready\n")
    head.order(Order(1, 1, OrderAction.RUN, time=TimeLimit(3600.0, "USR1", 3600.0)))
    eventually(lambda: head.log(1).endswith("warned\n"))
    head.order(Order(1, 1, OrderAction.RUN, time=TimeLimit(0.1)))
    end = eventually(lambda: head.end(1))
    assert (end.killed_by, end.reason) == (KilledBy.TIME, "its time limit of 1s is over")
    assert head.log(1).count("saved\n") == 1


@pytest.mark.threat("F36")
def test_a_daemonised_child_is_signalled_too(head: StubHead, containers: Containers, eventually: Eventually):
    child = 'trap "echo child told; touch $JOB_DIR/told; exit" TERM; echo ready; while :; do sleep 0.05; done'
    told = "until [ -e $JOB_DIR/told ]; do sleep 0.05; done; exit 0"
    containers.run(1, f"(setsid sh -c '{child}' &); trap '{told}' TERM; while :; do sleep 0.05; done")
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
