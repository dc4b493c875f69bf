"""Which process ids are ours, what is reported of others, and mean usage until it is confirmed."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pit_protocol.messages.beat import Report, Trouble, Usage
from pit_protocol.states import ProcessState
from pit_worker.gpu import monitor
from pit_worker.gpu.health import Health
from pit_worker.gpu.monitor import GpuMonitor
from pit_worker.gpu.nvml import Driver, User
from pit_worker.gpu.owners import Owners
from pit_worker.loop import Loop
from pit_worker.process.process import Process
from pit_worker.process.usage import UsageMeans
from pit_worker.spool.entry import Entry, Intent, Key
from pit_worker.timing import Timing

KEY = Key(1, 1)
RUNNING = Report(*KEY, ProcessState.RUNNING)
ENDED = Report(*KEY, ProcessState.ENDED)


class UsedDriver(Driver):
    """One GPU, and the processes that a test puts on it."""

    def __init__(self, *users: User) -> None:
        super().__init__()
        self.now = users

    def reopen(self) -> None:
        pass

    def users(self, unit: str) -> list[User]:
        return list(self.now)


def look(health: Health) -> list[str]:
    return [trouble.reason for trouble in health.check(lambda _: False)]


@contextmanager
def sleeping(**environ: str) -> Iterator[int]:
    with subprocess.Popen(["sleep", "1000"], env={"PATH": os.environ["PATH"], **environ}) as process:
        yield process.pid
        process.kill()


def an_entry(folder: Path) -> Entry:
    return Entry(folder, Intent(*KEY, "lab", "boot", "/data", None))


def test_a_process_is_identified_by_its_whole_marker(tmp_path: Path):
    owners = Owners.of([an_entry(tmp_path)])
    with sleeping(PIT_COOKIE="lab-1-1") as ours, sleeping(PIT_COOKIE="lab-1-11") as theirs:
        assert (owners.owns(ours), owners.owns(theirs)) == (True, False)


def test_the_child_of_a_process_is_identified_by_its_parent(tmp_path: Path):
    owners = Owners.of([an_entry(tmp_path)])
    command = ["sh", "-c", "env -i sleep 1000 & echo $!; wait"]
    environ = {"PATH": os.environ["PATH"], "PIT_COOKIE": "lab-1-1"}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        assert owners.owns(child)
        os.kill(child, 9)


@pytest.mark.parametrize(
    ("path", "is_ours"),
    [
        ("/system.slice/pit-worker.service/pit-lab-1-1/below", True),
        ("/system.slice/pit-worker.service/pit-lab-1-11", False),
        ("/system.slice/docker-" + 64 * "c" + ".scope", True),
        ("/docker/" + 64 * "c" + "/below", True),
        ("/docker/" + 64 * "d", False),
        ("/", False),
    ],
)
def test_a_process_is_identified_by_its_cgroup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, is_ours: bool
):
    (tmp_path / "cgroup").write_text("/sys/fs/cgroup/system.slice/pit-worker.service/pit-lab-1-1")
    (tmp_path / "container").write_text(64 * "c" + "\n")
    monkeypatch.setattr(
        "pit_worker.gpu.owners._read", lambda _, name: f"0::{path}\n".encode() if name == "cgroup" else b""
    )
    assert Owners.of([an_entry(tmp_path)]).owns(os.getpid()) is is_ours


def test_a_file_that_is_being_written_identifies_no_process(tmp_path: Path):
    (tmp_path / "cgroup").touch()
    with sleeping() as pid:
        assert not Owners.of([an_entry(tmp_path)]).owns(pid)


def test_a_process_that_is_gone_is_not_ours(tmp_path: Path):
    with sleeping(PIT_COOKIE="lab-1-1") as pid:
        pass
    assert not Owners.of([an_entry(tmp_path)]).owns(pid)


def test_a_process_seen_only_once_is_not_foreign():
    driver = UsedDriver()
    health = Health(driver, ["GPU-a"])
    assert look(health) == []
    driver.now = (User(2**22 + 1, 5),)
    assert look(health) == []
    driver.now = (User(2**22 + 2, 5),)
    assert look(health) == []
    assert look(health) == [f"is used by pid {2**22 + 2}, 5 MiB"]


def test_more_memory_of_the_same_foreign_process_changes_nothing():
    driver = UsedDriver(User(2**22 + 1, 5))
    health = Health(driver, ["GPU-a"])
    first = look(health)
    driver.now = (User(2**22 + 1, 4711),)
    assert look(health) == first == [f"is used by pid {2**22 + 1}, 5 MiB"]


def test_of_many_foreign_processes_a_few_are_named():
    pids = [2**22 + number for number in range(5)]
    reason = look(Health(UsedDriver(*(User(pid, None) for pid in pids)), ["GPU-a"]))
    assert reason == [f"is used by pid {pids[0]}; pid {pids[1]}; pid {pids[2]}; and 2 more"]


def test_a_driver_that_is_silent_for_long_is_a_trouble_of_each_gpu(monkeypatch: pytest.MonkeyPatch):
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    loop, changes = Loop(), []
    known: dict[Key, Process] = {}
    watch = GpuMonitor(loop, known, UsageMeans(30.0), lambda: changes.append(1), Timing())
    watch._units, watch._asked_at, watch.troubles = ("GPU-a", "GPU-b"), now, ()
    watch._tick()
    assert watch.troubles == ()
    now += monitor.HUNG_S + 1
    watch._tick()
    watch._tick()
    reason = "does not answer: its driver has been silent for 30 s"
    assert watch.troubles == (Trouble("GPU-a", reason), Trouble("GPU-b", reason))
    assert len(changes) == 1
    loop.close()


def test_a_mean_is_reported_at_intervals():
    means = UsageMeans(30.0)
    for number, percent in enumerate((10.0, 20.0, 60.0)):
        means.add(KEY, Usage(percent, 50.0), now=2.0 * number)
    assert means.take(RUNNING, now=29.0) is None
    assert means.take(RUNNING, now=30.0) == Usage(30.0, 50.0)
    assert means.take(RUNNING, now=61.0) is None


def test_an_end_comes_with_the_usage_not_reported_yet():
    means = UsageMeans(30.0)
    means.add(KEY, Usage(10.0, 50.0), now=0.0)
    assert means.take(ENDED, now=1.0) == Usage(10.0, 50.0)
    means.confirm([KEY])
    assert means.take(ENDED, now=1.0) is None


def test_usage_without_an_answer_is_reported_with_the_next():
    means = UsageMeans(30.0)
    means.add(KEY, Usage(10.0, 50.0), now=0.0)
    means.take(RUNNING, now=30.0)
    means.add(KEY, Usage(30.0, 70.0), now=31.0)
    means.restore()
    assert means.take(RUNNING, now=32.0) == Usage(20.0, 60.0)


def test_the_usage_of_a_forgotten_process_is_dropped():
    means = UsageMeans(30.0)
    means.add(KEY, Usage(10.0, 50.0), now=0.0)
    means.confirm([])
    assert means.take(ENDED, now=1.0) is None


def test_what_is_left_of_an_ended_process_is_a_trouble_at_once_though_it_was_ours():
    mine = User(4_000_001, 7)
    driver = UsedDriver()
    health = Health(driver, ["GPU-a"])
    health.check(lambda _: True)
    driver.now = (mine,)
    assert health.check(lambda _: True) == ()
    assert health.list_left(["GPU-a"]) == {"GPU-a": {mine.pid}}
    health.mark_left({"GPU-a": {mine.pid}})
    told = Trouble("GPU-a", "is still used by pid 4000001, 7 MiB")
    assert health.check(lambda _: True) == (told,)
    assert health.list_left(["GPU-a"]) == {}
    driver.now = ()
    assert health.check(lambda _: True) == ()
    # A later process of ours with the same id is not affected.
    driver.now = (mine,)
    assert health.check(lambda _: True) == ()
