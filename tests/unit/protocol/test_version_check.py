"""Versions that do not fit: one sentence says which side to upgrade."""

import pytest

from pit_protocol import PROTOCOL
from pit_protocol.problem import Problem
from pit_protocol.version_check import check_protocol


@pytest.mark.parametrize(
    ("told", "number", "older"),
    [(None, 1, "head"), ("1", 1, "head"), ("three", 1, "head"), (str(PROTOCOL + 1), PROTOCOL + 1, "client")],
)
def test_the_older_side_is_to_be_upgraded(told: str | None, number: int, older: str) -> None:
    with pytest.raises(Problem) as problem:
        check_protocol(told, "head", "client")
    said = f"the head speaks protocol {number} and the client protocol {PROTOCOL}: upgrade the {older}"
    assert problem.value.message == said


def test_the_same_protocol_is_fine() -> None:
    check_protocol(str(PROTOCOL), "head", "client")
