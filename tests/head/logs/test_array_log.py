"""The log of an array: the logs of its elements, merged, with their indices as sources."""

from typing import Any

import pytest

from pit_server.context import Head
from pit_server.services.logs import array_log
from tests.head.jobs.test_arrays import AnArray, an_array, end, indices
from tests.support.clusters.head import NOW, Person, Worker, a_chunk

__all__ = ["an_array"]  # a fixture


def read_on(anna: Person, number: int, batch: dict[str, Any]) -> dict[str, Any]:
    return anna.log(number, cursor=batch["cursor"])


def shown(batch: dict[str, Any]) -> list[str]:
    return [f"{line['source']}: {line['text']}" for line in batch["lines"] if line["source"] != "head"]


def test_the_logs_of_all_elements_are_merged_as_they_come(
    head: Head, node: Worker, anna: Person, an_array: AnArray
) -> None:
    number = an_array("5-7")
    head.scheduling()
    orders = indices(node)
    one, other = orders[5].process, orders[7].process
    node.beat(chunks=[a_chunk(one, b"a\n", at=NOW + 1), a_chunk(other, b"b\n", at=NOW + 2)])
    batch = anna.log(number)
    assert shown(batch) == ["5 worker 0: a", "7 worker 0: b"]
    node.beat(chunks=[a_chunk(one, b"c\n", offset=2, at=NOW + 3)])
    batch = read_on(anna, number, batch)
    assert shown(batch) == ["5 worker 0: c"]
    for index, order in orders.items():
        end(node, order, exit_code=index - 5)
    batch = read_on(anna, number, batch)
    assert [line["text"] for line in batch["lines"]] == [
        f"{number}.6 failed: worker 0 ended with exit code 1",
        f"{number}.7 failed: worker 0 ended with exit code 2",
        f"job {number} failed: 2 of 3 elements failed",
    ]
    assert batch["ended"]
    assert shown(anna.log(number)) == ["5 worker 0: a", "7 worker 0: b", "5 worker 0: c"]
    assert shown(anna.log(f"{number}.5")) == ["worker 0: a", "worker 0: c"]  # type: ignore[arg-type]
    assert [line["text"] for line in anna.log(number, tail=1)["lines"]] == ["c"]


def test_a_reader_of_many_elements_gets_each_line_once(
    head: Head, node: Worker, anna: Person, an_array: AnArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_log, "MOST_EVENTS", 5)
    number = an_array("0-7")
    head.scheduling()
    for index, order in indices(node).items():
        node.beat(chunks=[a_chunk(order.process, b"%d\n" % index, at=NOW + index)])
        end(node, order)
    texts, cursors = [], []
    batch = anna.log(number)
    while True:
        texts += [line["text"] for line in batch["lines"] if line["source"] != "head"]
        cursors.append(batch["cursor"])
        if batch["ended"]:
            break
        batch = read_on(anna, number, batch)
    assert sorted(texts) == [str(index) for index in range(8)]
    assert len(cursors) > 5
    assert max(map(len, cursors)) < 60  # streams that were read to their end are no longer named


def test_the_raw_log_and_a_process_are_of_one_element(
    head: Head, node: Worker, anna: Person, an_array: AnArray
) -> None:
    number = an_array("3-4")
    for path in ("log/raw", "log?process=0"):
        answer = anna.get(f"/jobs/{number}/{path}")
        assert answer.json["hint"] == f"name one of its elements, such as {number}.3"
