"""Reading the domains: who may, what is shown, ranges and conditions (S13, S14, S47, S49)."""

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from werkzeug.test import TestResponse

from pit_protocol.transport.tar_reader import TarReader
from pit_server.context import Head
from tests.support.clusters.head import ONE_DATABASE, Person, Worker
from tests.support.domain_files import as_bytes, home, names, route, send

BODY = bytes(range(256)) * 40
ODD_NAMES = (b"with blank", b"quo'te\"s", b"new\nline", "\U0001f40d".encode(), b"latin-\xe9", b"%41")


@pytest.fixture
def folder(head: Head, anna: Person) -> Path:
    """Anna's home, with a few things in it."""
    anna.get(route("home"))  # which makes it
    place = home(head)
    (place / "sub" / "inner").mkdir(parents=True)
    (place / "file.bin").write_bytes(BODY)
    (place / "sub" / "a.txt").write_text("a")
    (place / "sub" / "inner" / "b.txt").write_text("b")
    (place / "out").symlink_to("/etc/passwd")
    os.mkfifo(place / "pipe")
    return place


@pytest.fixture
def bert(a_user: Callable[..., Person]) -> Person:
    return a_user("bert")


def test_a_directory_is_listed_with_kinds_sizes_and_links(folder: Path, anna: Person) -> None:
    entries = {entry["name"]: entry for entry in anna.ok(anna.get(route("home")))["entries"]}
    assert {name: entry["kind"] for name, entry in entries.items()} == {
        "file.bin": "file",
        "out": "link",
        "pipe": "other",
        "sub": "directory",
    }
    assert entries["file.bin"]["size"] == len(BODY)
    assert entries["out"]["target"] == {"name": "/etc/passwd"}


def test_a_listing_goes_as_deep_as_asked(folder: Path, anna: Person) -> None:
    assert names(anna, "home", b"sub") == ["a.txt", "inner"]
    assert names(anna, "home", b"sub", recursive="yes") == ["a.txt", "inner", "inner/b.txt"]


@ONE_DATABASE
@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.bin", ["file.bin"]),
        ("s*/*.txt", ["sub/a.txt"]),
        ("**/*.txt", ["sub/a.txt", "sub/inner/b.txt"]),
        ("su[b]/inner/?.txt", ["sub/inner/b.txt"]),
        ("out/*", []),
        ("*.none", []),
    ],
)
def test_patterns_are_matched_on_the_head(folder: Path, anna: Person, pattern: str, found: list[str]) -> None:
    assert names(anna, "home", glob=pattern) == found


@ONE_DATABASE
@pytest.mark.parametrize("pattern", ["../*", "sub/../../*", "x" * 2000])
def test_a_pattern_that_leads_elsewhere_is_refused(folder: Path, anna: Person, pattern: str) -> None:
    assert anna.get(route("home"), query_string={"glob": pattern}).status_code == 422


@ONE_DATABASE
@pytest.mark.parametrize(
    "path",
    [
        "/files/home/../bert/x",
        "/files/home/%2e%2e/bert/x",
        "/files/home/..%2fbert",
        "/files/home/..%c0%af..%c0%afetc/passwd",
        "/files/home//etc/shadow",
        "/files/home/%2fetc%2fshadow",
        "/files/home/a%00b",
        "/files/home/" + "x" * 5000,
        "/files/home/sub//a.txt",
        "/files/home/out",
        "/files/home/out/x",
        "/files/user:../x",
        "/files/group:..%2fhome/x",
        "/files/job:1%2f..%2f..",
        "/files/nowhere",
        "/files/99999999999999999999",
    ],
)
@pytest.mark.threat("S47")
def test_no_path_leads_out(folder: Path, anna: Person, path: str) -> None:
    answer = anna.get(path)
    assert answer.status_code in (404, 422), (path, answer.data[:200])
    assert b"root:" not in answer.data


@pytest.mark.threat("S49")
def test_a_pipe_is_refused_without_a_hang(folder: Path, anna: Person) -> None:
    answer = anna.get(route("home", b"pipe"))
    assert (answer.status_code, answer.json["code"]) == (409, "no_file")


def test_a_file_is_read_whole_and_in_ranges(folder: Path, anna: Person) -> None:
    whole = anna.get(route("home", b"file.bin"))
    assert (whole.status_code, whole.data) == (200, BODY)
    for asked, start, stop in [
        ("100-199", 100, 200),
        ("10000-", 10_000, len(BODY)),
        ("-5", len(BODY) - 5, len(BODY)),
    ]:
        part = anna.get(route("home", b"file.bin"), headers={"Range": f"bytes={asked}"})
        assert (part.status_code, part.data) == (206, BODY[start:stop])
        assert part.headers["Content-Range"] == f"bytes {start}-{stop - 1}/{len(BODY)}"
    assert anna.get(route("home", b"file.bin"), headers={"Range": "bytes=99999-"}).status_code == 416


def test_what_the_client_has_is_not_sent_again(folder: Path, anna: Person) -> None:
    first = anna.get(route("home", b"file.bin"))
    etag = first.headers["ETag"]
    assert anna.get(route("home", b"file.bin"), headers={"If-None-Match": etag}).status_code == 304
    since = {"If-Modified-Since": first.headers["Last-Modified"]}
    assert anna.get(route("home", b"file.bin"), headers=since).status_code == 304
    (folder / "file.bin").write_bytes(b"changed")
    assert anna.get(route("home", b"file.bin"), headers={"If-None-Match": etag}).data == b"changed"


def test_a_range_of_another_version_is_all_of_this_one(folder: Path, anna: Person) -> None:
    etag = anna.get(route("home", b"file.bin")).headers["ETag"]
    headers = {"Range": "bytes=5-", "If-Range": etag}
    assert anna.get(route("home", b"file.bin"), headers=headers).status_code == 206
    (folder / "file.bin").write_bytes(b"changed")
    answer = anna.get(route("home", b"file.bin"), headers=headers)
    assert (answer.status_code, answer.data) == (200, b"changed")


def test_a_head_request_tells_the_size_alone(folder: Path, anna: Person) -> None:
    answer = anna.call("HEAD", route("home", b"file.bin"))
    assert (answer.headers["Content-Length"], answer.data) == (str(len(BODY)), b"")


def test_the_head_tells_hash_and_record_of_a_file(folder: Path, anna: Person) -> None:
    answer = anna.ok(anna.get(route("home", b"file.bin"), query_string={"sha256": "yes"}))
    assert answer["sha256"] == hashlib.sha256(BODY).hexdigest()
    record = anna.ok(anna.get(route("home", b"out"), query_string={"stat": "yes"}))
    assert (record["kind"], record["domain"]) == ("link", "user:anna")


def test_a_directory_comes_as_a_sealed_tar(folder: Path, anna: Person) -> None:
    for query in ("yes", "gz"):
        answer = anna.get(route("home", b"sub"), query_string={"tar": query})
        with tarfile.open(fileobj=io.BytesIO(answer.data)) as tar:
            assert tar.getnames() == ["sub", "sub/a.txt", "sub/inner", "sub/inner/b.txt", "sub"]
        reader = TarReader([answer.data])
        for member in reader.members():
            list(reader.pieces(member.size))
        assert reader.is_sealed


def test_some_files_come_as_a_tar_and_what_is_gone_or_leads_out_is_left_out(
    folder: Path, anna: Person
) -> None:
    paths = ["file.bin", "sub/inner/b.txt", "gone", "sub/a.txt", "pipe", "out", "out/x"]
    answer = anna.post(route("home"), json={"paths": paths})
    with tarfile.open(fileobj=io.BytesIO(answer.data)) as tar:
        kinds = {member.name: member.type for member in tar}
    assert kinds == {
        "file.bin": tarfile.REGTYPE,
        "sub/inner/b.txt": tarfile.REGTYPE,
        "sub/a.txt": tarfile.REGTYPE,
        "out": tarfile.SYMTYPE,
        ".": tarfile.DIRTYPE,
    }
    assert anna.post(route("home"), json={"paths": ["../x"]}).status_code == 422
    assert anna.post(route("home"), json={"paths": 7}).status_code == 422


@ONE_DATABASE
@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_are_bytes(head: Head, anna: Person, name: bytes) -> None:
    assert send(anna, "home", b"odd/" + name, b"content").status_code == 404  # nobody made `odd`
    anna.ok(anna.call("PUT", route("home", b"odd"), query_string={"directory": "yes"}))
    anna.ok(send(anna, "home", b"odd/" + name, b"content"))
    assert [os.fsencode(path.name) for path in (home(head) / "odd").iterdir()] == [name]
    assert anna.get(route("home"), **as_bytes("home", b"odd/" + name)).data == b"content"
    [entry] = anna.ok(anna.get(route("home", b"odd")))["entries"]
    if name == b"latin-\xe9":
        assert (entry["name"], entry["encoded"]) == ("latin-\ufffd", "latin-%E9")
    else:
        assert entry["name"] == name.decode() and "encoded" not in entry


def test_a_listing_of_many_is_one_document(head: Head, anna: Person) -> None:
    anna.get(route("home"))
    for number in range(3000):
        (home(head) / f"file {number}\u00e9").touch()
    answer = anna.get(route("home"))
    assert len(json.loads(answer.data)["entries"]) == 3000


class TestRights:
    """Who may read and write which domain, at the moment he asks."""

    def test_a_home_is_its_users_and_the_admins(
        self, folder: Path, anna: Person, bert: Person, root: Person
    ) -> None:
        for domain in ("user:anna", "home"):
            assert anna.get(route(domain, b"file.bin")).data == BODY
        assert root.get(route("user:anna", b"file.bin")).data == BODY
        assert bert.get(route("user:anna", b"file.bin")).status_code == 403
        assert send(bert, "user:anna", b"x", b"x").status_code == 403
        assert send(root, "user:anna", b"x", b"x").status_code == 201

    def test_a_groups_files_are_its_members_and_the_admins(
        self, a_group: Callable[..., None], anna: Person, bert: Person, root: Person
    ) -> None:
        a_group("lab", "anna")
        anna.ok(send(anna, "group:lab", b"x", b"shared"))
        assert root.get(route("group:lab", b"x")).data == b"shared"
        for answer in (bert.get(route("group:lab", b"x")), send(bert, "group:lab", b"y", b"y")):
            assert answer.status_code == 403
        root.ok(root.delete("/users/anna/groups/lab"))
        assert anna.get(route("group:lab", b"x")).status_code == 403  # S14

    def test_shared_is_readable_for_all_and_writable_for_nobody(
        self, head: Head, anna: Person, root: Person
    ) -> None:
        shared = head.data.root / "shared"
        shared.chmod(0o755)
        (shared / "corpus").write_text("words")
        assert anna.get(route("shared", b"corpus")).data == b"words"
        for answer in (send(root, "shared", b"x", b"x"), root.delete(route("shared", b"corpus"))):
            assert (answer.status_code, answer.json["code"]) == (403, "read_only")

    @pytest.mark.threat("S15")
    def test_a_job_is_readable_for_those_who_see_it_and_writable_for_nobody(
        self,
        a_node: Callable[..., Worker],
        a_waiting_job: Callable[..., int],
        a_group: Callable[..., None],
        anna: Person,
        bert: Person,
    ) -> None:
        a_node()
        number = a_waiting_job(with_tree=True)
        assert names(anna, str(number)) == ["keep", "src"]
        assert _answers(bert, number) == {404}  # S13
        a_group("lab", "anna", "bert")
        anna.ok(anna.put(f"/jobs/{number}/groups/lab"))
        assert names(bert, f"job:{number}") == ["keep", "src"]
        for who in (anna, bert):  # S15
            writes = [
                send(who, f"job:{number}", b"keep/x", b"x"),
                who.delete(route(f"job:{number}", b"keep")),
                who.call("PUT", route(f"job:{number}", b"new"), query_string={"directory": "yes"}),
                who.call("PUT", route(f"job:{number}", b"new"), query_string={"link": "/etc"}),
                who.call("PUT", route(f"job:{number}"), query_string={"tar": "yes"}),
            ]
            assert {answer.status_code for answer in writes} == {403}


def _answers(who: Person, number: int) -> set[int]:
    asked: list[TestResponse] = [
        who.get(route(f"job:{number}", path), query_string=query)
        for path in (b"", b"src")
        for query in ({}, {"tar": "yes"}, {"stat": "yes"}, {"glob": "*"})
    ]
    asked += [who.get(f"/jobs/{number}/archive"), who.post(route(str(number)), json={"paths": []})]
    return {answer.status_code for answer in asked}
