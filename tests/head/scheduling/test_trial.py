"""Whether a request that nobody has submitted could start now."""

from collections.abc import Callable
from typing import Any

import pytest

from pit_server.context import Head
from tests.support.clusters.head import ONE_DATABASE, Person, Worker

pytestmark = ONE_DATABASE


def check(person: Person, request: str) -> Any:
    return person.ok(person.get("/requests/check", query_string={"request": request}))


def test_a_request_is_explained_and_tried(
    head: Head, anna: Person, a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
) -> None:
    a_node("n0", gpus={"a100": 4}, cores=8)
    a_node("n1", gpus={"a100": 4}, cores=8)
    found = check(anna, "2:[3:a100, 2:cpu]")
    assert found["words"] == ["2 processes each with 3 a100, 2 cores"]
    assert found["possible"] and found["starts_now"] and found["nodes"] == ["n0", "n1"]
    number = a_placed_job("[2:a100]@n0")
    assert check(anna, "2:[3:a100]")["reason"] == "waits for room for all its processes at once"
    found = check(anna, "[3:a100]@n0")
    assert found["possible"] and not found["starts_now"]
    assert f"job {number} holds" in found["reason"]
    assert not check(anna, "[9:a100]")["possible"]


@pytest.mark.parametrize(
    ("request_text", "words"),
    [
        ("[]", ["one process with no GPU, and no cores or memory of its own"]),
        ("1-4:[a100]@n0", ["1 to 4 processes each with 1 a100 on node n0"]),
        ("[0.5:mem],2:[cpu]", ["one process with 0.5 GiB of memory", "2 processes each with 1 core"]),
    ],
)
def test_a_request_in_words(anna: Person, node: Worker, request_text: str, words: list[str]) -> None:
    assert check(anna, request_text)["words"] == words


def test_a_wrong_request_is_refused_with_its_place(anna: Person) -> None:
    answer = anna.get("/requests/check?request=2:[a100")
    assert (answer.status_code, answer.json["code"]) == (422, "bad_request")  # type: ignore[index]
