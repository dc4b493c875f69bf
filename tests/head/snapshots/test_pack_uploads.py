"""Uploads: in pieces, stored under their hash, bounded in size."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pit_server.context import Head
from pit_server.settings import Settings
from pit_server.store import pack_uploads
from tests.support.clusters.head import ONE_DATABASE, Person

BODY = bytes(range(256)) * 1000
NAME = hashlib.sha256(BODY).hexdigest()

pytestmark = ONE_DATABASE


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, max_upload_mib=2)


def send(person: Person, offset: int, end: int | None = None, name: str = NAME, size: int = len(BODY)) -> Any:
    return person.call("PUT", f"/uploads/{name}?offset={offset}&size={size}", data=BODY[offset:end])


def kept(head: Head) -> list[bytes]:
    return [path.read_bytes() for path in head.data.uploads().glob("*/*")]


def test_an_upload_is_kept_once_under_its_hash(head: Head, anna: Person) -> None:
    answers = [send(anna, 0) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 200]
    assert answers[0].json == {"sha256": NAME, "size": len(BODY), "complete": True}
    assert kept(head) == [BODY]


def test_an_interrupted_upload_is_resumed(head: Head, anna: Person) -> None:
    assert anna.get(f"/uploads/{NAME}").json == {"sha256": NAME, "size": 0, "complete": False}
    assert send(anna, 0, 1000).status_code == 200
    assert anna.get(f"/uploads/{NAME}").json == {"sha256": NAME, "size": 1000, "complete": False}
    assert send(anna, 500, 1500).json["size"] == 1500  # a piece sent twice
    assert send(anna, 1500).json["complete"]
    assert kept(head) == [BODY]


def test_a_gap_is_refused_with_the_right_offset(anna: Person) -> None:
    send(anna, 0, 1000)
    answer = send(anna, 2000, 3000)
    assert (answer.status_code, answer.json["code"]) == (409, "wrong_offset")
    assert (answer.json["offset"], answer.json["message"]) == (1000, "the upload continues at 1000")


def test_an_upload_with_another_hash_is_refused_and_not_kept(head: Head, anna: Person) -> None:
    answer = send(anna, 0, name="0" * 64)
    assert (answer.status_code, answer.json["code"]) == (422, "hash_differs")
    assert kept(head) == []


def test_concurrent_uploads_of_the_same_file_do_not_corrupt_it(
    head: Head, anna: Person, in_thread: Callable[..., Any]
) -> None:
    begun = [in_thread(lambda step=step: _send_all(anna, step)) for step in (999, 1000, 50_000, len(BODY))]
    for done in begun:
        done()
    assert kept(head) == [BODY]


def _send_all(person: Person, step: int) -> None:
    for offset in range(0, len(BODY), step):
        assert send(person, offset, offset + step).status_code in (200, 201)


def test_an_upload_larger_than_the_limit_is_refused_before_it_is_read(head: Head, anna: Person) -> None:
    for size in (2 * 2**20 + 1, 2**50):
        answer = send(anna, 0, size=size)
        assert (answer.status_code, answer.json["message"]) == (413, "the upload is larger than 2 MiB")
    assert kept(head) == []


def test_more_than_was_announced_is_refused(head: Head, anna: Person) -> None:
    answer = send(anna, 0, size=1000)
    assert (answer.status_code, answer.json["code"]) == (422, "too_large")
    assert sum(map(len, kept(head))) <= 1000


def test_an_upload_needs_its_size(anna: Person) -> None:
    assert anna.call("PUT", f"/uploads/{NAME}", data=BODY).json["code"] == "missing_field"


def test_an_upload_name_that_is_a_path_is_refused(anna: Person) -> None:
    for name in ("..%2f..%2fx", "x", "0" * 63, "%2e%2e"):
        for answer in (send(anna, 0, name=name), anna.get(f"/uploads/{name}")):
            assert answer.status_code in (404, 422), name


def test_another_users_upload_is_hidden(anna: Person, a_user: Callable[..., Person]) -> None:
    send(anna, 0)
    assert a_user("berta").get(f"/uploads/{NAME}").json["size"] == 0


def test_unused_uploads_are_deleted_after_a_day(head: Head, anna: Person) -> None:
    send(anna, 0)
    send(anna, 0, 10, name="0" * 64)
    old = next(head.data.uploads().glob(f"*/{NAME}"))
    os.utime(old, (1000, 1000))
    pack_uploads.delete_old(head.data.uploads(), 86_400)
    assert kept(head) == [BODY[:10]]
