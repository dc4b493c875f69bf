"""Which threads handle a request."""

import pytest

from pit_server.traffic import BUDGETS, Traffic, find_kind


@pytest.mark.parametrize(
    ("declared", "waits", "kind"),
    [
        (Traffic.HELD, True, Traffic.HELD),
        (Traffic.HELD, False, Traffic.SHORT),
        (Traffic.LOG, True, Traffic.HELD),
        (Traffic.LOG, False, Traffic.LOG),
        (Traffic.TRANSFER, True, Traffic.TRANSFER),
        (Traffic.SHORT, True, Traffic.SHORT),
    ],
)
def test_only_what_waits_is_held_and_a_log_is_never_short(
    declared: Traffic, waits: bool, kind: Traffic
) -> None:
    assert find_kind(declared, waits=waits) is kind


def test_every_kind_has_threads() -> None:
    assert BUDGETS.keys() == set(Traffic)
