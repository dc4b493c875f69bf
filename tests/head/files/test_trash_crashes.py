"""A head killed at any step of a removal, restore, expiry or purge loses no file and shows no ghost."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from pit_protocol import atomic_file
from pit_protocol.durations import DAY_S
from pit_protocol.states import JobState, Outcome
from pit_server import failpoints
from pit_server.background.data_gc import DataGc
from pit_server.background.purge import Purge
from pit_server.context import Head
from pit_server.db.models import Job
from pit_server.services.files import trash
from tests.support.clusters.head import Person
from tests.support.deep_directory import make_deep
from tests.support.domain_files import home, names, route, send

FILES = [f"file{number}".encode() for number in range(6)]


class Killed(BaseException):
    """No code of the head runs after it, but the rollback that a database does by itself."""


@contextmanager
def killed_at(label: str, count: int = 1) -> Iterator[None]:
    """Kill the head in this block, when it reaches a point for that many times."""
    reached = 0

    def crash(point: str) -> None:
        nonlocal reached
        reached += point == label
        if reached == count:
            raise Killed

    before = failpoints.install(crash)
    try:
        with pytest.raises(Killed):
            yield
    finally:
        failpoints.install(before)


def restart(head: Head, **settings: int) -> None:
    """What a head does at its start."""
    trash.reconcile(head.database, head.data)
    DataGc(head.database, head.data, head.quotas, replace(head.settings, **settings), head.clock)()
    Purge(head.database, head.data)()


def entries(person: Person) -> list[dict[str, Any]]:
    return list(person.ok(person.get("/trash"))["trash"])


def check_each_is_in_one_place(head: Head, anna: Person) -> None:
    """Each file is there or can be restored, and the trash has nothing else."""
    there, listed = names(anna, "home"), entries(anna)
    assert sorted([*there, *(entry["name"] for entry in listed)]) == [name.decode() for name in FILES]
    assert len(list(head.data.trash.iterdir())) == len(listed)
    for entry in listed:
        anna.ok(anna.post(f"/trash/{entry['id']}/restore"))
    assert names(anna, "home") == [name.decode() for name in FILES]


@pytest.fixture
def files(anna: Person) -> None:
    for name in FILES:
        anna.ok(send(anna, "home", name, name))


@pytest.mark.usefixtures("files")
class TestFiles:
    @pytest.mark.parametrize("label", ["trash-recorded", "trash-moved"])
    def test_removal(self, head: Head, anna: Person, label: str) -> None:
        with killed_at(label, 4):
            for name in FILES:
                anna.delete(route("home", name))
        restart(head)
        check_each_is_in_one_place(head, anna)

    def test_restore(self, head: Head, anna: Person) -> None:
        for name in FILES:
            anna.ok(anna.delete(route("home", name)))
        with killed_at("restore-moved", 4):
            for entry in entries(anna):
                anna.post(f"/trash/{entry['id']}/restore")
        restart(head)
        check_each_is_in_one_place(head, anna)

    def test_purge(self, head: Head, anna: Person) -> None:
        """What was purged never comes back, and its files go."""
        for name in FILES:
            anna.ok(anna.delete(route("home", name)))
        for entry in entries(anna)[:4]:
            anna.ok(anna.delete(f"/trash/{entry['id']}"))
        with killed_at("purge-deleted", 2):
            Purge(head.database, head.data)()
        restart(head)
        assert sorted(entry["name"] for entry in entries(anna)) == ["file0", "file1"]
        assert len(list(head.data.trash.iterdir())) == 2

    def test_a_disk_that_fails_after_the_move_keeps_the_entry(
        self, head: Head, anna: Person, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(_descriptor: int) -> None:
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            assert anna.delete(route("home", FILES[0])).status_code == 503
        check_each_is_in_one_place(head, anna)

    def test_what_is_deleted_for_good_takes_no_other_with_it(
        self, head: Head, anna: Person, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in FILES:
            anna.ok(anna.delete(route("home", name)))
        [first, *_] = entries(anna)
        for entry in entries(anna):
            anna.ok(anna.delete(f"/trash/{entry['id']}"))
        unlink = os.unlink

        def refuse_first(path: str, **options: Any) -> None:
            if trash_name(head, first["id"]) == path:
                raise PermissionError(1, "Operation not permitted")
            unlink(path, **options)

        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", refuse_first)
            Purge(head.database, head.data)()
        assert [path.name for path in head.data.trash.iterdir()] == [trash_name(head, first["id"])]
        Purge(head.database, head.data)()
        assert list(head.data.trash.iterdir()) == []


def trash_name(head: Head, number: int) -> str:
    with head.database.read() as session:
        row = session.get(trash.Discard, number)
        assert row is not None
        return row.place


@pytest.fixture
def old_jobs(head: Head, anna: Person, a_node: Callable[..., object]) -> list[int]:
    a_node()
    numbers = [anna.submit() for _ in range(3)]
    with head.database.write() as session:
        for number in numbers:
            (head.data.attempt(number, 1) / "keep").mkdir(parents=True)
            job = session.get(Job, number)
            assert job is not None
            job.state, job.outcome, job.since = JobState.ENDED, Outcome.SUCCEEDED, time.time() - 9 * DAY_S
    return numbers


class TestExpiry:
    @pytest.mark.parametrize("label", ["trash-recorded", "trash-moved"])
    def test_a_killed_head(self, head: Head, anna: Person, old_jobs: list[int], label: str) -> None:
        with killed_at(label, 2):
            restart(head, job_days=1)
        restart(head, job_days=0)
        self.check(head, anna, old_jobs)

    def test_one_that_cannot_be_moved(
        self, head: Head, anna: Person, old_jobs: list[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        move = atomic_file.move

        def refuse_second(source: Any, target: Any) -> None:
            if source == head.data.job(old_jobs[1]):
                raise PermissionError(1, "Operation not permitted")
            move(source, target)

        monkeypatch.setattr(atomic_file, "move", refuse_second)
        restart(head, job_days=1)
        assert [head.data.job(number).exists() for number in old_jobs] == [False, True, False]
        self.check(head, anna, old_jobs)

    def check(self, head: Head, anna: Person, old_jobs: list[int]) -> None:
        there = [number for number in old_jobs if head.data.job(number).exists()]
        listed = entries(anna)
        assert sorted([*there, *(int(entry["domain"][4:]) for entry in listed)]) == old_jobs
        for entry in listed:
            anna.ok(anna.post(f"/trash/{entry['id']}/restore"))
        assert all((head.data.attempt(number, 1) / "keep").is_dir() for number in old_jobs)


@pytest.mark.parametrize("label", ["group-recorded", "restore-moved"])
def test_groups(head: Head, root: Person, a_group: Callable[..., None], label: str) -> None:
    a_group("lab")
    root.ok(send(root, "group:lab", b"x", b"x"))
    if label == "group-recorded":
        with killed_at(label):
            root.delete("/groups/lab")
        [entry] = entries(root)
    else:
        entry = root.ok(root.delete("/groups/lab"))["trash"]
        with killed_at(label):
            root.post(f"/trash/{entry['id']}/restore")
    restart(head)
    assert not head.data.group("lab").exists()
    root.ok(root.post(f"/trash/{entry['id']}/restore"))
    assert names(root, "group:lab") == ["x"]


def test_a_home_with_a_very_deep_directory_stops_nobody(head: Head, anna: Person) -> None:
    anna.ok(send(anna, "home", b"x", b"x"))
    make_deep(home(head) / "d")
    restart(head)
    anna.ok(anna.get("/usage"))
    entry = anna.ok(anna.delete(route("home", b"d")))
    anna.ok(anna.delete(f"/trash/{entry['id']}"))
    restart(head)
    assert list(head.data.trash.iterdir()) == []
