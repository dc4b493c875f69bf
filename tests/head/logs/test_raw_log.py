"""The output of one process, byte by byte."""

from collections.abc import Callable
from typing import Any

import pytest

from pit_server.services.logs import raw_log
from tests.support.clusters.head import ONE_DATABASE, Person, Worker, a_chunk, ended

pytestmark = ONE_DATABASE
BINARY = bytes(range(256)) * 5 + b"\r10%\r\xe2\x82"


@pytest.fixture
def worker(a_node: Callable[..., Worker]) -> Worker:
    return a_node()


def ask(person: Person, number: int, **query: Any) -> tuple[bytes, str, str]:
    answer = person.get(f"/jobs/{number}/log/raw", query_string=query)
    assert answer.status_code == 200, answer.json
    return answer.data, answer.headers["Pit-Log-Offset"], answer.headers["Pit-Log-Ended"]


def test_bytes_come_exactly_as_they_were_written(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw_log, "BATCH", 1000)
    number = a_placed_job()
    (process,) = worker.orders()
    worker.beat(chunks=[a_chunk(process, BINARY)])
    size = len(BINARY)
    assert ask(anna, number) == (BINARY[:1000], "1000", "no")
    assert ask(anna, number, offset=1000) == (BINARY[1000:], str(size), "no")
    worker.beat(ended(process, 0, log_size=size))
    assert ask(anna, number, offset=size) == (b"", str(size), "yes")


def test_the_raw_log_of_a_job_with_several_processes_is_that_of_one(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job("2:[]")
    first, second = worker.orders()
    worker.beat(chunks=[a_chunk(first, b"a\n"), a_chunk(second, b"b\nc\n")])
    assert ask(anna, number, process="0.1", tail=1) == (b"c\n", "4", "no")
    answer = anna.get(f"/jobs/{number}/log/raw")
    assert (answer.status_code, answer.json["code"]) == (422, "which_process")
    assert "--process 0.0" in answer.json["hint"]


def test_a_raw_log_is_held_until_there_is_output(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person, in_thread: Any
) -> None:
    number = a_placed_job()
    (process,) = worker.orders()
    held = in_thread(lambda: ask(anna, number, wait_s=30))
    worker.beat(chunks=[a_chunk(process, b"\r10%")])
    assert held() == (b"\r10%", "4", "no")
