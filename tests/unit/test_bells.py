"""Bells: nothing that happens between looking and waiting is missed."""

import threading

from pit_server.bells import Bells, job_bell, node_bell


def test_a_ring_reaches_everyone_who_listens_to_that_bell() -> None:
    bells = Bells()
    with bells.listen("a") as first, bells.listen("a") as second, bells.listen("b") as other:
        bells.ring(["a"])
        assert (first.is_set(), second.is_set(), other.is_set()) == (True, True, False)


def test_a_ring_before_the_wait_is_not_missed() -> None:
    bells = Bells()
    with bells.listen("a") as ear:
        bells.ring(["a"])
        assert ear.wait(0)


def test_a_ring_that_nobody_hears_is_gone() -> None:
    bells = Bells()
    bells.ring(["a"])
    with bells.listen("a") as ear:
        assert not ear.is_set()


def test_a_waiting_thread_wakes_when_the_bell_rings() -> None:
    bells = Bells()
    listening, woken = threading.Event(), threading.Event()

    def wait() -> None:
        with bells.listen("a") as ear:
            listening.set()
            if ear.wait(10):
                woken.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert listening.wait(10)
    bells.ring(["a"])
    thread.join(10)
    assert woken.is_set()


def test_who_left_is_forgotten() -> None:
    bells = Bells()
    with bells.listen("a") as outer:
        with bells.listen("a"):
            pass
        bells.ring(["a"])
        assert outer.is_set()
    with bells.listen("a") as ear:
        assert not ear.is_set()


def test_closing_lets_everyone_go_now_and_from_then_on() -> None:
    bells = Bells()
    with bells.listen("a") as early:
        bells.close()
        assert early.is_set()
    with bells.listen("b") as late:
        assert late.is_set()
    assert bells.is_closed


def test_jobs_and_nodes_have_bells_of_their_own() -> None:
    assert len({job_bell(1), job_bell(2), node_bell(1), node_bell(2)}) == 4
