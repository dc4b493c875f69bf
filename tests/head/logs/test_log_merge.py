"""A job's log: merged by time, each line exactly once."""

from collections.abc import Callable
from typing import Any

import pytest

from pit_server.context import Head
from pit_server.services.logs import log_merge
from pit_server.services.logs.cursor import Cursor, render_cursor
from pit_server.store.log_lines import MAX_LINE
from tests.support.clusters.head import NOW, ONE_DATABASE, Person, Worker, a_chunk, ended, running


@pytest.fixture
def worker(a_node: Callable[..., Worker]) -> Worker:
    return a_node()


pytestmark = ONE_DATABASE


def of_workers(batch: dict[str, Any]) -> list[str]:
    return [line["text"] for line in batch["lines"] if line["source"].startswith("worker")]


def of_head(batch: dict[str, Any]) -> list[str]:
    return [line["text"] for line in batch["lines"] if line["source"] == "head"]


def read_on(person: Person, number: int, **query: Any) -> list[dict[str, Any]]:
    """All lines up to the end, as a client reads them."""
    lines: list[dict[str, Any]] = []
    for _ in range(10_000):
        batch = person.log(number, **query)
        lines += batch["lines"]
        query["cursor"] = batch["cursor"]
        if not batch["lines"] and batch["ended"]:
            return lines
    raise AssertionError("the log does not end")


def test_the_log_contains_the_events_of_the_job(
    head: Head, worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job()
    (process,) = worker.orders()
    worker.beat(running(process))
    worker.beat(ended(process, 0))
    lines = of_head(anna.log(number))
    assert lines == [
        f"job {number} accepted from anna",
        "the tree is ready",
        "placed on n0",
        "worker 0 started on n0",
        "worker 0 ended with exit code 0",
        f"job {number} succeeded",
    ]


def test_lines_of_all_processes_are_merged_by_time(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job("2:[]")
    first, second = worker.orders()
    chunks = [
        a_chunk(first, b"a1\n", at=NOW + 1),
        a_chunk(first, b"a3\n", offset=3, at=NOW + 3),
        a_chunk(second, b"b2\n", at=NOW + 2),
        a_chunk(second, b"b4\n", offset=3, at=NOW + 4),
    ]
    worker.beat(chunks=chunks)
    batch = anna.log(number)
    assert of_workers(batch) == ["a1", "b2", "a3", "b4"]
    assert [line["source"] for line in batch["lines"] if line["text"] in ("a1", "b2")] == [
        "worker 0",
        "worker 1",
    ]


def test_one_process_can_be_read_alone(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job("2:[]")
    first, second = worker.orders()
    worker.beat(chunks=[a_chunk(first, b"a\n"), a_chunk(second, b"b\n")])
    for name in ("0.1", "1"):
        assert [line["text"] for line in anna.log(number, process=name)["lines"]] == ["b"]
    answer = anna.get(f"/jobs/{number}/log?process=7.7")
    assert (answer.status_code, answer.json["hint"]) == (404, "it has worker 0 to worker 1")


def test_a_line_is_shown_when_it_is_whole_or_its_process_has_ended(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job()
    (process,) = worker.orders()
    worker.beat(chunks=[a_chunk(process, b"one\ntw")])
    batch = anna.log(number)
    assert of_workers(batch) == ["one"]
    worker.beat(chunks=[a_chunk(process, b"o\nthree", offset=6)])
    batch = anna.log(number, cursor=batch["cursor"])
    assert of_workers(batch) == ["two"]
    worker.beat(ended(process, 0, log_size=13))
    assert of_workers(anna.log(number, cursor=batch["cursor"])) == ["three"]


def unfinished(batch: dict[str, Any]) -> list[tuple[str, str]]:
    return [(line["source"], line["text"]) for line in batch["unfinished"]]


def test_an_unfinished_line_is_shown_in_its_last_version(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job("2:[]")
    first, second = worker.orders()
    worker.beat(chunks=[a_chunk(first, b"one\n10%\r20%"), a_chunk(second, b"half a \xe2\x82")])
    batch = anna.log(number)
    assert of_workers(batch) == ["one"]
    assert unfinished(batch) == [("worker 0", "20%"), ("worker 1", "half a ")]
    assert anna.log(number, cursor=batch["cursor"])["unfinished"] == []
    worker.beat(chunks=[a_chunk(first, b"\r30%", offset=11), a_chunk(second, b"\xac\n", offset=9)])
    batch = anna.log(number, cursor=batch["cursor"])
    assert (of_workers(batch), unfinished(batch)) == (["half a €"], [("worker 0", "30%")])
    worker.beat(ended(first, 0, log_size=15))
    assert of_workers(anna.log(number, cursor=batch["cursor"])) == ["30%"]


def test_a_reader_may_leave_out_unfinished_lines_for_a_while(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job()
    (process,) = worker.orders()
    worker.beat(chunks=[a_chunk(process, b"10%")])
    batch = anna.log(number)
    worker.beat(chunks=[a_chunk(process, b"\r20%", offset=3)])
    batch = anna.log(number, cursor=batch["cursor"], unfinished="no")
    assert batch["unfinished"] == []
    assert unfinished(anna.log(number, cursor=batch["cursor"])) == [("worker 0", "20%")]


def test_an_unfinished_line_is_the_last_of_the_tail(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job()
    (process,) = worker.orders()
    worker.beat(chunks=[a_chunk(process, b"a\nb\n10%", at=4_000_000_000.0)])
    batch = anna.log(number, tail=2)
    assert ([line["text"] for line in batch["lines"]], unfinished(batch)) == (["b"], [("worker 0", "10%")])
    assert anna.log(number, tail=1)["lines"] == []


def test_a_long_poll_of_the_log_ends_with_a_new_version_of_a_line(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person, in_thread: Any
) -> None:
    number = a_placed_job()
    (process,) = worker.orders()
    worker.beat(chunks=[a_chunk(process, b"10%")])
    cursor = anna.log(number)["cursor"]
    held = in_thread(lambda: anna.log(number, cursor=cursor, wait_s=30))
    worker.beat(chunks=[a_chunk(process, b"\r20%", offset=3)])
    assert unfinished(held()) == [("worker 0", "20%")]


def test_invalid_utf8_is_replaced(worker: Worker, a_placed_job: Callable[..., int], anna: Person) -> None:
    number = a_placed_job()
    (process,) = worker.orders()
    worker.beat(chunks=[a_chunk(process, b"\xff\x1b[31m\0<b>\n")])
    assert of_workers(anna.log(number)) == ["\ufffd\x1b[31m\0<b>"]


def test_an_overlong_line_comes_in_pieces(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job()
    (process,) = worker.orders()
    body = b"x" * (MAX_LINE * 3 + 7) + b"\n"
    worker.beat(ended(process, 0, log_size=len(body)), chunks=[a_chunk(process, body)])
    pieces = [line["text"] for line in read_on(anna, number, process="0.0")]
    assert [len(piece) for piece in pieces] == [MAX_LINE] * 3 + [7]


def test_following_a_running_job_returns_each_line_once(
    head: Head, worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job("2:[]")
    first, second = worker.orders()
    lines, cursor = [], ""
    offsets = {first: 0, second: 0}
    for step in range(30):
        process = (first, second)[step % 3 == 0]
        body = b"%d:%d\n%d+" % (process, step, step)
        at = NOW + (step if step % 5 else -step)  # sometimes a clock is set back
        worker.beat(running(process), chunks=[a_chunk(process, body, offset=offsets[process], at=at)])
        offsets[process] += len(body)
        batch = anna.log(number, **({"cursor": cursor} if cursor else {}))
        lines += batch["lines"]
        cursor = batch["cursor"]
    worker.beat(ended(first, 0, log_size=offsets[first]), ended(second, 0, log_size=offsets[second]))
    lines += read_on(anna, number, cursor=cursor)
    again = read_on(anna, number)
    assert sorted((line["source"], line["text"]) for line in lines) == sorted(
        (line["source"], line["text"]) for line in again
    )
    for rank, process in enumerate((first, second)):
        written = (head.data.logs(number) / f"1-0.{rank}.log").read_text().split("\n")
        for shown in (lines, again):
            assert [line["text"] for line in shown if line["source"] == f"worker {rank}"] == written, process


@pytest.mark.parametrize("processes", [1, 3, 20])
def test_a_log_larger_than_one_answer_comes_complete_and_in_order(
    worker: Worker,
    a_placed_job: Callable[..., int],
    anna: Person,
    processes: int,
    monkeypatch: pytest.MonkeyPatch,
    a_node,
) -> None:
    a_node("n1", cores=64)
    monkeypatch.setattr(log_merge, "BATCH", 40_000)
    number = a_placed_job(f"{processes}:[]@n1")
    speaker = a_node("n1", cores=64)
    ids = list(speaker.orders())
    for rank, process in enumerate(ids):
        offset = 0
        for part in range(3):
            body = b"".join(b"%d %d %d %s\n" % (rank, part, i, b"." * 90) for i in range(150))
            speaker.beat(chunks=[a_chunk(process, body, offset=offset, at=NOW + part * 10 + rank / 100)])
            offset += len(body)
        speaker.beat(ended(process, 0, log_size=offset))
    lines = [line for line in read_on(anna, number) if line["source"].startswith("worker")]
    assert len(lines) == processes * 450
    assert len({line["text"] for line in lines}) == len(lines)
    for rank in range(processes):
        mine = [line["text"].split()[1:3] for line in lines if line["source"] == f"worker {rank}"]
        assert mine == [[str(part), str(i)] for part in range(3) for i in range(150)]
    times = [line["at"] for line in lines]
    assert times == sorted(times)


def test_reading_continues_after_the_tail(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job("2:[]")
    first, second = worker.orders()
    late = 4_000_000_000.0  # after the head's own lines
    worker.beat(
        chunks=[
            a_chunk(first, b"".join(b"a%d\n" % i for i in range(100)), at=late),
            a_chunk(second, b"b0\nb1\n", at=late + 1),
        ]
    )
    batch = anna.log(number, tail=5)
    assert [line["text"] for line in batch["lines"]] == ["a97", "a98", "a99", "b0", "b1"]
    worker.beat(chunks=[a_chunk(second, b"b2\n", offset=6, at=late + 2)])
    assert [line["text"] for line in anna.log(number, cursor=batch["cursor"])["lines"]] == ["b2"]


def test_since_leaves_out_older_lines(worker: Worker, a_placed_job: Callable[..., int], anna: Person) -> None:
    number = a_placed_job()
    (process,) = worker.orders()
    for step in range(4):
        worker.beat(chunks=[a_chunk(process, b"%d\n" % step, offset=2 * step, at=NOW + step)])
    assert of_workers(anna.log(number, since=NOW + 2)) == ["2", "3"]


def test_since_shows_no_partial_line(worker: Worker, a_placed_job: Callable[..., int], anna: Person) -> None:
    number = a_placed_job()
    (process,) = worker.orders()
    worker.beat(chunks=[a_chunk(process, b"hello wo", at=NOW)])
    worker.beat(chunks=[a_chunk(process, b"rld\nnext\n", offset=8, at=NOW + 10)])
    assert of_workers(anna.log(number, since=NOW + 5)) == ["next"]


def test_the_last_lines_of_the_process_that_failed_first_are_repeated_at_the_end(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job("2:[]")
    first, second = worker.orders()
    body = b"".join(b"line %d\n" % i for i in range(30)) + b"Traceback"
    worker.beat(running(first), running(second), chunks=[a_chunk(second, body)])
    worker.beat(ended(second, 1, log_size=len(body)))
    worker.beat(ended(first, 1))
    shown = of_head(anna.log(number))
    begin = shown.index("last lines of worker 1, which failed first:")
    assert shown[begin + 1 : -1] == [*(f"  | line {i}" for i in range(11, 30)), "  | Traceback"]
    assert shown[-1] == f"job {number} failed: worker 1 ended with exit code 1"


def test_a_long_poll_of_the_log_ends_with_a_new_line(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person, in_thread: Any
) -> None:
    number = a_placed_job()
    (process,) = worker.orders()
    cursor = anna.log(number)["cursor"]
    held = in_thread(lambda: anna.log(number, cursor=cursor, wait_s=30))
    worker.beat(chunks=[a_chunk(process, b"news\n")])
    assert of_workers(held()) == ["news"]


def test_an_invalid_cursor_is_refused(worker: Worker, a_placed_job: Callable[..., int], anna: Person) -> None:
    number = a_placed_job()
    for cursor in ("x", "1.", "!", "gA", "-1", "_" * 20, "AA~", "AA~!"):
        answer = anna.get(f"/jobs/{number}/log", query_string={"cursor": cursor})
        assert (answer.status_code, answer.json["code"]) == (422, "bad_cursor"), cursor


def test_a_cursor_with_streams_of_other_jobs_shows_nothing_of_them(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    first = a_placed_job()
    worker.beat(chunks=[a_chunk(next(iter(worker.orders())), b"mine\n")])
    second = a_placed_job()
    assert of_workers(anna.log(second, cursor=render_cursor(Cursor(0, {first: 0, 999: 5})))) == []
