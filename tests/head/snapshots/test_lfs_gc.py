"""Large files are deleted from the cache when no kept code needs them, but never while a job uses them."""

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pit_protocol.durations import DAY_S
from pit_server.context import Head
from pit_server.services.snapshots.lfs import LAST_USE
from pit_server.services.snapshots.lfs_gc import delete_old
from pit_server.services.snapshots.retention import Retention
from pit_server.services.snapshots.sources import Sources
from pit_server.settings import Settings
from tests.support.clusters.head import ONE_DATABASE, Person, prepare
from tests.support.servers.git import GitServer
from tests.support.snapshots import Project, a_project, git

FIRST, SECOND = b"first\0" * 5000, b"second\0" * 5000

pytestmark = [ONE_DATABASE, pytest.mark.usefixtures("node")]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(
        settings, git_protocols="http", git_local_hosts="127.0.0.1", snapshot_days=30.0, large_file_days=7.0
    )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = a_project(tmp_path / "project")
    git(project.remote, "config", "uploadpack.allowAnySHA1InWant", "true")
    return project


@pytest.fixture
def server(project: Project) -> Iterator[GitServer]:
    with GitServer(project.remote.parent) as server:
        yield server


@pytest.fixture
def clean(head: Head) -> Callable[[float], None]:
    retention = Retention(head.database, Sources(head.data, head.settings))
    return lambda now: retention.clean(now=now)


def pointer_to(content: bytes) -> str:
    name = hashlib.sha256(content).hexdigest()
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{name}\nsize {len(content)}\n"


def commit(project: Project, server: GitServer, content: bytes) -> None:
    server.put(content)
    project.commit(**{".gitattributes": "*.bin filter=lfs -text\n", "model.bin": pointer_to(content)})


def run(head: Head, person: Person, project: Project, server: GitServer) -> dict[str, Any]:
    """A job that has ended."""
    number = person.submit(snapshot=project.snapshot(person, remote=server.url()))
    prepare(head, number)
    assert person.job(number)["state"] == "waiting", person.job(number)["reason"]
    person.stop(number)
    return person.job(number)


def purge(person: Person, number: int) -> None:
    """Remove a job for good: in the trash it keeps its code."""
    entry = person.ok(person.delete(f"/jobs/{number}"))["trash"]
    person.ok(person.delete(f"/trash/{entry['id']}"))


def cached(head: Head, owner: int | None = None) -> set[str]:
    files = {path.name for path in head.data.large(owner).rglob("*") if path.is_file()}
    return {name for name, content in names().items() if content in files}


def names() -> dict[str, str]:
    known = {"first": FIRST, "second": SECOND}
    return {name: hashlib.sha256(content).hexdigest() for name, content in known.items()}


def lacked(person: Person) -> list[str]:
    """What a client with the first file has to send."""
    asked = {"large": [{"oid": names()["first"], "size": len(FIRST)}], "remote": None}
    return [file["oid"] for file in person.ok(person.post("/snapshots/missing", json=asked))["large"]]


def test_unneeded_large_files_are_deleted_after_the_set_days(
    head: Head, anna: Person, project: Project, server: GitServer, clean: Callable[[float], None]
) -> None:
    anna.submit()  # of an empty project: it must not stop the collection
    commit(project, server, FIRST)
    first = run(head, anna, project, server)
    commit(project, server, SECOND)
    second = run(head, anna, project, server)
    assert cached(head) == {"first", "second"}
    clean(since := second["since"] + 20 * DAY_S)
    assert cached(head) == {"first", "second"}  # their code is kept
    purge(anna, first["number"])
    clean(since + 6 * DAY_S)
    assert cached(head) == {"first", "second"}  # kept for a week after the last use
    clean(since + 8 * DAY_S)
    assert cached(head) == {"second"}
    body = anna.get(f"/jobs/{second['number']}/code").data
    assert SECOND in body
    clean(since + 11 * DAY_S)  # by now its code is too old, too
    clean(since + 18 * DAY_S)
    assert cached(head) == set()


def test_a_job_that_was_run_again_needs_it_too(
    head: Head, anna: Person, project: Project, server: GitServer, clean: Callable[[float], None]
) -> None:
    commit(project, server, FIRST)
    first = run(head, anna, project, server)
    again = anna.submit(snapshot=None, reruns=first["number"])
    prepare(head, again)
    purge(anna, first["number"])
    clean(first["since"] + 100 * DAY_S)
    clean(first["since"] + 200 * DAY_S)
    assert cached(head) == {"first"}  # a waiting job does not age


def test_a_file_a_client_need_not_send_stays_for_at_least_a_day(
    head: Head, anna: Person, project: Project, server: GitServer
) -> None:
    commit(project, server, FIRST)
    first = run(head, anna, project, server)
    purge(anna, first["number"])
    path = next(head.data.large(None).rglob(names()["first"]))
    os.utime(path, (0, 0))
    before = time.time()
    assert lacked(anna) == []
    hasty = Sources(head.data, replace(head.settings, large_file_days=0.001))
    Retention(head.database, hasty).clean(now=before + DAY_S - 1)
    assert cached(head) == {"first"}
    Retention(head.database, hasty).clean(now=time.time() + DAY_S + 1)
    assert cached(head) == set()


def test_zero_days_disables_the_deletion(
    head: Head, anna: Person, project: Project, server: GitServer
) -> None:
    commit(project, server, FIRST)
    first = run(head, anna, project, server)
    purge(anna, first["number"])
    forever = Sources(head.data, replace(head.settings, large_file_days=0.0))
    Retention(head.database, forever).clean(now=first["since"] + 10_000 * DAY_S)
    assert cached(head) == {"first"}


def test_one_users_copy_does_not_stay_for_anothers_job(
    head: Head,
    anna: Person,
    a_user: Callable[..., Person],
    project: Project,
    server: GitServer,
    clean: Callable[[float], None],
) -> None:
    berta = a_user("berta")
    commit(project, server, FIRST)
    server.login = ("oauth2", "t0ken")
    for person in (anna, berta):
        person.call("PATCH", "/users/me", json={"set": {f"git.{server.place}": "t0ken"}})
    hers, mine = run(head, berta, project, server), run(head, anna, project, server)
    caches = {owner: cached(head, owner) for owner in (1, 2)}
    assert caches == {1: {"first"}, 2: {"first"}}
    purge(anna, mine["number"])
    clean(hers["since"] + 20 * DAY_S)
    owners = {job["user"]: owner for owner, job in zip((1, 2), (mine, hers), strict=True)}
    assert (cached(head, owners["anna"]), cached(head, owners["berta"])) == (set(), {"first"})


def test_a_tree_is_scanned_once_and_its_note_is_deleted_with_it(
    head: Head,
    anna: Person,
    project: Project,
    server: GitServer,
    clean: Callable[[float], None],
) -> None:
    commit(project, server, FIRST)
    first = run(head, anna, project, server)
    clean(first["since"])
    note = head.data.large_files() / "needs" / project.tree()
    assert note.read_text() == names()["first"]
    note.write_text("")
    clean(first["since"] + 8 * DAY_S)
    assert cached(head) == set()  # the cached list was used
    purge(anna, first["number"])
    clean(first["since"] + 9 * DAY_S)
    assert not note.exists()


def test_nothing_is_deleted_if_a_store_is_unreadable(
    head: Head, anna: Person, project: Project, server: GitServer, clean: Callable[[float], None]
) -> None:
    commit(project, server, FIRST)
    first = run(head, anna, project, server)
    (head.data.store(1) / "config").write_text("[broken")
    clean(first["since"] + 20 * DAY_S)
    assert cached(head) == {"first"}


def test_a_file_that_is_used_concurrently_is_not_deleted(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.touch()
    os.utime(path, (0, 0))
    deleting = threading.Thread(target=delete_old, args=(path, 1_000.0))
    with LAST_USE:  # as a preparation does that finds it in the cache
        deleting.start()
        deleting.join(0.2)
        assert path.exists()
        os.utime(path, (2_000, 2_000))
    deleting.join()
    assert path.exists()
    delete_old(path, 3_000.0)
    assert not path.exists()


def test_jobs_prepared_during_gc_get_their_files(
    head: Head,
    anna: Person,
    project: Project,
    server: GitServer,
    clean: Callable[[float], None],
    in_thread: Callable[..., Callable[[], None]],
) -> None:
    commit(project, server, FIRST)
    first = run(head, anna, project, server)
    purge(anna, first["number"])
    server.large.clear()  # a file deleted from the cache is lost
    path = next(head.data.large(None).rglob(names()["first"]))
    for round_ in range(5):
        project.write("note.txt", str(round_))  # a new tree with the same large file
        number = anna.submit(snapshot=project.snapshot(anna, remote=server.url()))
        os.utime(path, (0, 0))
        assert lacked(anna) == []  # as a client asks before it submits
        begun = [
            in_thread(lambda: clean(first["since"])),
            in_thread(lambda number=number: prepare(head, number)),
        ]
        for done in begun:
            done()
        assert anna.job(number)["state"] == "waiting", anna.job(number)["reason"]
        tree = head.data.attempt(number, 1) / "src"
        assert (tree / "model.bin").read_bytes() == FIRST
        anna.stop(number)
        anna.ok(anna.delete(f"/jobs/{number}"))
