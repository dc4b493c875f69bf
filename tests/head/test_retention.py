"""How long code is kept: as long as a job needs it, and no object goes that another job uses."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pit_server.head import Head
from pit_server.services.retention import DAY_S, Retention
from pit_server.services.sources import Sources
from pit_server.settings import Settings
from tests.head.cluster import Person, prepare
from tests.head.projects import Project, a_project, listing

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
        """Twice, a day apart: what is unneeded goes only when it has been so for a day."""
        retention.clean(now=now)
        retention.clean(now=now + DAY_S)

    return clean


def run(head: Head, person: Person, project: Project, **fields: object) -> int:
    number = person.submit(snapshot=project.snapshot(person, **fields))
    prepare(head, number)
    assert person.job(number)["state"] == "waiting", person.job(number)["reason"]
    return number


def test_the_code_of_an_ended_job_goes_after_the_days_that_are_set(
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


def test_a_mirror_that_shrinks_takes_nothing_from_who_borrowed_of_it(
    head: Head, anna: Person, project: Project, clean: Callable[..., None]
) -> None:
    first = run(head, anna, project)
    files = listing(project.path)
    project.write("c", "three\n")
    tree = project.tree()
    # Its base is not named: nothing but the store itself knows what it took from the mirror.
    lacking = anna.post(
        "/snapshots/lacking", json={"objects": project.objects(tree), "remote": str(project.remote)}
    )
    pack = anna.upload(project.pack_of(lacking.json["objects"]))
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


def test_mirrors_that_an_admin_deleted_are_noticed_and_all_is_asked_for_anew(
    head: Head, anna: Person, project: Project
) -> None:
    project.write("c", "three\n")
    first = run(head, anna, project, commit=None, committed=None)
    for mirror in head.data.mirrors().glob("*.git"):
        mirror.rename(head.data.root / "trash" / mirror.name)
    again = anna.submit(snapshot=None, reruns=first)
    prepare(head, again)
    assert anna.job(again)["outcome"] == "failed"
    assert anna.post("/snapshots/offer", json={"tree": project.tree()}).json["complete"] is False
    assert anna.get(f"/jobs/{first}/code").status_code == 410
    run(head, anna, project)
    assert anna.get(f"/jobs/{first}/code").status_code == 200
