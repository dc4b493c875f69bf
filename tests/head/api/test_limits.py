"""Huge sizes and numbers are refused with a clear error, never an internal one."""

import hashlib
import resource
import sqlite3
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from pit_protocol.messages.beat import Beat, Hello, Inventory, Resource
from pit_protocol.wire import to_json
from pit_server.settings import Settings
from tests.support.clusters.head import (
    NOW,
    ONE_DATABASE,
    Person,
    Worker,
    a_chunk,
    a_snapshot,
    a_submission,
    ended,
    running,
)

HUGE = 10**30


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, max_upload_mib=2)


@pytest.fixture(autouse=True)
def worker(a_node: Callable[..., Worker]) -> Worker:
    return a_node()


def is_refused(answer: Any) -> bool:
    return 400 <= answer.status_code < 500 and answer.mimetype == "application/problem+json"


@ONE_DATABASE
def test_a_submission_of_more_than_a_mebibyte_is_refused(anna: Person) -> None:
    answer = anna.post("/jobs", json=a_submission(title="t" * 2**20))
    assert answer.status_code == 413
    assert is_refused(answer)


@ONE_DATABASE
def test_a_beat_above_the_size_limit_is_refused(worker: Worker) -> None:
    assert worker.post("/node/beat", data=b"x" * (8 * 2**20 + 1)).status_code == 413


@ONE_DATABASE
def test_bodies_that_are_not_json_are_refused(anna: Person, worker: Worker) -> None:
    for body in (b"", b"{", b"\xff", b"[]", b"null", b"NaN"):
        assert is_refused(anna.post("/jobs", data=body, content_type="application/json")), body
        assert is_refused(worker.post("/node/session", data=body, content_type="application/json")), body
    assert anna.post("/jobs", data=b"x=1").status_code == 415


@ONE_DATABASE
def test_a_compressed_body_is_not_decompressed(anna: Person) -> None:
    """A gzip bomb is not JSON, and an upload of one is stored as it is."""
    # Compressed in pieces: otherwise this process itself would have used the memory.
    packer, zeros = zlib.compressobj(wbits=31), bytes(1 << 20)
    bomb = b"".join(packer.compress(zeros) for _ in range(1 << 8)) + packer.flush()
    assert len(bomb) < 2 << 20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    headers = {"Content-Encoding": "gzip"}
    answer = anna.post("/jobs", data=bomb[:500_000], content_type="application/json", headers=headers)
    assert is_refused(answer)
    name = hashlib.sha256(bomb).hexdigest()
    sent = anna.call("PUT", f"/uploads/{name}?size={len(bomb)}", data=bomb, headers=headers)
    assert sent.json == {"sha256": name, "size": len(bomb), "complete": True}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


@ONE_DATABASE
def test_a_body_nested_too_deep_is_refused(anna: Person) -> None:
    assert is_refused(anna.post("/jobs", data=b"[" * 100_000, content_type="application/json"))


def test_a_job_with_a_huge_number_does_not_exist(anna: Person) -> None:
    routes = [("GET", ""), ("POST", "/stop"), ("GET", "/log"), ("GET", "/log/raw"), ("GET", "/archive")]
    answers = {
        (number, path): anna.call(method, f"/jobs/{number}{path}").status_code
        for number in (2**31, 2**63, HUGE)
        for method, path in routes
    }
    assert set(answers.values()) == {404}, answers


def test_huge_numbers_in_a_submission_are_refused(anna: Person) -> None:
    for fields in ({"continues": HUGE}, {"snapshot": a_snapshot(diff_lines=HUGE)}):
        answer = anna.post("/jobs", json=a_submission(**fields))
        assert is_refused(answer), (fields, answer.json)


def test_huge_numbers_in_a_query_are_refused_or_bounded(anna: Person) -> None:
    number = anna.submit()
    queries = [
        "/jobs?limit=1e30",
        "/jobs?offset=1e30",
        "/jobs?since=1e300",
        "/jobs?till=1e30",
        "/status?seen=1e300",
        "/status?limit=1e300",
        f"/jobs/{number}/log?tail=1e30",
        f"/jobs/{number}/log?since=1e300",
        f"/jobs/{number}/log?cursor={'9' * 18}",
        f"/jobs/{number}/log?cursor=0.1:{'9' * 18}",
    ]
    answers = {query: anna.get(query).status_code for query in queries}
    assert set(answers.values()) <= {200, 422}, answers


def test_invalid_numbers_are_refused(anna: Person) -> None:
    number = anna.submit()
    for value in ("x", "-1", "nan", "inf", "-inf"):
        for path in (
            "/status?wait_s=",
            "/jobs?limit=",
            f"/jobs/{number}/log?tail=",
            f"/jobs/{number}?wait_s=",
        ):
            answer = anna.get(path + value)
            assert (answer.status_code, answer.json["code"]) == (422, "bad_number"), path + value


def test_a_hello_with_huge_numbers_is_refused(worker: Worker) -> None:
    odd = {}
    for inventory in (Inventory(HUGE, 1), Inventory(1, HUGE), Inventory(-1, 1), Inventory(1, -1)):
        answer = worker.post("/node/session", json=to_json(Hello("b", inventory, "n0.lab")))
        if not is_refused(answer):
            odd[inventory] = answer.status_code
    assert odd == {}


def test_a_hello_with_a_duplicate_unit_is_refused(worker: Worker) -> None:
    twins = Inventory(8, 1024, (Resource("GPU-1", "A100"), Resource("GPU-1", "A100")))
    assert is_refused(worker.post("/node/session", json=to_json(Hello("b", twins, "n0.lab"))))


def test_a_beat_with_huge_numbers_is_refused(worker: Worker, a_placed_job: Callable[..., int]) -> None:
    a_placed_job()
    process = next(iter(worker.orders()))
    beats: dict[str, tuple[Beat, list[bytes]]] = {
        "process": (Beat(worker.epoch, "b", 0, reports=(running(HUGE),)), []),
        "exit code": (Beat(worker.epoch, "b", 0, reports=(ended(process, HUGE),)), []),
        "signal": (Beat(worker.epoch, "b", 0, reports=(ended(process, None, signal=HUGE),)), []),
    }
    odd = {name: answer.json for name, beat in beats.items() if not is_refused(answer := worker.send(*beat))}
    assert odd == {}


def test_a_reason_with_invalid_characters_does_not_prevent_the_end(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job()
    worker.beat(ended(next(iter(worker.orders())), 1, reason="cannot run \0\ud800"))
    assert anna.job(number)["state"] == "ended"


def test_a_chunk_before_the_beginning_is_not_stored(
    worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job()
    process = next(iter(worker.orders()))
    head, body = a_chunk(process, b"abcdef\n", offset=-3, at=NOW)
    worker.send(Beat(worker.epoch, "b", 0, chunks=(head,)), [body])
    assert worker.orders()[process].log_size == 0
    assert "def" not in [line["text"] for line in anna.log(number)["lines"]]


@ONE_DATABASE
@pytest.mark.threat("F27")
def test_a_full_database_is_named_as_such(anna: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OperationalError("INSERT", {}, sqlite3.OperationalError("database or disk is full"))

    monkeypatch.setattr("pit_server.api.routes.me.accounts.records", fail)
    answer = anna.get("/me")
    assert (answer.status_code, answer.json["code"]) == (503, "database_full")
    assert "free some space" in answer.json["hint"]
