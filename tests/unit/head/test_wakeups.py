"""Wakeups: no change between reading and waiting is missed."""

import threading

from pit_server.wakeups import Wakeups, job_topic, node_topic


def test_a_notification_reaches_all_subscribers_of_its_topic() -> None:
    wakeups = Wakeups()
    with wakeups.subscribe("a") as first, wakeups.subscribe("a") as second, wakeups.subscribe("b") as other:
        wakeups.notify(["a"])
        assert (first.is_set(), second.is_set(), other.is_set()) == (True, True, False)


def test_a_notification_before_the_wait_is_not_missed() -> None:
    wakeups = Wakeups()
    with wakeups.subscribe("a") as waiter:
        wakeups.notify(["a"])
        assert waiter.wait(0)


def test_a_notification_without_subscribers_is_dropped() -> None:
    wakeups = Wakeups()
    wakeups.notify(["a"])
    with wakeups.subscribe("a") as waiter:
        assert not waiter.is_set()


def test_a_notification_wakes_a_waiting_thread() -> None:
    wakeups = Wakeups()
    listening, woken = threading.Event(), threading.Event()

    def wait() -> None:
        with wakeups.subscribe("a") as waiter:
            listening.set()
            if waiter.wait(120):
                woken.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert listening.wait(120)
    wakeups.notify(["a"])
    thread.join(120)
    assert woken.is_set()


def test_a_subscriber_that_left_is_forgotten() -> None:
    wakeups = Wakeups()
    with wakeups.subscribe("a") as outer:
        with wakeups.subscribe("a"):
            pass
        wakeups.notify(["a"])
        assert outer.is_set()
    with wakeups.subscribe("a") as waiter:
        assert not waiter.is_set()


def test_closing_wakes_current_and_future_waiters() -> None:
    wakeups = Wakeups()
    with wakeups.subscribe("a") as early:
        wakeups.close()
        assert early.is_set()
    with wakeups.subscribe("b") as late:
        assert late.is_set()
    assert wakeups.is_closed


def test_jobs_and_nodes_have_their_own_topics() -> None:
    assert len({job_topic(1), job_topic(2), node_topic(1), node_topic(2)}) == 4
