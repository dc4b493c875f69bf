"""Writing to the domains: in parts, whole or not at all, and by descriptor."""

import hashlib
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gunicorn.http.errors import NoMoreData
from werkzeug.test import TestResponse

from pit_protocol.transport.tar_reader import FILE, Member
from pit_protocol.transport.tar_writer import ended, header, padding, sealed
from pit_server.context import Head
from pit_server.store.files import domain_files
from pit_server.store.files.domain_files import Domain
from pit_server.store.files.upload_parts import Upload, receive
from tests.support.clusters.head import ONE_DATABASE, Person
from tests.support.domain_files import PART, home, names, route, send

MIB = 1024 * 1024


@pytest.fixture
def folder(head: Head, anna: Person) -> Path:
    anna.get(route("home"))  # which makes it
    return home(head)


def part(who: Person, body: bytes, **query: object) -> TestResponse:
    return who.call("PUT", route("home", b"file"), data=body, query_string={"part": PART, **query})


def test_a_file_arrives_with_its_time_and_mode(folder: Path, anna: Person) -> None:
    answer = send(anna, "home", b"run.sh", b"#!/bin/sh\n", mode="755", mtime=1_600_000_000.5)
    assert answer.status_code == 201
    status = (folder / "run.sh").stat()
    assert (oct(status.st_mode & 0o7777), status.st_mtime) == ("0o755", 1_600_000_000.5)


def test_a_file_is_sent_in_parts_and_not_there_before_the_last(folder: Path, anna: Person) -> None:
    body = os.urandom(3000)
    assert part(anna, body[:1000], offset=0).json == {"offset": 1000}
    assert names(anna, "home") == []  # neither target nor part
    assert part(anna, b"", have="yes").json == {"offset": 1000}
    assert part(anna, body[1000:2000], offset=1000).status_code == 202
    last = part(anna, body[1500:], offset=1500, size=3000, sha256=hashlib.sha256(body).hexdigest())
    assert last.status_code == 201
    assert (folder / "file").read_bytes() == body
    assert [path.name for path in folder.iterdir()] == ["file"]


def test_a_part_after_a_gap_is_refused(folder: Path, anna: Person) -> None:
    assert part(anna, b"abc", offset=5).json["code"] == "gap"
    assert list(folder.iterdir()) == []


def test_more_data_than_announced_is_refused(folder: Path, anna: Person) -> None:
    assert part(anna, b"abcdef", offset=0, size=3, sha256="0" * 64).status_code == 413
    assert names(anna, "home") == []


def test_a_wrong_hash_leaves_the_old_file(folder: Path, anna: Person) -> None:
    (folder / "file").write_text("old")
    answer = send(anna, "home", b"file", b"new", sha256="0" * 64)
    assert (answer.status_code, answer.json["code"]) == (422, "bad_hash")
    assert (folder / "file").read_text() == "old"
    assert [path.name for path in folder.iterdir()] == ["file"]


def test_what_is_to_be_new_takes_the_place_of_nothing(folder: Path, anna: Person) -> None:
    assert send(anna, "home", b"file", b"first", new="yes").status_code == 201
    again = send(anna, "home", b"file", b"second", new="yes")
    assert (again.status_code, again.json["code"]) == (409, "exists")
    assert send(anna, "home", b"file", b"first", new="yes").status_code == 201  # whose answer was lost
    (folder / "link").symlink_to("file")
    assert send(anna, "home", b"link", b"first", new="yes").json["code"] == "exists"
    assert (folder / "file").read_text() == "first"
    assert sorted(path.name for path in folder.iterdir()) == ["file", "link"]
    assert send(anna, "home", b"file", b"second").status_code == 201
    assert (folder / "file").read_text() == "second"


def test_two_senders_have_parts_of_their_own(folder: Path, anna: Person, root: Person) -> None:
    assert part(anna, b"anna's", offset=0).status_code == 202
    given = {"part": PART, "offset": 0}
    answer = root.call("PUT", route("user:anna", b"file"), data=b"ro", query_string=given)
    assert answer.json == {"offset": 2}
    assert part(anna, b"", have="yes").json == {"offset": 6}


class Slow:
    """A body that comes when it is told to."""

    def __init__(self) -> None:
        self.begun, self.goes_on = threading.Event(), threading.Event()
        self._body = [b"", b"abc"]

    def read(self, _size: int) -> bytes:
        self.begun.set()
        self.goes_on.wait(30)
        return self._body.pop()


def test_a_part_that_is_being_written_is_not_written_by_another(
    folder: Path, anna: Person, in_thread: Callable[..., Callable[[], int]]
) -> None:
    body, upload = Slow(), Upload("file", "anna", PART)
    with Domain(folder, "home") as domain:
        first = in_thread(lambda: receive(domain, upload, 0, body))
        assert body.begun.wait(120)
        assert part(anna, b"xyz", offset=0).json["code"] == "busy"
        body.goes_on.set()
        assert first() == 3
    assert part(anna, b"xyz", offset=0).status_code == 202


@ONE_DATABASE
@pytest.mark.parametrize(
    ("error", "code", "status"), [(TimeoutError(), "stalled", 408), (NoMoreData(), "broken_off", 400)]
)
@pytest.mark.parametrize("query", [{"part": PART}, {"tar": "yes"}])
def test_a_sender_that_hangs_up_is_one_line_in_the_log_and_what_came_stays(
    folder: Path,
    anna: Person,
    caplog: pytest.LogCaptureFixture,
    error: OSError,
    code: str,
    status: int,
    query: dict[str, str],
) -> None:
    class Broken:
        body = iter([b"abc"])

        def read(self, _size: int) -> bytes:
            if data := next(self.body, None):
                return data
            raise error

    caplog.set_level("INFO")
    options = {"query_string": query, "environ_overrides": {"wsgi.input": Broken(), "CONTENT_LENGTH": ""}}
    answer = anna.call("PUT", route("home", b"file"), **options)
    assert (answer.status_code, answer.json["code"]) == (status, code)
    [record] = [record for record in caplog.records if record.name.startswith("pit_server")]
    assert record.getMessage().startswith("/api/v1/files/home/file by anna: ") and not record.exc_info
    assert record.getMessage().endswith("after 3 bytes")
    if "part" in query:
        assert part(anna, b"", have="yes").json == {"offset": 3}


def test_odd_modes_and_times_are_no_bug(folder: Path, anna: Person) -> None:
    assert send(anna, "home", b"x", b"x", mode="rwx").json["code"] == "bad_mode"
    assert send(anna, "home", b"x", b"x", mtime="yesterday").status_code == 422
    assert send(anna, "home", b"x", b"x", mtime=2**53).status_code == 201


def test_the_key_of_a_part_cannot_be_a_path(folder: Path, anna: Person) -> None:
    for key in ("", "short", "../../../../x", "x" * 65, "a/b/c/d/e/f"):
        answer = anna.call("PUT", route("home", b"file"), data=b"x", query_string={"part": key})
        assert answer.json["code"] == "bad_part"


def test_a_directory_in_the_way_is_a_problem(folder: Path, anna: Person) -> None:
    (folder / "file").mkdir()
    assert send(anna, "home", b"file", b"x").json["code"] == "is_directory"
    assert send(anna, "home", b"", b"x").status_code == 422
    assert send(anna, "home", b"no/such/place", b"x").status_code == 404


def test_links_and_directories_are_made(folder: Path, anna: Person) -> None:
    anna.ok(anna.call("PUT", route("home", b"a/b"), query_string={"directory": "yes"}))
    anna.ok(anna.call("PUT", route("home", b"a/link"), query_string={"link": "b%2Fx"}))
    assert (folder / "a" / "link").readlink() == Path("b/x")


class TestMany:
    """Small files, sent together."""

    def tar(self, **contents: bytes) -> Iterator[bytes]:
        for name, content in contents.items():
            yield header(Member(name.replace("__", "/"), FILE, 0o644, len(content), 1.6e9, ""))
            yield content + padding(len(content))

    def send(self, anna: Person, body: bytes) -> TestResponse:
        return anna.call("PUT", route("home", b"in"), data=body, query_string={"tar": "yes"})

    def test_all_of_them_arrive(self, folder: Path, anna: Person) -> None:
        answer = self.send(anna, b"".join(sealed(self.tar(a=b"1", sub__b=b"22"))))
        assert answer.json == {"count": 2, "bytes": 3}
        assert (folder / "in" / "sub" / "b").read_bytes() == b"22"
        assert (folder / "in" / "a").stat().st_mtime == 1.6e9

    @ONE_DATABASE
    @pytest.mark.parametrize("name", ["..__..__x", "__etc__x", "link__x"])
    def test_none_of_them_leads_out(self, folder: Path, anna: Person, name: str) -> None:
        (folder / "in").mkdir()
        (folder / "in" / "link").symlink_to("../..")
        answer = self.send(anna, b"".join(sealed(self.tar(**{name: b"evil"}))))
        assert answer.status_code in (404, 409, 422)
        assert not (folder.parent / "x").exists()

    def test_names_that_end_with_a_dot_keep_it(self, folder: Path, anna: Person) -> None:
        assert self.send(anna, b"".join(sealed(self.tar(**{"x.": b"1", ".hidden": b"2"})))).status_code == 201
        assert names(anna, "home", b"in") == [".hidden", "x."]

    def test_what_has_no_seal_or_another_is_refused(self, folder: Path, anna: Person) -> None:
        assert self.send(anna, b"".join(ended(self.tar(a=b"1")))).json["code"] == "bad_archive"
        torn = b"".join(sealed(self.tar(a=b"1"))).replace(b"1.6", b"1.7").replace(b"\x001\x00", b"\x002\x00")
        assert self.send(anna, torn[:600]).json["code"] == "bad_archive"


class TestTrash:
    """What is removed, and comes back."""

    def test_what_is_removed_can_be_restored(self, folder: Path, anna: Person) -> None:
        (folder / "sub").mkdir()
        (folder / "sub" / "x").write_text("x")
        gone = anna.ok(anna.delete(route("home", b"sub")))
        assert names(anna, "home") == []
        assert [row["name"] for row in anna.ok(anna.get("/trash"))["trash"]] == ["sub"]
        anna.ok(anna.post(f"/trash/{gone['id']}/restore"))
        assert (folder / "sub" / "x").read_text() == "x"
        assert anna.ok(anna.get("/trash"))["trash"] == []

    def test_what_is_there_by_now_stays(self, folder: Path, anna: Person) -> None:
        (folder / "x").write_text("old")
        gone = anna.ok(anna.delete(route("home", b"x")))
        (folder / "x").write_text("new")
        assert anna.post(f"/trash/{gone['id']}/restore").status_code == 409
        assert (folder / "x").read_text() == "new"

    def test_nobody_else_sees_or_restores_it(
        self, folder: Path, anna: Person, a_user: Callable[..., Person]
    ) -> None:
        (folder / "x").touch()
        gone = anna.ok(anna.delete(route("home", b"x")))
        bert = a_user("bert")
        assert bert.ok(bert.get("/trash"))["trash"] == []
        assert bert.post(f"/trash/{gone['id']}/restore").status_code == 404

    def test_the_next_group_of_a_name_does_not_get_what_the_last_one_removed(
        self, a_group: Callable[..., None], anna: Person, root: Person, a_user: Callable[..., Person]
    ) -> None:
        a_group("lab", "anna")
        anna.ok(send(anna, "group:lab", b"x", b"secret"))
        gone = anna.ok(anna.delete(route("group:lab", b"x")))
        assert [row["domain"] for row in anna.ok(anna.get("/trash"))["trash"]] == ["group:lab"]
        root.ok(root.delete("/users/anna/groups/lab"))
        assert anna.ok(anna.get("/trash"))["trash"] == []
        root.ok(root.delete("/groups/lab"))
        bert = a_user("bert")
        a_group("lab", "bert")
        assert bert.ok(bert.get("/trash"))["trash"] == []
        assert bert.post(f"/trash/{gone['id']}/restore").status_code == 404

    def test_what_is_not_there_and_the_home_itself_are_not_removed(self, folder: Path, anna: Person) -> None:
        assert anna.delete(route("home", b"gone")).status_code == 404
        assert anna.delete(route("home")).status_code == 422
        assert anna.ok(anna.get("/trash"))["trash"] == []

    def test_a_removal_is_in_the_audit(self, folder: Path, anna: Person, root: Person) -> None:
        (folder / "x").touch()
        anna.ok(anna.delete(route("home", b"x")))
        [entry] = root.ok(root.get("/audit", query_string={"object": "user:anna"}))["entries"]
        assert (entry["actor"], entry["act"], entry["detail"]) == ("anna", "remove files", "x")


class TestDurability:
    """What was said to be here stays when the power goes: its sender may have deleted his own."""

    def test_a_file_is_on_disk_before_it_has_its_name_and_its_name_after(
        self, folder: Path, anna: Person, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        synced = _watch_syncs(monkeypatch, folder)
        anna.ok(send(anna, "home", b"file", b"content"))
        assert synced == [("file", []), ("directory", ["file"])]

    def test_what_comes_in_a_tar_is_on_disk_when_it_is_answered(
        self, folder: Path, anna: Person, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        synced = _watch_syncs(monkeypatch, folder)
        pieces = [header(Member(name, FILE, 0o644, 1, 0.0, "")) + b"x" + padding(1) for name in ("a", "b")]
        body = b"".join(sealed(pieces))
        anna.ok(anna.call("PUT", route("home"), data=body, query_string={"tar": "yes"}))
        assert synced == [("all", ["a", "b"])]


def _watch_syncs(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[tuple[str, list[str]]]:
    """What is synced, and which names were there at that time."""
    synced: list[tuple[str, list[str]]] = []

    def note(what: str) -> None:
        synced.append((what, sorted(path.name for path in folder.iterdir() if path.suffix != ".part")))

    def fsync(descriptor: int) -> None:
        note("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(domain_files, "sync_filesystem", lambda _: note("all"))
    return synced
