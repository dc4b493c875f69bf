"""Background threads of the head."""

import threading

from pit_server.background import loop
from pit_server.wakeups import Wakeups


def test_a_background_thread_that_dies_ends_the_head() -> None:
    ended: list[int] = []

    def work() -> None:
        raise SystemExit  # not an error of the work itself, which is tried again

    loop.start("dying", Wakeups(), "topic", work, ended.append).join(120)
    assert ended == [70]


def test_work_that_fails_is_tried_again() -> None:
    wakeups, tried = Wakeups(), threading.Semaphore(0)

    def work() -> float:
        tried.release()
        wakeups.close()
        raise ValueError

    ended: list[int] = []
    loop.start("failing", wakeups, "topic", work, ended.append).join(120)
    assert tried.acquire(timeout=120) and ended == []
