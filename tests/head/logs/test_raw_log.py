"""The output of one process, byte by byte."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pit_protocol.messages.beat import ChunkHead
from pit_server.context import Head
from pit_server.services.logs import raw_log
from pit_server.settings import Settings
from tests.support.clusters.head import NOW, ONE_DATABASE, Person, Worker, a_chunk, ended

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


def test_what_is_not_kept_is_one_line_in_every_view(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job()
    (process,) = worker.orders()
    dropped = ChunkHead(process, 1, 1_000_002, 4, NOW, gap=1_000_000)
    worker.beat(chunks=[a_chunk(process, b"a\n"), (dropped, b"z\ny\n")])
    worker.beat(ended(process, 0, log_size=1_000_006))
    told = "pit: 1,000,000 bytes of output are missing here: only the beginning and the end are kept"
    assert ask(anna, number) == (b"a\n", "2", "no")
    assert ask(anna, number, offset=2) == (f"\n{told}\n".encode(), "1000002", "no")
    assert ask(anna, number, offset=1_000_002) == (b"z\ny\n", "1000006", "yes")
    log = anna.get(f"/jobs/{number}/log").json
    assert [line["text"] for line in log["lines"] if line["source"] == "worker 0"] == ["a", told, "z", "y"]
    assert (
        log["ended"]
        and not anna.get(f"/jobs/{number}/log", query_string={"cursor": log["cursor"]}).json["lines"]
    )


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, max_output_mib=1)


def test_the_head_keeps_no_more_than_its_limit(
    head: Head, worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job("16:[]")  # each process has 64 KiB
    first, *_ = worker.orders()
    for offset in range(0, 512 * 1024, 64 * 1024):
        worker.beat(chunks=[a_chunk(first, b"x" * 64 * 1024, offset=offset)])
    used = sum(file.stat().st_size for file in head.data.logs(number).rglob("*.end/*"))
    assert 32 * 1024 < used < 64 * 1024 * 1.25
    assert ask(anna, number, process="0.0", offset=512 * 1024)[1] == str(512 * 1024)
