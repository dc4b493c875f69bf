"""Nodes without shared storage: each fetches and returns only what runs there."""

import os
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from pit_protocol.states import KilledBy, NodeState
from pit_protocol.transport.tar_reader import DIRECTORY, FILE, LINK, Member, TarReader
from pit_protocol.transport.tar_writer import header, padding, sealed
from pit_server.context import Head
from pit_server.services.nodes import nodes
from tests.support.clusters.head import NOW, Person, Worker, an_inventory, ended, prepare, running


@pytest.fixture
def database_url() -> str:
    """SQLite only: nothing here depends on the database."""
    return ""


@pytest.fixture
def n0(a_node: Callable[..., Worker]) -> Worker:
    return a_node("n0")


@pytest.fixture
def job(n0: Worker, a_placed_job: Callable[..., int]) -> int:
    """A job that was placed on n0."""
    return a_placed_job(with_tree=True)


def a_tar(*members: tuple[str, bytes, str | bytes]) -> bytes:
    pieces = []
    for name, kind, content in members:
        body = content if isinstance(content, bytes) else b""
        target = content if isinstance(content, str) else ""
        pieces += [header(Member(name, kind, 0o755, len(body), 1e9, target)), body, padding(len(body))]
    return b"".join(sealed(pieces))


def ask(worker: Worker, method: str, job: int, what: str, attempt: int = 1, **options: Any) -> Any:
    query = {"epoch": options.pop("epoch", worker.epoch)}
    return worker.call(method, f"/node/attempts/{job}/{attempt}/{what}", query_string=query, **options)


def test_a_node_fetches_a_tree_and_returns_its_changes(n0: Worker, job: int, head: Head) -> None:
    place = head.data.attempt(job, 1)
    (place / "src" / "old").write_text("old")
    got = ask(n0, "GET", job, "tree")
    reader = TarReader([got.data])
    names = {
        member.name.strip("./") for member in reader.members() if not list(reader.pieces(member.size))[1:]
    }
    assert {"src/old", "keep"} <= names and reader.is_sealed
    changes = a_tar(
        ("keep/sub", DIRECTORY, b""), ("keep/sub/model", FILE, b"model"), ("keep/latest", LINK, "sub")
    )
    for _ in range(2):  # idempotent
        assert ask(n0, "PUT", job, "tree", data=changes).status_code == 200
        assert ask(n0, "POST", job, "gone", json=["src/old", "src/never"]).status_code == 200
    assert (place / "keep/sub/model").read_bytes() == b"model"
    assert os.path.realpath(place / "keep/latest") == str(place / "keep/sub")
    assert not (place / "src/old").exists()


@pytest.mark.parametrize("name", ["../x", "/etc/x", "src/../../x", "out/x"])
def test_nothing_is_written_outside_of_the_attempts_directory(
    n0: Worker, job: int, head: Head, name: str
) -> None:
    (head.data.attempt(job, 1) / "out").symlink_to(head.data.root)
    answer = ask(n0, "PUT", job, "tree", data=a_tar((name, FILE, b"x")))
    assert answer.status_code in (404, 409, 422)
    assert not (head.data.root / "x").exists() and not (head.data.job(job) / "x").exists()
    assert ask(n0, "POST", job, "gone", json=["../../../pit.db"]).status_code == 422


def test_a_truncated_tar_is_refused(n0: Worker, job: int) -> None:
    whole = a_tar(("keep/one", FILE, b"1"), ("keep/two", FILE, b"2" * 5000))
    assert ask(n0, "PUT", job, "tree", data=whole[:3000]).status_code in (400, 422)


@pytest.mark.threat("S18")
def test_another_node_is_refused_and_audited(
    n0: Worker, job: int, a_node: Callable[..., Worker], root: Person
) -> None:
    other = a_node("n1")
    for method, what in (("GET", "tree"), ("PUT", "tree"), ("POST", "token"), ("POST", "gone")):
        answer = ask(other, method, job, what, json=[])
        assert (answer.status_code, answer.json["code"]) == (403, "not_yours")
    acts = [entry["act"] for entry in root.ok(root.get("/audit"))["entries"]]
    assert acts.count("asked for another node's files") == 4


@pytest.mark.threat("S61")
def test_an_older_epoch_or_attempt_is_refused(n0: Worker, job: int) -> None:
    assert ask(n0, "GET", job, "tree", epoch=n0.epoch - 1).status_code == 409
    assert ask(n0, "GET", job, "tree", attempt=2).status_code == 403


def test_files_of_an_ended_attempt_are_not_written(n0: Worker, job: int) -> None:
    process = next(iter(n0.orders()))
    n0.beat(running(process))
    assert ask(n0, "GET", job, "tree").status_code == 200
    n0.beat(ended(process))
    assert ask(n0, "PUT", job, "tree", data=a_tar()).status_code == 403


def test_a_lost_node_may_return_files(n0: Worker, job: int, head: Head) -> None:
    process = next(iter(n0.orders()))
    n0.beat(running(process))
    n0.beat(replace(ended(process), exit_code=None, killed_by=KilledBy.REBOOT))
    changes = a_tar(("keep/late", FILE, b"late"))
    assert ask(n0, "PUT", job, "tree", data=changes).status_code == 200
    assert (head.data.attempt(job, 1) / "keep/late").read_bytes() == b"late"
    for method, what in (("POST", "token"), ("GET", "tree")):
        assert ask(n0, method, job, what).json["code"] == "not_yours"


def test_a_lost_node_may_return_files_and_fetch_none(
    n0: Worker, job: int, head: Head, root: Person, anna: Person
) -> None:
    with head.database.write() as session:
        nodes.set_state(session, 1, NodeState.OFFLINE, now=NOW)
    root.ok(root.delete("/nodes/n0?lost=yes"))
    assert anna.job(job)["outcome"] == "lost"
    n0.hello(an_inventory())
    for method, what in (("GET", "tree"), ("POST", "token")):
        assert ask(n0, method, job, what).json["code"] == "not_yours"
    assert ask(n0, "PUT", job, "tree", data=a_tar(("keep/model", FILE, b"model"))).status_code == 200
    assert (head.data.attempt(job, 1) / "keep/model").read_bytes() == b"model"
    anna.ok(anna.delete(f"/jobs/{job}"))
    again = ask(n0, "PUT", job, "tree", data=a_tar(("keep/model", FILE, b"other")))
    assert again.json["code"] == "not_yours"


def test_users_are_refused_by_staging_routes(job: int, n0: Worker, root: Person) -> None:
    for method, what in (("GET", "tree"), ("PUT", "tree"), ("POST", "token"), ("POST", "gone")):
        answer = root.call(method, f"/node/attempts/{job}/1/{what}")
        assert answer.status_code == 403


def dav(person: Person, method: str, path: str, **options: Any) -> int:
    headers = {"Authorization": f"Bearer {person.token}", "Depth": "0"}
    with person.app.test_client() as client:
        return client.open(f"/dav/{path}", method=method, headers=headers, **options).status_code


@pytest.mark.threat("S40")
def test_a_jobs_token_gives_only_its_users_data_and_ends_with_it(
    n0: Worker, job: int, anna: Person, head: Head, root: Person, a_group: Callable[..., None]
) -> None:
    a_group("ml", "anna")
    a_group("bio")
    token = ask(n0, "POST", job, "token").json["token"]
    own = Person(anna.app, "anna's job", token)
    assert dav(own, "PUT", "home/file", data=b"x") == 201
    assert dav(own, "PUT", "groups/ml/file", data=b"x") == 201
    assert dav(own, "PROPFIND", "shared/") == 207
    assert dav(own, "PUT", "shared/file", data=b"x") == 403
    for path in ("groups/bio/", "jobs/", f"jobs/{job}/", "users/", "users/anna/"):
        assert dav(own, "PROPFIND", path) in (403, 404), path
    for path in ("/me", "/jobs", "/files/home", "/tokens", f"/jobs/{job}"):
        assert own.get(path).status_code in (403, 404, 405), path
    assert own.post(f"/jobs/{job}/stop").status_code == 403
    assert [each["current"] for each in anna.ok(anna.get("/tokens"))["tokens"]] == [True]
    second = Person(anna.app, "again", ask(n0, "POST", job, "token").json["token"])
    assert dav(own, "PROPFIND", "home/") == 401
    assert dav(second, "PROPFIND", "home/") == 207
    process = next(iter(n0.orders()))
    n0.beat(running(process))
    n0.beat(ended(process))
    assert dav(second, "PROPFIND", "home/") == 401


def test_a_job_of_an_admin_has_no_admin_permissions(
    n0: Worker, root: Person, anna: Person, head: Head
) -> None:
    number = root.submit()
    prepare(head, number)
    head.scheduling()
    own = Person(root.app, "job", ask(n0, "POST", number, "token").json["token"])
    assert dav(own, "PROPFIND", "home/") == 207
    assert dav(own, "PROPFIND", "users/anna/") == 404


def test_no_token_is_in_the_database(n0: Worker, job: int, head: Head) -> None:
    token = ask(n0, "POST", job, "token").json["token"]
    assert token.encode() not in (head.settings.home / "pit.db").read_bytes()
    secret = token.split("_", 2)[2]
    for file in head.settings.home.glob("pit.db*"):
        assert secret.encode() not in file.read_bytes()
