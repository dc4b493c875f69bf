"""The stages of a process with a fake runtime: callbacks that come late, and stops at awkward moments."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pit_protocol.messages.beat import Order, OrderAction, Welcome
from pit_protocol.states import KilledBy
from pit_protocol.system.failpoints import Failpoints
from pit_worker.data.staging import SharedFiles
from pit_worker.health import NodeHealth
from pit_worker.loop import Loop
from pit_worker.process.context import Context
from pit_worker.process.inotify import Inotify
from pit_worker.process.process import Process
from pit_worker.process.processes import Processes
from pit_worker.process.states import State
from pit_worker.runtime.base import ExitCollected, Started
from pit_worker.runtime.containment import Containment
from pit_worker.runtime.local import LocalRuntime
from pit_worker.spool.entry import Entry, Key
from pit_worker.spool.spool import Spool
from pit_worker.timing import Timing
from pit_worker.venv.cache import VenvCache
from tests.support.stubs.worker_head import a_spec

KEY = Key(1, 1)
WELCOME = Welcome("n1", 1, "test", "/data", 1.0)


class FakeRuntime(LocalRuntime):
    """Starts nothing; a test calls the callbacks itself."""

    def __init__(self, loop: Loop) -> None:
        super().__init__(loop, "/bin", Containment(), VenvCache(Path("/nowhere")), runs_as_users=False)
        self.started: list[Started] = []
        self.collected: list[ExitCollected] = []
        self.adopted: int | None = None

    def start(self, entry: Entry, started: Started) -> None:
        self.started.append(started)

    def adopt(self, entry: Entry) -> int | None:
        return self.adopted

    def collect_exit(self, entry: Entry, collected: ExitCollected) -> None:
        self.collected.append(collected)

    def signal(self, entry: Entry, number: int) -> int:
        return 0


class Bench:
    """Processes on a loop that a test turns by hand."""

    def __init__(self, folder: Path) -> None:
        self.loop, self.inotify, self.spool = Loop(), Inotify(), Spool(folder / "spool")
        self.runtime = FakeRuntime(self.loop)
        context = Context(
            self.loop,
            self.runtime,
            SharedFiles(str(folder)),
            self.inotify,
            "boot",
            lambda: None,
            lambda _, then: then(""),
            NodeHealth(self.loop, {}, 3, lambda: None, Timing()),
            Failpoints(),
            Timing(),
        )
        self.processes = Processes(context, self.spool)
        self.processes.welcome(WELCOME)
        self.processes.obey(Order(*KEY, OrderAction.RUN, spec=a_spec("true")))
        self.turn()

    @property
    def process(self) -> Process:
        return self.processes.known[KEY]

    def turn(self) -> None:
        self.loop._turn()

    def stop(self) -> None:
        self.processes.obey(Order(*KEY, OrderAction.STOP, killed_by=KilledBy.USER))

    def close(self) -> None:
        self.loop.close()
        self.inotify.close()
        self.spool.close()


def descriptor() -> int:
    return os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)


def is_open(number: int) -> bool:
    return Path(f"/proc/self/fd/{number}").exists()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.close()


def test_a_stop_before_the_claim_ends_it_and_a_late_start_is_dropped(bench: Bench):
    assert bench.process.state is State.STARTING
    bench.stop()
    assert (bench.process.state, bench.process.end and bench.process.end.killed_by) == (
        State.ENDED,
        KilledBy.USER,
    )
    late = descriptor()
    bench.runtime.started[0](late)
    assert bench.process.state is State.ENDED
    assert not is_open(late)


def test_a_stop_after_the_claim_adopts_it_and_a_late_start_is_dropped(bench: Bench):
    bench.process.entry.claim()
    bench.runtime.adopted = descriptor()
    bench.stop()
    assert bench.process.state is State.RUNNING
    late = descriptor()
    bench.runtime.started[0](late)
    assert bench.process.descriptor == bench.runtime.adopted
    assert not is_open(late)
    os.eventfd_write(bench.runtime.adopted, 1)
    bench.turn()
    assert bench.process.state is State.COLLECTING_EXIT
    bench.runtime.collected[0](None)
    assert bench.process.state is State.ENDED
    assert bench.process.end and bench.process.end.killed_by is KilledBy.USER


def test_a_failed_start_is_queued_again_and_can_be_stopped_there(bench: Bench):
    bench.runtime.started[0](OSError("no addresses are left: a detail for the admin"))
    assert (bench.process.state, bench.process.waits_for) == (State.QUEUED, "no addresses are left")
    bench.stop()
    assert bench.process.state is State.ENDED


def test_a_supervisor_without_the_claim_hands_over_to_the_one_that_has_it(bench: Bench):
    first = descriptor()
    bench.runtime.started[0](first)
    os.eventfd_write(first, 1)
    bench.turn()
    assert bench.process.state is State.COLLECTING_EXIT
    assert not is_open(first)
    other = descriptor()
    bench.runtime.collected[0](other)
    assert (bench.process.state, bench.process.descriptor) == (State.RUNNING, other)


def test_a_stop_while_the_exit_is_collected_changes_nothing(bench: Bench):
    bench.process.entry.claim()
    first = descriptor()
    bench.runtime.started[0](first)
    os.eventfd_write(first, 1)
    bench.turn()
    bench.stop()
    assert bench.process.stop is None
    (bench.process.entry.path / "exit").write_text("3\n")
    bench.runtime.collected[0](None)
    assert bench.process.end and bench.process.end.exit_code == 3


def test_an_ended_process_is_forgotten_once(bench: Bench):
    bench.stop()
    bench.processes.obey(Order(*KEY, OrderAction.FORGET))
    assert bench.processes.known == {}
    bench.processes.obey(Order(*KEY, OrderAction.RUN, spec=a_spec("true")))
    assert bench.process.state is State.ENDED  # a tombstone: it never runs again
    assert len(bench.runtime.started) == 1
