"""Delays between tries."""

import pytest

from pit_protocol.backoff import Backoff


@pytest.fixture(autouse=True)
def no_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.uniform", lambda _, most: most)


def test_delays_double_up_to_a_bound_and_begin_again() -> None:
    backoff = Backoff(0.5, 3.0)
    assert [backoff.delay_s() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    backoff.reset()
    assert backoff.delay_s() == 0.5
    assert not backoff.is_exhausted


def test_tries_are_counted_since_the_last_reset() -> None:
    backoff = Backoff(0.5, tries=2)
    assert not backoff.is_exhausted
    backoff.delay_s()
    backoff.delay_s()
    assert backoff.is_exhausted
    backoff.reset()
    assert not backoff.is_exhausted
