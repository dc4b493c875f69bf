"""Removed jobs, users and groups: in the trash with all they have, and back, or deleted for good."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pit_protocol.durations import DAY_S
from pit_protocol.states import JobState, Outcome
from pit_server.background.data_gc import DataGc
from pit_server.background.purge import Purge
from pit_server.context import Head
from pit_server.db.models import Discard, Job
from pit_server.services.files import removed, trash
from pit_server.services.snapshots.retention import Retention
from pit_server.services.snapshots.sources import Sources
from tests.support.clusters.head import Person, prepare
from tests.support.domain_files import home, names, route, send
from tests.support.snapshots import Project, a_project

LATER = 4_000_000_000.0


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = a_project(tmp_path / "project")
    project.commit(a="one\n")
    return project


@pytest.fixture
def job(head: Head, anna: Person, project: Project, a_node: Callable[..., object]) -> int:
    """An ended job of anna's with code, a file and a log."""
    a_node()
    number = anna.submit(snapshot=project.snapshot(anna), variables={"LR": "0.1"})
    prepare(head, number)
    anna.ok(anna.stop(number))
    (head.data.attempt(number, 1) / "keep").mkdir(exist_ok=True)
    (head.data.attempt(number, 1) / "keep" / "model").write_text("weights")
    head.data.logs(number).mkdir(exist_ok=True)
    (head.data.logs(number) / "kept").write_text("a line")
    return number


def restart(head: Head, **settings: int) -> None:
    """What a head does at its start and once a day."""
    trash.reconcile(head.database, head.data)
    DataGc(head.database, head.data, head.quotas, replace(head.settings, **settings), head.clock)()
    Purge(head.database, head.data)()


def entries(person: Person) -> list[dict[str, Any]]:
    return list(person.ok(person.get("/trash"))["trash"])


def remove(person: Person, path: str) -> int:
    return int(person.ok(person.delete(path))["trash"]["id"])


class TestJobs:
    def test_who_may_restore_a_removed_job_learns_where_it_is(
        self, anna: Person, a_user: Callable[..., Person], job: int
    ) -> None:
        number = remove(anna, f"/jobs/{job}")
        told = anna.get(f"/jobs/{job}/log").json
        assert told["message"] == f"job {job} is in the trash"
        assert f"`pit restore job:{job}`" in told["hint"]
        assert a_user("bob").get(f"/jobs/{job}").json["message"] == f"there is no job {job}"
        anna.ok(anna.delete(f"/trash/{number}"))
        assert anna.get(f"/jobs/{job}").json["message"] == f"there is no job {job}"

    def test_a_restored_job_has_record_log_files_and_code(self, head: Head, anna: Person, job: int) -> None:
        before = anna.job(job)
        number = remove(anna, f"/jobs/{job}")
        assert anna.get(f"/jobs/{job}").status_code == 404
        Retention(head.database, Sources(head.data, head.settings)).clean(now=LATER)
        Retention(head.database, Sources(head.data, head.settings)).clean(now=LATER + DAY_S)
        restart(head)
        anna.ok(anna.post(f"/trash/{number}/restore"))
        assert anna.job(job) == before
        assert anna.get(route(str(job), b"keep/model")).data == b"weights"
        assert (head.data.logs(job) / "kept").read_text() == "a line"
        assert anna.get(f"/jobs/{job}/code").status_code == 200
        assert anna.get(f"/jobs/{job}/diff").status_code == 200
        again = anna.submit(snapshot=None, reruns=job)
        prepare(head, again)
        assert anna.job(again)["state"] == "waiting"

    def test_the_entry_says_what_it_is_and_until_when(self, head: Head, anna: Person, job: int) -> None:
        remove(anna, f"/jobs/{job}")
        [entry] = entries(anna)
        assert (entry["kind"], entry["domain"], entry["by"]) == ("job", f"job:{job}", "anna")
        assert entry["until"] == entry["at"] + head.settings.trash_days * DAY_S

    def test_it_is_found_by_its_name_however_much_was_removed_since(
        self, anna: Person, job: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        number = remove(anna, f"/jobs/{job}")
        anna.ok(send(anna, "home", b"x", b"x"))
        anna.ok(anna.delete(route("home", b"x")))
        monkeypatch.setattr(trash, "MOST", 1)
        assert [entry["domain"] for entry in entries(anna)] == ["user:anna"]
        found = anna.ok(anna.get("/trash", query_string={"kind": "job", "domain": f"job:{job}"}))
        assert [entry["id"] for entry in found["trash"]] == [number]

    def test_only_who_may_remove_it_sees_and_restores_it(
        self,
        anna: Person,
        root: Person,
        job: int,
        a_user: Callable[..., Person],
        a_group: Callable[..., None],
    ) -> None:
        berta = a_user("berta")
        a_group("lab", "anna", "berta")
        anna.ok(anna.put(f"/jobs/{job}/groups/lab"))
        number = remove(anna, f"/jobs/{job}")
        assert entries(berta) == []
        assert berta.post(f"/trash/{number}/restore").status_code == 404
        assert berta.delete(f"/trash/{number}").status_code == 404
        root.ok(root.post(f"/trash/{number}/restore"))
        assert berta.job(job)["groups"] == ["lab"]

    def test_purge_deletes_files_log_and_code(
        self, head: Head, anna: Person, root: Person, project: Project, job: int
    ) -> None:
        number = remove(anna, f"/jobs/{job}")
        anna.ok(anna.delete(f"/trash/{number}"))
        assert head.data.job(job).exists()  # a large one would take longer than a request may
        Purge(head.database, head.data)()
        assert not head.data.job(job).exists()
        assert not head.data.logs(job).exists()
        retention = Retention(head.database, Sources(head.data, head.settings))
        retention.clean(now=LATER)
        retention.clean(now=LATER + DAY_S)
        assert Sources(head.data, head.settings).store(1).git.run("for-each-ref") == ""
        assert entries(root) == []
        assert anna.post(f"/trash/{number}/restore").status_code == 404
        with head.database.read() as session:
            row = session.get(Job, job)
            assert row is not None
            assert (row.title, row.variables, row.remote) == ("", {}, None)

    def test_one_empties_ones_own_trash_and_no_other(
        self, head: Head, anna: Person, root: Person, job: int, a_group: Callable[..., None]
    ) -> None:
        a_group("lab", "anna", "root")
        remove(anna, f"/jobs/{job}")
        for where in ("home", "group:lab"):
            anna.ok(send(anna, where, b"x", b"x"))
            anna.ok(anna.delete(route(where, b"x")))
        assert root.ok(root.delete("/trash"))["count"] == 0
        assert len(entries(anna)) == 3
        assert anna.ok(anna.delete("/trash"))["count"] == 2
        assert [entry["domain"] for entry in entries(anna)] == ["group:lab"]
        Purge(head.database, head.data)()
        assert not head.data.job(job).exists() and len(list(head.data.trash.iterdir())) == 1

    def test_after_its_days_it_is_deleted_for_good(self, head: Head, anna: Person, job: int) -> None:
        number = remove(anna, f"/jobs/{job}")
        restart(head, trash_days=30)
        assert head.data.job(job).exists()
        with head.database.write() as session:
            row = session.get(Discard, number)
            assert row is not None
            row.at -= 31 * DAY_S
        restart(head, trash_days=30)
        assert not head.data.job(job).exists()
        assert not head.data.logs(job).exists()
        assert entries(anna) == []

    def test_a_head_killed_while_it_purges_finishes_at_its_next_start(
        self, head: Head, anna: Person, job: int
    ) -> None:
        number = remove(anna, f"/jobs/{job}")
        with head.database.write() as session:  # killed before the files are deleted
            row = session.get(Discard, number)
            assert row is not None
            removed.scrub(session, row)
        assert entries(anna) == []
        assert anna.post(f"/trash/{number}/restore").status_code == 404
        restart(head)
        assert not head.data.job(job).exists()
        with head.database.read() as session:
            assert session.get(Discard, number) is None

    def test_files_that_expired_before_come_back_with_the_job(
        self, head: Head, anna: Person, job: int
    ) -> None:
        with head.database.write() as session:
            row = session.get(Job, job)
            assert row is not None
            row.state, row.outcome, row.since = JobState.ENDED, Outcome.SUCCEEDED, time.time() - 9 * DAY_S
        restart(head, job_days=1)
        [files] = entries(anna)
        number = remove(anna, f"/jobs/{job}")
        assert [entry["id"] for entry in entries(anna)] == [number]
        anna.ok(anna.post(f"/trash/{number}/restore"))
        anna.ok(anna.post(f"/trash/{files['id']}/restore"))
        assert anna.get(route(str(job), b"keep/model")).data == b"weights"


class TestUsers:
    def test_a_restored_user_has_home_groups_and_password(
        self, head: Head, root: Person, a_group: Callable[..., None]
    ) -> None:
        root.ok(root.put("/users/berta", full_name="Berta B.", password="correct horse", admin="yes"))
        a_group("lab", "berta")
        head.data.home("berta").mkdir()
        (head.data.home("berta") / "thesis").write_text("text")
        before = root.ok(root.get("/users/berta"))
        number = remove(root, "/users/berta")
        login = {"name": "berta", "password": "correct horse"}
        assert root.post("/login", json=login).status_code == 401
        root.ok(root.post(f"/trash/{number}/restore"))
        assert root.ok(root.get("/users/berta")) == before
        assert root.get(route("user:berta", b"thesis")).data == b"text"
        assert root.post("/login", json=login).status_code == 201

    def test_purge_deletes_the_home_and_keeps_the_name_taken(self, head: Head, root: Person) -> None:
        root.ok(root.put("/users/berta", full_name="Berta B."))
        head.data.home("berta").mkdir()
        root.ok(root.delete(f"/trash/{remove(root, '/users/berta')}"))
        Purge(head.database, head.data)()
        assert not head.data.home("berta").exists()
        assert root.put("/users/berta", full_name="Another").status_code == 409

    def test_others_than_admins_do_not_see_it(self, anna: Person, root: Person) -> None:
        root.ok(root.put("/users/berta", full_name="Berta B."))
        number = remove(root, "/users/berta")
        assert entries(anna) == []
        assert anna.post(f"/trash/{number}/restore").status_code == 404


class TestGroups:
    def test_a_restored_group_has_its_files_jobs_and_trash(
        self, head: Head, anna: Person, root: Person, job: int, a_group: Callable[..., None]
    ) -> None:
        a_group("lab", "anna")
        anna.ok(anna.put(f"/jobs/{job}/groups/lab"))
        for name in (b"kept", b"gone"):
            anna.ok(send(anna, "group:lab", name, b"x"))
        anna.ok(anna.delete(route("group:lab", b"gone")))
        root.ok(root.delete("/users/anna/groups/lab"))
        before = root.ok(root.get("/groups/lab"))
        number = remove(root, "/groups/lab")
        assert not head.data.group("lab").exists()
        root.ok(root.post(f"/trash/{number}/restore"))
        assert root.ok(root.get("/groups/lab")) == before
        assert names(root, "group:lab") == ["kept"]
        assert root.job(job)["groups"] == ["lab"]
        assert [entry["domain"] for entry in entries(root)] == ["group:lab"]

    def test_it_does_not_come_back_over_another_of_its_name(
        self, head: Head, root: Person, a_group: Callable[..., None]
    ) -> None:
        a_group("lab")
        root.ok(send(root, "group:lab", b"x", b"x"))
        number = remove(root, "/groups/lab")
        a_group("lab")
        assert names(root, "group:lab") == []
        assert root.post(f"/trash/{number}/restore").status_code == 409
        assert names(root, "group:lab") == []
        remove(root, "/groups/lab")
        root.ok(root.post(f"/trash/{number}/restore"))
        assert names(root, "group:lab") == ["x"]

    def test_purge_deletes_its_files(self, head: Head, root: Person, a_group: Callable[..., None]) -> None:
        a_group("lab")
        root.ok(send(root, "group:lab", b"x", b"x"))
        root.ok(root.delete(f"/trash/{remove(root, '/groups/lab')}"))
        Purge(head.database, head.data)()
        assert list(head.data.trash.iterdir()) == []

    def test_a_head_killed_while_it_removes_or_restores_leaves_it_in_the_trash(
        self, head: Head, root: Person, a_group: Callable[..., None]
    ) -> None:
        a_group("lab")
        root.ok(send(root, "group:lab", b"x", b"x"))
        number = remove(root, "/groups/lab")
        with head.database.read() as session:
            row = session.get(Discard, number)
            assert row is not None
        # The same is left by a removal whose move, and by a restore whose commit, did not come.
        os.rename(head.data.trash / row.place, head.data.group("lab"))
        restart(head)
        assert not head.data.group("lab").exists()
        root.ok(root.post(f"/trash/{number}/restore"))
        assert names(root, "group:lab") == ["x"]


class TestFiles:
    def test_what_a_killed_head_had_not_moved_yet_is_not_in_the_trash(self, head: Head, anna: Person) -> None:
        anna.ok(send(anna, "home", b"x", b"x"))
        with head.database.write() as session:  # killed before the move
            removed.note(session, "user:anna", "anna", now=time.time(), path="x")
        restart(head)
        assert entries(anna) == []
        assert (home(head) / "x").exists()

    def test_what_cannot_be_moved_is_not_in_the_trash(self, head: Head, anna: Person) -> None:
        anna.ok(send(anna, "home", b"x", b"x"))
        head.data.trash.rename(head.data.root / "elsewhere")
        assert anna.delete(route("home", b"x")).status_code >= 400
        (head.data.root / "elsewhere").rename(head.data.trash)
        assert entries(anna) == []
        assert names(anna, "home") == ["x"]
