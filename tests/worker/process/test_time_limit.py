"""A process is warned and ended on time, whether head and worker are there or not."""

from pathlib import Path

import pytest

from pit_protocol.messages.beat import Order, OrderAction, TimeLimit
from pit_protocol.states import KilledBy, ProcessState
from tests.support.stubs.worker_head import StubHead, a_spec
from tests.worker.conftest import Eventually, Workers

# The shell that runs this has no trap for the signal, and must survive it; it waits for its child.
HANDLER = (
    'trap : TERM; bash -c \'trap "echo warned" USR1; trap "echo saved; exit 0" TERM; echo ready; '
    "while :; do sleep 0.02; done'; true"
)


def limited(head: StubHead, command: str, limit: TimeLimit | None, ran_s: float | None = None) -> None:
    head.order(Order(1, 1, OrderAction.RUN, spec=a_spec(command), time=limit, ran_s=ran_s))


@pytest.mark.parametrize("cgroups", ["on", "off"])
def test_a_process_is_warned_once_and_then_stopped(
    head: StubHead, eventually: Eventually, workers: Workers, cgroups: str
):
    first = workers.start(PIT_WORKER_CGROUPS=cgroups)
    limited(head, HANDLER, None)
    eventually(lambda: head.log(1) == "ready\n")
    limited(head, HANDLER, TimeLimit(3600.0, "USR1", 3600.0))
    eventually(lambda: "warned" in head.log(1))
    workers.kill(first)
    workers.start(PIT_WORKER_CGROUPS=cgroups)
    eventually(lambda: len(head.hellos) == 2)
    limited(head, HANDLER, TimeLimit(0.1))
    end = eventually(lambda: head.end(1))
    assert [line for line in head.log(1).splitlines() if line != "Terminated"] == ["ready", "warned", "saved"]
    assert (end.killed_by, end.reason) == (KilledBy.TIME, "its time limit of 1s is over")
    stopping = [r for beat in head.spoken for r in beat.reports if r.state is ProcessState.STOPPING]
    # None if it ended before the next beat.
    assert {(report.killed_by, report.reason) for report in stopping} <= {(end.killed_by, end.reason)}


def test_the_next_worker_keeps_the_deadline_while_the_head_is_away(
    head: StubHead, eventually: Eventually, workers: Workers
):
    first = workers.start()
    limited(head, HANDLER, TimeLimit(2.0))
    eventually(lambda: head.log(1) == "ready\n")
    head.is_deaf = True
    workers.kill(first)
    workers.start()
    eventually(lambda: (workers.spool / "1-1/end").exists())
    head.is_deaf = False
    assert eventually(lambda: head.end(1)).killed_by is KilledBy.TIME


def test_a_changed_limit_takes_effect_at_once_and_is_kept(
    head: StubHead, eventually: Eventually, workers: Workers
):
    first = workers.start()
    limited(head, HANDLER, None)
    eventually(lambda: head.log(1) == "ready\n")
    limited(head, HANDLER, TimeLimit(3600.0))
    eventually(lambda: "3600" in _clock(workers.spool))
    workers.kill(first)
    workers.start()
    eventually(lambda: len(head.hellos) == 2)
    assert head.end(1) is None
    limited(head, HANDLER, TimeLimit(0.1))
    assert eventually(lambda: head.end(1)).killed_by is KilledBy.TIME


def test_time_counts_from_the_first_process_of_the_job_but_never_from_before_it_was_taken(
    head: StubHead, eventually: Eventually, workers: Workers
):
    workers.start()
    # The clock of this head is an hour wrong.
    limited(head, "echo ready; sleep 1000", TimeLimit(600.0), ran_s=3600.0)
    eventually(lambda: head.log(1) == "ready\n")
    eventually(lambda: '"began_at"' in _clock(workers.spool))
    assert head.state(1) is ProcessState.RUNNING
    head.stop(1)
    eventually(lambda: head.end(1))


def _clock(spool: Path) -> str:
    file = spool / "1-1/clock"
    return file.read_text() if file.exists() else ""
