"""One user can take only a share of the head."""

from pathlib import Path

import pytest

from pit_protocol.problem import Problem
from pit_server.services.users.request_limits import RequestLimits
from pit_server.settings import Settings
from pit_server.traffic import Traffic


def limits(tmp_path: Path, now: list[float]) -> RequestLimits:
    settings = Settings(tmp_path, user_held=2, user_transfers=1, user_requests_per_s=5)
    return RequestLimits(settings, lambda: now[0])


@pytest.mark.threat("S59", "F32")
def test_a_user_has_so_many_held_requests_and_gets_a_place_back_when_one_ends(tmp_path: Path) -> None:
    found = limits(tmp_path, [0.0])
    found.begin(1, Traffic.HELD)
    end = found.begin(1, Traffic.HELD)
    with pytest.raises(Problem, match="2 followed logs and watched lists at a time") as refused:
        found.begin(1, Traffic.HELD)
    assert refused.value.status == 429
    end()
    end()  # a second time changes nothing
    found.begin(1, Traffic.HELD)
    with pytest.raises(Problem):
        found.begin(1, Traffic.HELD)


def test_one_users_requests_do_not_count_for_another_nor_one_kind_for_another(tmp_path: Path) -> None:
    found = limits(tmp_path, [0.0])
    found.begin(1, Traffic.TRANSFER)
    with pytest.raises(Problem, match="1 transfers at a time"):
        found.begin(1, Traffic.TRANSFER)
    found.begin(2, Traffic.TRANSFER)
    found.begin(1, Traffic.HELD)


def test_a_user_has_so_many_requests_per_second(tmp_path: Path) -> None:
    now = [10.0]
    found = limits(tmp_path, now)
    for _ in range(5):
        found.begin(1, Traffic.SHORT)
    with pytest.raises(Problem, match="5 requests per second"):
        found.begin(1, Traffic.SHORT)
    found.begin(2, Traffic.SHORT)
    now[0] = 11.0
    found.begin(1, Traffic.SHORT)
