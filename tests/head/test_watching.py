"""Leases: a node that is silent for too long is offline; nothing of it is ended for that."""

from collections.abc import Callable

import pytest

from pit_protocol.beat import Beat
from pit_server.bells import WATCHER
from pit_server.duties import watching
from pit_server.head import Head
from tests.head.cluster import NOW, Person, Worker, ended


class Clock:
    """A clock that stands until a test lets time pass."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def monotonic(self) -> float:
        return self.seconds

    def time(self) -> float:
        return NOW + self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(watching, "time", clock)
    return clock


@pytest.fixture
def head(clock: Clock, head: Head) -> Head:
    return head


def state(anna: Person, name: str = "n0") -> str:
    return str(anna.get(f"/nodes/{name}").json["state"])


def test_a_node_that_never_spoke_is_new_and_has_no_lease(
    head: Head, a_node: Callable[..., Worker], anna: Person
) -> None:
    a_node(joins=False)
    assert head.watching() is None
    assert state(anna) == "new"


def test_a_node_is_offline_when_its_lease_is_over_and_not_before(
    head: Head, clock: Clock, a_node: Callable[..., Worker], anna: Person
) -> None:
    a_node()
    clock.seconds += 29
    assert head.watching() == 1.0
    assert state(anna) == "online"
    clock.seconds += 1
    assert head.watching() is None
    assert state(anna) == "offline"


def test_every_beat_begins_the_lease_anew(
    head: Head, clock: Clock, a_node: Callable[..., Worker], anna: Person
) -> None:
    worker = a_node()
    for _ in range(3):
        clock.seconds += 29
        worker.beat()
        assert head.watching() == 30.0
    assert state(anna) == "online"


def test_a_node_that_speaks_again_is_online_again(
    head: Head, clock: Clock, a_node: Callable[..., Worker], anna: Person
) -> None:
    worker = a_node()
    clock.seconds += 30
    head.watching()
    with head.bells.listen(WATCHER) as ear:
        worker.beat()
        assert ear.is_set()
    assert state(anna) == "online"
    assert head.watching() == 30.0


def test_processes_of_a_silent_node_are_left_alone(
    head: Head, clock: Clock, a_node: Callable[..., Worker], a_placed_job: Callable[..., int], anna: Person
) -> None:
    worker = a_node()
    number = a_placed_job()
    (process,) = worker.orders()
    clock.seconds += 30
    head.watching()
    assert anna.job(number)["state"] == "starting"
    worker.beat(ended(process, 0))
    assert anna.job(number)["outcome"] == "succeeded"


def test_only_the_silent_one_of_several_is_offline(
    head: Head, clock: Clock, a_node: Callable[..., Worker], anna: Person
) -> None:
    a_node("n0")
    speaker = a_node("n1")
    clock.seconds += 20
    speaker.beat()
    clock.seconds += 10
    assert head.watching() == 20.0
    assert (state(anna, "n0"), state(anna, "n1")) == ("offline", "online")


def test_after_a_restart_of_the_head_all_leases_begin_anew(
    head: Head, clock: Clock, a_node: Callable[..., Worker], anna: Person
) -> None:
    a_node()
    clock.seconds += 3_600
    restarted = watching.Watching(head.database, 30.0)
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
    head.watching()
    assert state(anna) == "offline"
