"""The preparing threads: every user has a share of them, and what failed is prepared again."""

import threading
from collections.abc import Callable

import pytest

from pit_server.background.preparing import RETRY_S, Preparing, choose
from pit_server.context import Head
from pit_server.services.jobs import preparation
from tests.support.clusters.head import ONE_DATABASE, Person, Worker, skip_preparation
from tests.support.clusters.local import eventually


def test_the_user_with_the_fewest_jobs_under_way_is_next() -> None:
    assert choose({}, [], 2) is None
    assert choose({5: 1, 6: 2}, [], 2) == 5
    assert choose({5: 1, 6: 2}, [1], 2) == 6
    assert choose({5: 1, 6: 2}, [1, 2, 2], 2) == 5
    assert choose({5: 1}, [1, 1], 2) is None


@ONE_DATABASE
@pytest.mark.threat("F39", "S32")
def test_a_user_whose_jobs_hang_does_not_stop_the_others(
    head: Head,
    anna: Person,
    a_user: Callable[..., Person],
    a_node: Callable[..., Worker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a_node()
    bert = a_user("bert")
    hanging, mine = [anna.submit() for _ in range(5)], [bert.submit() for _ in range(3)]
    release, done, begun = threading.Event(), threading.Event(), list[int]()

    def prepare(_database: object, _data: object, _settings: object, number: int) -> None:
        begun.append(number)
        if number in hanging:
            release.wait(30)
            return
        skip_preparation(head, number)
        if number == mine[-1]:
            done.set()

    monkeypatch.setattr(preparation, "prepare", prepare)
    Preparing(head.database, head.data, head.settings)()
    try:
        assert done.wait(120)
        assert sorted(set(begun) & set(hanging)) == hanging[: head.settings.prepare_parallel]
    finally:
        head.wakeups.close()
        release.set()


@ONE_DATABASE
@pytest.mark.threat("F26")
def test_a_preparation_that_failed_unexpectedly_is_started_again(
    head: Head, anna: Person, node: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = anna.submit()
    preparing = Preparing(head.database, head.data, head.settings)
    calls: list[int] = []
    prepare: Callable[..., None] = preparation.prepare

    def fail_once(*arguments: object) -> None:
        calls.append(number)
        if len(calls) == 1:
            raise OSError("the database is away")
        prepare(*arguments)

    monkeypatch.setattr(preparation, "prepare", fail_once)
    assert preparing() == RETRY_S
    eventually(lambda: calls and not preparing.is_busy)
    preparing()
    eventually(lambda: not preparing.is_busy)
    assert anna.job(number)["state"] == "waiting"
    assert preparing() is None
