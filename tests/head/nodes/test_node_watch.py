"""Leases: a silent node goes offline; its processes do not end for that."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pit_protocol.messages.beat import Beat
from pit_server.background import node_watch
from pit_server.background.node_watch import find_pace
from pit_server.context import Head
from pit_server.settings import BEATS_IN_LEASE, Settings
from pit_server.wakeups import NODE_WATCH
from tests.support.clusters.head import NOW, Person, Worker, ended


class Clock:
    """A clock that stands still until a test advances it."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def monotonic(self) -> float:
        return self.seconds

    def time(self) -> float:
        return NOW + self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(node_watch, "time", clock)
    return clock


@pytest.fixture
def head(clock: Clock, head: Head) -> Head:
    return head


def state(anna: Person, name: str = "n0") -> str:
    return str(anna.get(f"/nodes/{name}").json["state"])


def test_a_node_without_a_beat_is_new_and_has_no_lease(
    head: Head, a_node: Callable[..., Worker], anna: Person
) -> None:
    a_node(joins=False)
    assert head.node_watch() is None
    assert state(anna) == "new"


def test_a_node_goes_offline_exactly_when_its_lease_ends(
    head: Head, clock: Clock, a_node: Callable[..., Worker], anna: Person
) -> None:
    a_node()
    clock.seconds += 29
    assert head.node_watch() == 1.0
    assert state(anna) == "online"
    clock.seconds += 1
    assert head.node_watch() is None
    assert state(anna) == "offline"


def test_every_beat_renews_the_lease(
    head: Head, clock: Clock, a_node: Callable[..., Worker], anna: Person
) -> None:
    worker = a_node()
    for _ in range(3):
        clock.seconds += 29
        worker.beat()
        assert head.node_watch() == 30.0
    assert state(anna) == "online"


def test_a_beat_puts_an_offline_node_online(
    head: Head, clock: Clock, a_node: Callable[..., Worker], anna: Person
) -> None:
    worker = a_node()
    clock.seconds += 30
    head.node_watch()
    with head.wakeups.subscribe(NODE_WATCH) as waiter:
        worker.beat()
        assert waiter.is_set()
    assert state(anna) == "online"
    assert head.node_watch() == 30.0


@pytest.mark.threat("F16")
def test_processes_of_a_silent_node_are_left_alone(
    head: Head, clock: Clock, a_node: Callable[..., Worker], a_placed_job: Callable[..., int], anna: Person
) -> None:
    worker = a_node()
    number = a_placed_job()
    (process,) = worker.orders()
    clock.seconds += 30
    head.node_watch()
    assert anna.job(number)["state"] == "starting"
    worker.beat(ended(process, 0))
    assert anna.job(number)["outcome"] == "succeeded"


def test_only_the_silent_node_goes_offline(
    head: Head, clock: Clock, a_node: Callable[..., Worker], anna: Person
) -> None:
    a_node("n0")
    speaker = a_node("n1")
    clock.seconds += 20
    speaker.beat()
    clock.seconds += 10
    assert head.node_watch() == 20.0
    assert (state(anna, "n0"), state(anna, "n1")) == ("offline", "online")


@pytest.mark.threat("F04")
def test_a_restart_of_the_head_renews_all_leases(
    head: Head, clock: Clock, a_node: Callable[..., Worker], anna: Person
) -> None:
    a_node()
    clock.seconds += 3_600
    restarted = node_watch.NodeWatch(head.database, 30.0)
    assert restarted() == 30.0
    assert state(anna) == "online"


def test_a_worker_of_an_older_epoch_does_not_keep_its_node_online(
    head: Head, clock: Clock, a_node: Callable[..., Worker], anna: Person
) -> None:
    old, new = a_node(), a_node()
    assert new.epoch > old.epoch
    clock.seconds += 29
    assert old.send(Beat(old.epoch, "boot-1", 0)).status_code == 409
    clock.seconds += 1
    head.node_watch()
    assert state(anna) == "offline"


@pytest.mark.parametrize("lost_after_s", [0.0, 60.0])
@pytest.mark.parametrize("online", [1, 40, 200, 700, 1000])
def test_quiet_nodes_together_send_few_beats_and_none_goes_offline(
    tmp_path: Path, online: int, lost_after_s: float
) -> None:
    settings = Settings(tmp_path, lost_after_s=lost_after_s)
    pace = find_pace(settings, online)
    assert pace.hold_s < settings.offline_after_s
    assert not lost_after_s or BEATS_IN_LEASE * pace.hold_s <= lost_after_s
    if not lost_after_s:
        assert online / pace.hold_s + online / pace.report_s <= 50
    if online == 1:
        assert pace == (settings.hold_s, settings.hold_s)


def test_a_beat_says_how_long_the_next_one_is_held(head: Head, a_node: Callable[..., Worker]) -> None:
    worker = a_node()
    for number in range(1000, 1999):
        head.node_watch.renew(number)
    answer = worker.beat()
    assert (answer.hold_s, answer.report_s) == (25.0, 100.0)
