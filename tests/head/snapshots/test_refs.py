"""A branch, tag or commit of a remote as a snapshot."""

from pathlib import Path
from typing import Any

import pytest

from pit_server.context import Head
from tests.support.clusters.head import ONE_DATABASE, Person, Worker, prepare
from tests.support.snapshots import Project, a_project, git

pytestmark = ONE_DATABASE


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return a_project(tmp_path / "project")


def find(person: Person, project: Project, ref: str = "") -> Any:
    return person.post("/snapshots/remote", json={"remote": f"file://{project.remote}", "ref": ref})


def test_a_ref_becomes_a_job_with_its_files(head: Head, anna: Person, project: Project, node: Worker) -> None:
    old = project.commit(**{".compute": "echo old\n"})
    git(project.path, "tag", "-a", "v1", "-m", "first")
    git(project.path, "push", "--quiet", "origin", "v1")
    new = project.commit(**{".compute": "echo new\n"})
    git(project.remote, "symbolic-ref", "HEAD", "refs/heads/main")
    for ref, commit in {"main": new, "": new, "v1": old, old: old}.items():
        assert anna.ok(find(anna, project, ref))["commit"] == commit, ref
    number = anna.submit(snapshot=anna.ok(find(anna, project, "v1")), command=None)
    prepare(head, number)
    assert anna.job(number)["state"] == "waiting", anna.job(number)["reason"]
    record = anna.job(number)["snapshot"]
    assert (record["branch"], record["dirty"]) == ("v1", False)


@pytest.mark.parametrize("ref", ["nothing", "--upload-pack=touch", "a..b", "a b", "refs/../x", "x\ny"])
def test_a_ref_that_is_none_is_refused(anna: Person, project: Project, ref: str) -> None:
    project.commit(a="1")
    answer = find(anna, project, ref)
    assert answer.status_code == 422 and answer.json["code"] in ("no_such_ref", "bad_ref")
