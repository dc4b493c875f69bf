"""Searching a log."""

from collections.abc import Callable

import pytest

from pit_server.services.logs import log_search
from tests.support.clusters.head import ONE_DATABASE, Person, Worker, a_chunk, ended

pytestmark = ONE_DATABASE


def print_all(worker: Worker, output: bytes) -> None:
    """The only process prints this, and ends."""
    (process,) = worker.orders()
    worker.beat(ended(process, 0, log_size=len(output)), chunks=[a_chunk(process, output)])


def test_a_search_finds_lines_in_order_and_goes_on_from_its_cursor(
    anna: Person, node: Worker, a_placed_job: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    number = a_placed_job()
    print_all(node, b"".join(b"step %d Loss\n" % i for i in range(500)))
    monkeypatch.setattr(log_search, "MOST_LINES", 1)
    found, query = [], {"text": "9 loss"}
    while True:
        answer = anna.ok(anna.get(f"/jobs/{number}/log/search", query_string=query))
        found += [line["text"] for line in answer["lines"]]
        if answer["ended"]:
            break
        query["cursor"] = answer["cursor"]
    assert found == [f"step {i} Loss" for i in range(9, 500, 10)]


def test_of_a_long_line_a_search_shows_the_part_with_the_text(
    anna: Person, node: Worker, a_placed_job: Callable[..., int]
) -> None:
    number = a_placed_job()
    print_all(node, b"a" * 9000 + b"needle" + b"b" * 9000 + b"\n")
    (line,) = anna.ok(anna.get(f"/jobs/{number}/log/search?text=Needle"))["lines"]
    assert "needle" in line["text"] and len(line["text"]) < 1000


@pytest.mark.parametrize("text", ["", "x" * 201])
def test_a_search_needs_a_text(
    anna: Person, node: Worker, a_placed_job: Callable[..., int], text: str
) -> None:
    answer = anna.get(f"/jobs/{a_placed_job()}/log/search", query_string={"text": text})
    assert answer.status_code == 422
