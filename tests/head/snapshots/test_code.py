"""The code of a job: its exact tree, uncommitted changes, differences, reruns."""

import io
import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pit_server.context import Head
from tests.support.clusters.head import Person, a_snapshot, a_submission, prepare
from tests.support.snapshots import Project, a_project, git, listing

pytestmark = pytest.mark.usefixtures("node")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = a_project(tmp_path / "project")
    project.commit(**{".compute": "echo\n", "a.txt": "one\n", "sub__b.bin": bytes(range(256))})
    return project


def run(head: Head, person: Person, **fields: Any) -> int:
    number = person.submit(**fields)
    prepare(head, number)
    assert person.job(number)["state"] == "waiting", person.job(number)["reason"]
    return number


def unpack(body: bytes, folder: Path) -> Path:
    folder.mkdir()
    subprocess.run(["tar", "-xf", "-"], cwd=folder, input=body, check=True)
    return folder


def awkward(project: Project) -> None:
    """Everything a tree can contain."""
    project.write(
        ".gitattributes", "* text=auto eol=crlf ident\n*.u16 working-tree-encoding=UTF-16\nx export-ignore\n"
    )
    project.write("crlf.txt", "a\r\nb\n$Id$\n")
    project.write("x", "not exported by git archive\n")
    project.write("y.u16", "plain\n")
    project.write("empty", "")
    project.write("ünï cödé/z", "z")
    (project.path / "a.txt").chmod(0o755)
    (project.path / "link").symlink_to("/etc/passwd")
    Path(os.fsdecode(os.fsencode(project.path) + b"/latin-\xe9")).write_bytes(b"\xe9\0")
    project.write("long/" + "n" * 200 + "/" + "m" * 200, "deep")


def test_the_tree_that_ran_and_the_download_are_byte_identical_to_the_project(
    head: Head, anna: Person, project: Project, tmp_path: Path
) -> None:
    awkward(project)
    number = run(head, anna, snapshot=raw_snapshot(project, anna))
    wanted = listing(project.path)
    assert listing(head.data.attempt(number, 1) / "src") == wanted
    answer = anna.get(f"/jobs/{number}/code")
    assert answer.mimetype == "application/x-tar"
    assert listing(unpack(answer.data, tmp_path / "back")) == wanted
    with tarfile.open(fileobj=io.BytesIO(answer.data)) as tar:
        modes = {os.fsencode(info.name): info.mode for info in tar}
    assert modes[b"a.txt"] == 0o755
    assert modes[b"latin-\xe9"] == 0o644


def raw_snapshot(project: Project, person: Person) -> dict[str, Any]:
    """The git hash of a directory's files, as the client computes it."""
    folder = project.path / ".git" / "info"
    folder.mkdir(exist_ok=True)
    (folder / "attributes").write_text("* -text !eol !ident !working-tree-encoding\n")
    return project.snapshot(person, whole=True)


def test_the_uncommitted_part_is_a_diff_that_git_applies(head: Head, anna: Person, project: Project) -> None:
    project.write("a.txt", "two\n")
    project.write("new.bin", b"\0\1\2" * 50)
    number = run(head, anna, snapshot=project.snapshot(anna))
    answer = anna.get(f"/jobs/{number}/diff")
    assert answer.mimetype == "text/x-diff"
    wanted = listing(project.path)
    git(project.path, "checkout", "--quiet", "--", "a.txt")
    (project.path / "new.bin").unlink()
    subprocess.run(["git", "apply", "-"], cwd=project.path, input=answer.data, check=True)
    assert listing(project.path) == wanted
    found = anna.get(f"/jobs/{number}/diff?stat=yes").json
    assert found == {
        "files": 2,
        "added": 1,
        "removed": 1,
        "changes": [
            {"path": "a.txt", "added": 1, "removed": 1},
            {"path": "new.bin", "added": None, "removed": None},
        ],
    }
    snapshot = anna.job(number)["snapshot"]
    assert (snapshot["dirty"], snapshot["diff_files"], snapshot["diff_added"]) == (True, 2, 1)


def test_without_their_bytes_binary_files_are_one_line(head: Head, anna: Person, project: Project) -> None:
    project.write("sub/b.bin", "\0changed")
    number = run(head, anna, snapshot=project.snapshot(anna))
    whole, short = (anna.get(f"/jobs/{number}/diff?binary={each}").data for each in ("yes", "no"))
    assert b"GIT binary patch" in whole
    assert short.splitlines()[-1] == b"Binary files a/sub/b.bin and b/sub/b.bin differ"


def test_a_clean_project_has_no_diff(head: Head, anna: Person, project: Project) -> None:
    number = run(head, anna, snapshot=project.snapshot(anna))
    assert anna.get(f"/jobs/{number}/diff").data == b""
    assert anna.job(number)["snapshot"]["dirty"] is False


def test_two_jobs_are_compared_across_the_stores_of_their_users(
    head: Head, anna: Person, a_user: Callable[..., Person], a_group: Callable[..., None], project: Project
) -> None:
    berta = a_user("berta")
    a_group("lab", "anna", "berta")
    first = run(head, anna, snapshot=project.snapshot(anna))
    project.write("a.txt", "two\n")
    second = run(head, berta, snapshot=project.snapshot(berta, whole=True, remote=None))
    assert anna.get(f"/jobs/{first}/diff?to={second}").status_code == 404
    berta.ok(berta.put(f"/jobs/{second}/groups/lab"))
    assert b"-one\n+two\n" in anna.get(f"/jobs/{first}/diff?to={second}").data
    assert anna.get(f"/jobs/{second}/diff?to={first}&stat=yes").json["files"] == 1


def test_a_job_is_run_again_with_the_same_code(head: Head, anna: Person, project: Project) -> None:
    first = run(head, anna, command=None, snapshot=project.snapshot(anna))
    project.remote.rename(project.remote.with_name("gone"))
    second = run(head, anna, command=None, snapshot=None, reruns=first)
    record = anna.job(second)
    assert (record["reruns"], record["snapshot"]["tree"]) == (first, anna.job(first)["snapshot"]["tree"])
    assert listing(head.data.attempt(second, 1) / "src") == listing(project.path)


def test_another_users_job_can_be_rerun_only_if_visible(
    head: Head, anna: Person, a_user: Callable[..., Person], a_group: Callable[..., None], project: Project
) -> None:
    berta = a_user("berta")
    a_group("lab", "anna", "berta")
    first = run(head, anna, snapshot=project.snapshot(anna))
    assert berta.post("/jobs", json=a_submission(snapshot=None, reruns=first)).status_code == 404
    anna.ok(anna.put(f"/jobs/{first}/groups/lab"))
    second = run(head, berta, snapshot=None, reruns=first)
    assert listing(head.data.attempt(second, 1) / "src") == listing(project.path)
    third = run(head, berta, snapshot=None, reruns=second)
    assert berta.get(f"/jobs/{third}/code").status_code == 200


def test_missing_code_has_a_clear_error(head: Head, anna: Person, project: Project) -> None:
    number = anna.submit(snapshot=project.snapshot(anna))
    assert (
        anna.post("/jobs", json=a_submission(snapshot=None, reruns=number)).json["code"] == "still_preparing"
    )
    anna.stop(number)
    for path in ("code", "diff"):
        answer = anna.get(f"/jobs/{number}/{path}")
        assert (answer.status_code, answer.json["message"]) == (
            410,
            f"the head does not have the code of job {number}",
        )
    assert anna.post("/jobs", json=a_submission(snapshot=None, reruns=number)).status_code == 409


def test_the_code_of_another_users_job_is_hidden(
    head: Head, anna: Person, a_user: Callable[..., Person]
) -> None:
    number = run(head, anna, snapshot=a_snapshot())
    berta = a_user("berta")
    for path in ("code", "diff", "diff?stat=yes"):
        assert berta.get(f"/jobs/{number}/{path}").status_code == 404
    assert anna.get(f"/jobs/{number}/code").status_code == 200
