"""Retention of code: kept as long as any job needs it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pit_protocol.durations import DAY_S
from pit_protocol.system import tree_delete
from pit_server.context import Head
from pit_server.services.snapshots.retention import Retention
from pit_server.services.snapshots.sources import Sources
from pit_server.settings import Settings
from tests.support.clusters.head import Person, a_submission, prepare
from tests.support.snapshots import Project, a_project, listing

LATER = 4_000_000_000.0

pytestmark = pytest.mark.usefixtures("node")


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, snapshot_days=30.0)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = a_project(tmp_path / "project")
    project.commit(a="one\n", b="two\n")
    return project


@pytest.fixture
def clean(head: Head) -> Callable[..., None]:
    retention = Retention(head.database, Sources(head.data, head.settings))

    def clean(now: float) -> None:
        """Run twice, a day apart: refs are deleted only after a day unneeded."""
        retention.clean(now=now)
        retention.clean(now=now + DAY_S)

    return clean


def run(head: Head, person: Person, project: Project, **fields: object) -> int:
    number = person.submit(snapshot=project.snapshot(person, **fields))
    prepare(head, number)
    assert person.job(number)["state"] == "waiting", person.job(number)["reason"]
    return number


def test_the_code_of_an_ended_job_is_deleted_after_the_set_days(
    head: Head, anna: Person, project: Project, clean: Callable[..., None]
) -> None:
    number = run(head, anna, project)
    clean(LATER)
    assert anna.get(f"/jobs/{number}/code").status_code == 200  # it has not ended
    anna.stop(number)
    since = anna.job(number)["since"]
    clean(since + 29 * DAY_S)
    assert anna.get(f"/jobs/{number}/code").status_code == 200
    clean(since + 31 * DAY_S)
    assert anna.get(f"/jobs/{number}/code").status_code == 410


def test_a_submission_without_an_offer_is_accepted_only_if_all_is_here(
    head: Head, anna: Person, root: Person, project: Project
) -> None:
    first = run(head, anna, project)
    snapshot = {**project.snapshot(anna), "base": None, "pack": None}
    second = anna.submit(snapshot=snapshot, only_if_here=True)
    prepare(head, second)
    assert anna.job(second)["state"] == "waiting"
    assert listing(head.data.attempt(second, 1) / "src") == listing(head.data.attempt(first, 1) / "src")
    refused = root.post("/jobs", json=a_submission(snapshot=snapshot, only_if_here=True))
    assert (refused.status_code, refused.json["code"]) == (409, "snapshot_incomplete")
    project.write("c", "three\n")
    changed = {**snapshot, "tree": project.tree()}
    refused = anna.post("/jobs", json=a_submission(snapshot=changed, only_if_here=True))
    assert (refused.status_code, refused.json["code"]) == (409, "snapshot_incomplete")


def test_what_another_job_uses_stays(
    head: Head, anna: Person, project: Project, clean: Callable[..., None]
) -> None:
    first, second = (run(head, anna, project) for _ in range(2))
    for number in (first, second):
        anna.stop(number)
    anna.ok(anna.delete(f"/jobs/{first}"))
    clean(anna.job(second)["since"])
    assert anna.get(f"/jobs/{second}/code").status_code == 200
    anna.ok(anna.delete(f"/jobs/{second}"))
    clean(LATER)
    store = Sources(head.data, head.settings).store(1)
    assert store.git.run("for-each-ref") == ""


def test_pruning_a_mirror_does_not_affect_stores_that_use_it(
    head: Head, anna: Person, project: Project, clean: Callable[..., None]
) -> None:
    first = run(head, anna, project)
    files = listing(project.path)
    project.write("c", "three\n")
    tree = project.tree()
    # The base is not named: only the store knows which objects of the mirror it uses.
    missing = anna.post(
        "/snapshots/missing", json={"objects": project.objects(tree), "remote": str(project.remote)}
    )
    pack = anna.upload(project.pack_of(missing.json["objects"]))
    second = run(head, anna, project, base=None, commit=None, committed=None, remote=None, pack=pack)
    anna.stop(first)
    anna.ok(anna.delete(f"/jobs/{first}"))
    clean(LATER)
    mirror = next(head.data.mirrors().glob("*.git"))
    assert not (mirror / "objects/info/alternates").exists()
    assert Sources(head.data, head.settings).at(mirror).git.run("for-each-ref") == ""
    project.remote.rename(project.remote.with_name("gone"))
    again = anna.submit(snapshot=None, reruns=second)
    prepare(head, again)
    assert listing(head.data.attempt(again, 1) / "src").items() >= files.items()


def test_deleted_mirrors_are_detected_and_fetched_again(head: Head, anna: Person, project: Project) -> None:
    project.write("c", "three\n")
    first = run(head, anna, project, commit=None, committed=None)
    for mirror in head.data.mirrors().glob("*.git"):
        mirror.rename(head.data.root / "trash" / mirror.name)
    cached = anna.submit(snapshot=None, reruns=first)
    prepare(head, cached)
    assert anna.job(cached)["state"] == "waiting"  # from the checkout of the first
    assert tree_delete.delete(head.data.caches() / "trees")
    again = anna.submit(snapshot=None, reruns=first)
    prepare(head, again)
    assert anna.job(again)["outcome"] == "failed"
    assert anna.post("/snapshots/offer", json={"tree": project.tree()}).json["complete"] is False
    assert anna.get(f"/jobs/{first}/code").status_code == 410
    run(head, anna, project)
    assert anna.get(f"/jobs/{first}/code").status_code == 200
