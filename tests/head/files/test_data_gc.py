"""What the head tidies up by itself: old jobs, old trash, uploads that were given up."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import delete
from sqlalchemy.exc import DBAPIError

from pit_protocol.durations import DAY_S
from pit_protocol.states import JobState, Outcome
from pit_protocol.system.retention_clock import RetentionClock
from pit_server.app import create_app
from pit_server.background.data_gc import DataGc
from pit_server.background.purge import Purge
from pit_server.context import Head
from pit_server.db.models import Audit, Discard, Job
from pit_server.services import audit
from pit_server.store.files import listing
from pit_server.store.files.disk_usage import measure
from pit_server.store.files.domain_files import Domain
from tests.support.clusters.head import Person
from tests.support.domain_files import home, names, route, send


def tidy(head: Head, **settings: int) -> float:
    again_s = DataGc(head.database, head.data, head.quotas, replace(head.settings, **settings), head.clock)()
    Purge(head.database, head.data)()
    return again_s


@pytest.fixture
def an_ended_job(head: Head, anna: Person) -> Callable[[float], int]:
    """A job with a directory that ended so many days ago."""

    def build(days: float) -> int:
        number = anna.submit()
        directory = head.data.attempt(number, 1)
        (directory / "keep").mkdir(parents=True)
        (directory / "keep" / "model").write_text("weights")
        with head.database.write() as session:
            job = session.get(Job, number)
            assert job is not None
            job.state, job.outcome = JobState.ENDED, Outcome.SUCCEEDED
            job.since = time.time() - days * DAY_S
        return number

    return build


@pytest.fixture
def node(a_node: Callable[..., object]) -> object:
    return a_node()


@pytest.mark.usefixtures("node")
class TestLimits:
    def test_of_too_many_ended_jobs_the_oldest_go_to_the_trash(
        self, head: Head, anna: Person, an_ended_job: Callable[[float], int]
    ) -> None:
        first, second, third = (an_ended_job(1) for _ in range(3))
        anna.ok(anna.patch(f"/jobs/{first}", keep="yes"))
        tidy(head, history_jobs=1)
        assert [anna.get(f"/jobs/{number}").status_code for number in (first, second, third)] == [
            200,
            404,
            200,
        ]
        [entry] = anna.ok(anna.get("/trash"))["trash"]
        assert (entry["domain"], entry["kind"], entry["by"]) == (f"job:{second}", "job", "head")

    def test_of_too_many_entries_in_the_trash_the_oldest_are_deleted(
        self, head: Head, anna: Person, app: Flask
    ) -> None:
        anna.app = create_app(replace(head, settings=replace(head.settings, trash_entries=2)))
        for name in (b"a", b"b", b"c"):
            anna.ok(send(anna, "home", name, b"x"))
            anna.ok(anna.delete(route("home", name)))
        assert [entry["name"] for entry in anna.ok(anna.get("/trash"))["trash"]] == ["c", "b"]
        Purge(head.database, head.data)()
        assert len(list(head.data.trash.iterdir())) == 2

    def test_of_the_audit_only_old_rows_can_be_deleted(self, head: Head, root: Person) -> None:
        with head.database.write() as session:
            for days in (800, 3, 2, 1):
                audit.note(session, "-", "login", f"days:{days}", now=time.time() - days * DAY_S)
        tidy(head)
        assert listed(root) == ["days:1", "days:2", "days:3"]
        tidy(head, audit_rows=2)
        assert listed(root) == ["days:1", "days:2"]
        with pytest.raises(DBAPIError, match="append-only"), head.database.write() as session:
            session.execute(delete(Audit))
        assert listed(root) == ["days:1", "days:2"]


def listed(root: Person) -> list[str]:
    return [row["object"] for row in root.ok(root.get("/audit"))["entries"]]


@pytest.mark.usefixtures("node")
class TestJobs:
    def test_old_directories_go_to_the_trash_and_come_back(
        self, head: Head, anna: Person, an_ended_job: Callable[[float], int]
    ) -> None:
        old, new = an_ended_job(31), an_ended_job(29)
        assert tidy(head, job_days=30) == DAY_S
        assert anna.get(route(str(old))).json["code"] == "no_directory"
        assert names(anna, str(new)) == ["keep"]
        [row] = anna.ok(anna.get("/trash"))["trash"]
        assert (row["domain"], row["name"], row["by"]) == (f"job:{old}", "", "head")
        anna.ok(anna.post(f"/trash/{row['id']}/restore"))
        assert anna.get(route(str(old), b"keep/model")).data == b"weights"

    def test_what_is_to_be_kept_is_kept(
        self, head: Head, anna: Person, an_ended_job: Callable[[float], int]
    ) -> None:
        number = an_ended_job(1000)
        assert anna.ok(anna.patch(f"/jobs/{number}", keep="yes"))["keep"] is True
        tidy(head, job_days=1)
        assert names(anna, str(number)) == ["keep"]

    def test_without_the_setting_nothing_goes(
        self, head: Head, anna: Person, an_ended_job: Callable[[float], int]
    ) -> None:
        number = an_ended_job(1000)
        tidy(head)
        assert names(anna, str(number)) == ["keep"]

    def test_others_that_see_a_job_do_not_restore_it(
        self,
        head: Head,
        anna: Person,
        a_user: Callable[..., Person],
        a_group: Callable[..., None],
        an_ended_job: Callable[[float], int],
    ) -> None:
        bert = a_user("bert")
        a_group("lab", "anna", "bert")
        number = an_ended_job(10)
        anna.ok(anna.put(f"/jobs/{number}/groups/lab"))
        tidy(head, job_days=1)
        assert bert.ok(bert.get("/trash"))["trash"] == []


def test_trash_is_deleted_for_good_when_its_time_is_over(head: Head, anna: Person) -> None:
    anna.ok(send(anna, "home", b"x", b"x"))
    gone = anna.ok(anna.delete(route("home", b"x")))
    old = head.data.trash / f"home-removed-{time.time_ns() - int(40 * DAY_S * 1e9)}"
    old.mkdir()
    tidy(head, trash_days=30)
    assert not old.exists()
    assert len(list(head.data.trash.iterdir())) == 1
    tidy(head, trash_days=0)  # never
    assert len(list(head.data.trash.iterdir())) == 1
    age(head, gone["id"], 31)
    tidy(head, trash_days=30)
    assert list(head.data.trash.iterdir()) == []
    assert anna.post(f"/trash/{gone['id']}/restore").status_code == 404


def test_a_clock_that_jumps_ahead_deletes_nothing(head: Head, anna: Person, root: Person) -> None:
    anna.ok(send(anna, "home", b"x", b"x"))
    gone = anna.ok(anna.delete(route("home", b"x")))
    head.clock.now()
    jumped = RetentionClock(head.data.clock, wall=lambda: time.time() + 400 * DAY_S)
    settings = replace(head.settings, trash_days=30, job_days=1)
    DataGc(head.database, head.data, head.quotas, settings, jumped)()
    assert [entry["id"] for entry in anna.ok(anna.get("/trash"))["trash"]] == [gone["id"]]
    jumped.accept()  # an admin says that it is right
    DataGc(head.database, head.data, head.quotas, settings, jumped)()
    assert anna.ok(anna.get("/trash"))["trash"] == []


def test_admins_are_told_of_a_jump(head: Head, anna: Person, root: Person) -> None:
    assert root.ok(root.get("/status"))["notices"] == []
    RetentionClock(head.data.clock, wall=lambda: time.time() - 400 * DAY_S).accept()
    [notice] = root.ok(root.get("/status"))["notices"]
    assert "jumped 400.0 days ahead: for 3.0 days" in notice
    assert "`pit-head accept-clock`" in notice
    assert anna.ok(anna.get("/status"))["notices"] == []


def age(head: Head, number: int, days: float) -> None:
    with head.database.write() as session:
        row = session.get(Discard, number)
        assert row is not None
        row.at -= days * DAY_S


def test_uploads_that_were_given_up_are_swept_and_young_ones_are_not(head: Head, anna: Person) -> None:
    for name in (b"old", b"young"):
        query = {"part": "0123456789abcdef", "offset": 0}
        assert anna.call("PUT", route("home", name), data=b"x", query_string=query).status_code == 202
    first, second = sorted(home(head).iterdir())
    os.utime(first, (0, 0))
    tidy(head)
    assert list(home(head).iterdir()) == [second]


def test_what_a_killed_head_was_writing_is_swept_by_the_next_one(head: Head, anna: Person) -> None:
    anna.ok(send(anna, "home", b"x", b"x"))
    folder = home(head)
    with Domain(folder, "home") as domain, domain.replacing("held"):
        [held] = folder.glob(".pit-new-*.part")
        (folder / ".pit-new-dead.part").touch()
        (folder / ".pit-new-link.part").symlink_to("/", target_is_directory=True)
        (folder / ".pit-new-directory.part").mkdir()  # a user's own
        for path in folder.iterdir():
            os.utime(path, (0, 0), follow_symlinks=False)
        (folder / ".pit-new-young.part").touch()
        future = time.time() + 60
        os.utime(folder / ".pit-new-young.part", (future, future))
        tidy(head)
        left = {path.name for path in folder.iterdir()}
    assert left == {"x", held.name, ".pit-new-directory.part", ".pit-new-young.part"}
    assert (folder / "held").exists()


@pytest.mark.threat("S49")
def test_a_sparse_file_counts_by_what_it_takes_and_is_listed_by_its_size(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**40)
    size, files = measure(tmp_path)
    assert (size < 1_000_000, files) == (True, 1)
    with Domain(tmp_path, "home") as domain:
        assert [entry.size for _, entry in listing.walk(domain, "")] == [2**40]


@pytest.mark.skipif(os.geteuid() != 0, reason="to be two users takes root")
@pytest.mark.threat("S50")
def test_nobody_makes_a_hard_link_to_anothers_file(tmp_path: Path) -> None:
    """The kernel refuses it, because files belong to their users."""
    for name, uid in (("anna", 200_001), ("bert", 200_002)):
        (tmp_path / name).mkdir(mode=0o777)
        (tmp_path / name).chmod(0o777)
        (tmp_path / name / "secret").write_text("secret")
        (tmp_path / name / "secret").chmod(0o600)
        os.chown(tmp_path / name / "secret", uid, uid)
    tmp_path.chmod(0o711)  # bert is in it already; what is above does not matter
    code = "import os; os.setgid(200002); os.setuid(200002); os.link('anna/secret', 'bert/link')"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert "PermissionError" in done.stderr
    assert not (tmp_path / "bert" / "link").exists()
