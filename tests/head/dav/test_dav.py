"""The domains by WebDAV: the same permissions as in the API, and no way out of a directory."""

import base64
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from flask import Flask
from gunicorn.http.errors import NoMoreData
from werkzeug.test import TestResponse
from wsgidav.dav_error import DAVError

from pit_server.context import Head
from pit_server.dav.locks import MOST_OF_ONE, Locks
from tests.support.clusters.head import Person, Worker


@pytest.fixture
def database_url() -> str:
    """SQLite only: nothing here depends on the database."""
    return ""


def dav(person: Person, method: str, path: str, **options: Any) -> TestResponse:
    headers = {"Authorization": f"Bearer {person.token}", **options.pop("headers", {})}
    with person.app.test_client() as client:
        return client.open(f"/dav/{path}", method=method, headers=headers, **options)


def listed(person: Person, path: str) -> list[str]:
    answer = dav(person, "PROPFIND", path, headers={"Depth": "1"})
    assert answer.status_code == 207, answer.text
    hrefs = [href.text or "" for href in ElementTree.fromstring(answer.data).iter("{DAV:}href")]
    return [href.removeprefix(f"/dav/{path}").strip("/") for href in hrefs][1:]


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_request_without_a_token_is_refused(app: Flask) -> None:
    with app.test_client() as client:
        answer = client.open("/dav/home/", method="PROPFIND")
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Basic ")


@pytest.mark.threat("S02")
def test_a_nodes_token_is_refused(a_node: Callable[..., Worker]) -> None:
    assert dav(a_node(), "PROPFIND", "", headers={"Depth": "1"}).status_code == 403  # type: ignore[arg-type]


@pytest.mark.threat("S11")
def test_a_token_in_the_url_is_refused(anna: Person) -> None:
    assert dav(anna, "GET", f"home/x?access={anna.token}").status_code == 400


@pytest.mark.parametrize("method", ["POST", "PATCH", "TRACE", "REPORT", "ACL", "MKCALENDAR"])
def test_unlisted_methods_are_refused(anna: Person, method: str) -> None:
    assert dav(anna, method, "home/").status_code == 405


def test_a_user_sees_only_their_own_domains(
    anna: Person, root: Person, a_user: Callable[..., Person], a_group: Callable[..., None]
) -> None:
    a_user("bob")
    a_group("ml", "anna")
    a_group("bio")
    assert listed(anna, "") == ["shared", "home", "groups", "jobs"]
    assert listed(anna, "groups/") == ["ml"]
    assert dav(anna, "PUT", "users/bob/x", data=b"x").status_code == 409
    for path in ("groups/bio/", "groups/none/", "users/bob/", "users/", "jobs/1/", "cache/", "trash/"):
        assert dav(anna, "PROPFIND", path, headers={"Depth": "1"}).status_code in (403, 404), path


def test_an_admin_sees_all_users_and_groups(root: Person, anna: Person, a_group: Callable[..., None]) -> None:
    a_group("bio")
    dav(anna, "PUT", "home/file", data=b"content")
    assert listed(root, "users/anna/") == ["file"]
    assert listed(root, "groups/") == ["bio"]


@pytest.mark.threat("S14")
def test_a_removed_membership_takes_effect_at_once(
    anna: Person, root: Person, a_group: Callable[..., None]
) -> None:
    a_group("ml", "anna")
    assert dav(anna, "PUT", "groups/ml/file", data=b"x").status_code == 201
    root.ok(root.delete("/users/anna/groups/ml"))
    assert dav(anna, "GET", "groups/ml/file").status_code == 403


def test_a_file_is_read_by_ranges_and_keeps_its_time(anna: Person, head: Head) -> None:
    put = dav(anna, "PUT", "home/file", data=b"0123456789", headers={"X-OC-Mtime": "981158400"})
    assert put.status_code == 201
    part = dav(anna, "GET", "home/file", headers={"Range": "bytes=3-5"})
    assert (part.status_code, part.data) == (206, b"345")
    assert (head.data.home("anna") / "file").stat().st_mtime == 981158400
    etag = dav(anna, "HEAD", "home/file").headers["ETag"]
    assert dav(anna, "GET", "home/file", headers={"If-None-Match": etag}).status_code == 304
    assert dav(anna, "PUT", "home/file", data=b"new").status_code == 204


def test_a_body_that_ends_early_changes_nothing(anna: Person, head: Head) -> None:
    dav(anna, "PUT", "home/file", data=b"old")
    answer = dav(anna, "PUT", "home/file", data=b"new but torn", environ_overrides={"CONTENT_LENGTH": "1000"})
    assert answer.status_code == 400
    assert names_in(head.data.home("anna")) == ["file"]
    assert (head.data.home("anna") / "file").read_bytes() == b"old"


def test_a_closed_connection_is_one_line_in_the_log(
    anna: Person, head: Head, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if data := super().read(size):
                return data
            raise NoMoreData

    caplog.set_level("INFO")
    options = {"wsgi.input": Broken(b"abc"), "CONTENT_LENGTH": "", "HTTP_TRANSFER_ENCODING": "chunked"}
    assert dav(anna, "PUT", "home/file", environ_overrides=options).status_code == 400
    assert names_in(head.data.home("anna")) == []
    [record] = [record for record in caplog.records if record.name.startswith("pit_server")]
    assert record.getMessage() == "the client closed the connection: NoMoreData" and not record.exc_info


@pytest.mark.threat("S15")
def test_shared_and_job_directories_are_read_only(
    anna: Person, head: Head, a_node: Callable[..., Worker], a_waiting_job: Callable[..., int]
) -> None:
    a_node()
    number = a_waiting_job()
    job = head.data.attempt(number, 1)
    job.mkdir(parents=True)
    (job / "result").write_text("42")
    (head.data.root / "shared" / "set").write_text("data")
    dav(anna, "PUT", "home/file", data=b"x")
    for place, name in (("shared", "set"), (f"jobs/{number}", "result")):
        assert dav(anna, "GET", f"{place}/{name}").status_code == 200
        assert dav(anna, "PUT", f"{place}/{name}", data=b"x").status_code == 403
        assert dav(anna, "PUT", f"{place}/new", data=b"x").status_code == 403
        assert dav(anna, "MKCOL", f"{place}/new").status_code == 403
        assert dav(anna, "DELETE", f"{place}/{name}").status_code == 403
        to_it = {"Destination": f"/dav/{place}/copy"}
        assert dav(anna, "COPY", "home/file", headers=to_it).status_code == 403
        away = {"Destination": "/dav/home/moved"}
        assert dav(anna, "MOVE", f"{place}/{name}", headers=away).status_code == 403
        assert dav(anna, "LOCK", f"{place}/{name}", data=LOCK).status_code == 403
    assert names_in(job) == ["result"]
    assert names_in(head.data.root / "shared") == ["set"]


def test_levels_above_the_domains_are_read_only(anna: Person) -> None:
    for path in ("new", "groups/new", "jobs/99"):
        assert dav(anna, "PUT", path, data=b"x").status_code in (403, 409)
        assert dav(anna, "MKCOL", path).status_code in (403, 409)
    for path in ("home", "groups", "shared"):
        assert dav(anna, "DELETE", path).status_code in (403, 422)


@pytest.mark.parametrize(
    "path",
    [
        "home/../../x",
        "home/%2e%2e/%2e%2e/x",
        "home/..%2f..%2fx",
        "../etc/passwd",
        "home/out",
        "home/dir/passwd",
    ],
)
@pytest.mark.threat("S47")
def test_no_path_and_no_link_leads_out_of_a_domain(
    anna: Person, head: Head, path: str, tmp_path: Path
) -> None:
    (tmp_path / "x").write_text("SECRET")
    home = head.data.home("anna")
    home.mkdir()
    (home / "out").symlink_to(tmp_path / "x")
    (home / "dir").symlink_to("/etc")
    answer = dav(anna, "GET", path)
    assert answer.status_code in (400, 404)
    assert b"SECRET" not in answer.data
    assert dav(anna, "PUT", path, data=b"x").status_code in (201, 204, 400, 403, 404, 409)
    assert (tmp_path / "x").read_text() == "SECRET"
    assert listed(anna, "home/") in ([], ["out"])  # written over, a link is a file like any other


def test_unusual_file_names_survive_a_round_trip(anna: Person, head: Head) -> None:
    names = ["with blank", "quo'te\"s", "new\nline", "emoji \U0001f40d", "*", "#?%41&"]
    home = head.data.home("anna")
    home.mkdir()
    for name in names:
        (home / name).write_text(name)
    (home / os.fsdecode(b"latin-\xe9")).write_text("latin")
    shown = listed(anna, "home/")
    assert len(shown) == len(names) + 1
    contents = {dav(anna, "GET", f"home/{name}").text for name in shown}
    assert contents >= set(names)
    odd = dav(
        anna, "GET", "home/x", environ_overrides={"PATH_INFO": "/dav/home/latin-\xe9"}
    )  # as WSGI has it
    assert odd.text == "latin"


def test_moved_files_arrive_and_deleted_files_go_to_the_trash(
    anna: Person, head: Head, root: Person, a_group: Callable[..., None]
) -> None:
    a_group("ml", "anna")
    home, group = head.data.home("anna"), head.data.group("ml")
    dav(anna, "MKCOL", "home/one")
    dav(anna, "PUT", "home/one/file", data=b"content")
    assert dav(anna, "MOVE", "home/one", headers={"Destination": "/dav/home/two"}).status_code == 201
    assert (home / "two" / "file").read_text() == "content"
    assert dav(anna, "MOVE", "home/two", headers={"Destination": "/dav/groups/ml/two"}).status_code == 201
    assert (group / "two" / "file").read_text() == "content"
    assert not (home / "two").exists()
    assert dav(anna, "COPY", "groups/ml/two", headers={"Destination": "/dav/home/three"}).status_code == 201
    assert (home / "three" / "file").read_text() == "content"
    assert dav(anna, "DELETE", "home/three").status_code == 204
    assert not (home / "three").exists()
    assert len(list((head.data.root / "trash").glob("**/file"))) == 1
    noted = root.ok(root.get("/audit"))["entries"][0]
    assert (noted["act"], noted["object"], noted["detail"]) == ("remove files", "user:anna", "three")


def test_a_destination_on_another_server_is_refused(anna: Person) -> None:
    dav(anna, "PUT", "home/file", data=b"x")
    away = {"Destination": "http://evil.example.org/dav/home/y"}
    assert dav(anna, "MOVE", "home/file", headers=away).status_code == 502
    # A proxy in front may have made http of https.
    here = {"Destination": "https://localhost/dav/home/y"}
    assert dav(anna, "MOVE", "home/file", headers=here).status_code == 201


LOCK = b"""<?xml version="1.0"?><D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope>
<D:locktype><D:write/></D:locktype><D:owner>anna</D:owner></D:lockinfo>"""


def test_a_lock_keeps_others_from_writing(
    anna: Person, a_user: Callable[..., Person], a_group: Callable[..., None]
) -> None:
    bob = a_user("bob")
    a_group("ml", "anna", "bob")
    lock = dav(anna, "LOCK", "groups/ml/file", data=LOCK, headers={"Timeout": "Infinite"})
    assert lock.status_code == 201
    assert b"Second-3" in lock.data  # an hour at most
    assert dav(bob, "PUT", "groups/ml/file", data=b"x").status_code == 423
    assert dav(bob, "DELETE", "groups/ml/file").status_code == 423
    token = lock.headers["Lock-Token"]
    assert dav(anna, "PUT", "groups/ml/file", data=b"x", headers={"If": f"({token})"}).status_code == 204
    assert dav(bob, "UNLOCK", "groups/ml/file", headers={"Lock-Token": token}).status_code == 403
    assert dav(anna, "UNLOCK", "groups/ml/file", headers={"Lock-Token": token}).status_code == 204
    assert dav(bob, "PUT", "groups/ml/file", data=b"x").status_code == 204


def test_the_number_of_locks_is_bounded() -> None:
    locks = Locks()
    locks.open()
    wanted = {
        "type": "write",
        "scope": "exclusive",
        "depth": "0",
        "owner": b"",
        "timeout": 60.0,
        "principal": "anna",
    }
    for number in range(MOST_OF_ONE):
        locks.create(f"/home/{number}", dict(wanted))
    with pytest.raises(DAVError) as refused:
        locks.create("/home/one-more", dict(wanted))
    assert refused.value.value == 503
    assert locks.create("/home/bob", {**wanted, "principal": "bob"})["token"]


def test_deep_and_large_propfinds_are_refused(anna: Person) -> None:
    assert dav(anna, "PROPFIND", "home/").status_code == 403
    assert dav(anna, "PROPFIND", "home/", headers={"Depth": "infinity"}).status_code == 403
    large = {"Depth": "1"}
    assert dav(anna, "PROPFIND", "home/", data=b" " * 100_000, headers=large).status_code == 413


@pytest.mark.threat("S53", "S60")
def test_user_files_are_sandboxed_in_a_browser(anna: Person) -> None:
    dav(anna, "PUT", "home/x.html", data=b"<script>1</script>")
    assert dav(anna, "GET", "home/x.html").headers["Content-Security-Policy"].startswith("sandbox")


def basic(app: Flask, name: str, password: str) -> TestResponse:
    word = base64.b64encode(f"{name}:{password}".encode()).decode()
    with app.test_client() as client:
        headers = {"Authorization": f"Basic {word}", "Depth": "0"}
        return client.open("/dav/home/", method="PROPFIND", headers=headers)


def test_basic_auth_takes_a_token_or_the_password(anna: Person, root: Person, app: Flask) -> None:
    root.ok(root.patch("/users/anna", password="correct horse"))
    assert basic(app, "anna", "correct horse").status_code == 207
    assert basic(app, "anna", "wrong horse").status_code == 401
    assert basic(app, "nobody", "correct horse").status_code == 401
    with_token = Person(app, "anna", root.token)
    assert basic(app, "whoever", with_token.token).status_code == 207


def test_a_verified_password_is_cached_until_it_changes(
    anna: Person, root: Person, app: Flask, head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.ok(root.patch("/users/anna", password="correct horse"))
    assert basic(app, "anna", "correct horse").status_code == 207
    monkeypatch.setattr(head.auth.passwords, "is_right", lambda *_: False)
    assert basic(app, "anna", "correct horse").status_code == 207
    assert basic(app, "anna", "correct horses").status_code == 401
    root.ok(root.patch("/users/anna", password="battery staple"))
    assert basic(app, "anna", "correct horse").status_code == 401


def test_deactivating_a_user_takes_effect_at_once(anna: Person, root: Person, app: Flask) -> None:
    root.ok(root.patch("/users/anna", password="correct horse"))
    assert basic(app, "anna", "correct horse").status_code == 207
    root.ok(root.patch("/users/anna", active="no"))
    assert basic(app, "anna", "correct horse").status_code == 403


def test_password_guessing_is_rate_limited(anna: Person, app: Flask) -> None:
    codes = [basic(app, "anna", f"guess number {n}").status_code for n in range(12)]
    assert codes[:10] == [401] * 10
    assert codes[10:] == [429, 429]
