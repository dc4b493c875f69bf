"""Preparing a job: its tree is exactly the user's, or the job ends with the reason."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pit_server.context import Head
from pit_server.services.snapshots.sources import Sources
from tests.support.clusters.head import ONE_DATABASE, Person, a_snapshot, prepare
from tests.support.snapshots import Project, a_project, git, listing

pytestmark = [ONE_DATABASE, pytest.mark.usefixtures("node")]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = a_project(tmp_path / "project")
    project.commit(**{".compute": "echo\n", "a.txt": "one\n", "sub__b.bin": bytes(range(256)), "old": "x\n"})
    return project


def prepared(head: Head, person: Person, **fields: Any) -> dict[str, Any]:
    number = person.submit(**{"command": None, **fields})
    prepare(head, number)
    return person.job(number)


def source(head: Head, record: dict[str, Any]) -> Path:
    return head.data.attempt(record["number"], 1) / "src"


def test_a_commit_is_checked_out_without_git_s_own_files(head: Head, anna: Person, project: Project) -> None:
    record = prepared(head, anna, snapshot=project.snapshot(anna))
    assert record["state"] == "waiting"
    assert listing(source(head, record)) == listing(project.path)
    assert not (source(head, record) / ".git").exists()
    assert (head.data.attempt(record["number"], 1) / "keep").is_dir()
    assert (head.data.root / "home/anna").is_dir()


def test_every_kind_of_change_is_checked_out(head: Head, anna: Person, project: Project) -> None:
    project.write("a.txt", "two \r\nthree")
    project.write("sub/b.bin", bytes(reversed(range(256))) * 9)
    project.write("new/ünï cödé.txt", "new\n")
    project.write("empty", "")
    (project.path / "old").unlink()
    (project.path / ".compute").chmod(0o755)
    (project.path / "link").symlink_to("/etc/passwd")
    (project.path / "sub/up").symlink_to("../a.txt")
    record = prepared(head, anna, snapshot=project.snapshot(anna))
    assert record["state"] == "waiting", record["reason"]
    tree = listing(source(head, record))
    assert tree == listing(project.path)
    assert (tree["link"], tree[".compute"][0]) == (("link", "/etc/passwd"), "program")
    assert "old" not in tree


def test_a_second_job_of_the_same_tree_does_not_need_the_remote(
    head: Head, anna: Person, project: Project
) -> None:
    snapshot = project.snapshot(anna)
    prepared(head, anna, snapshot=snapshot)
    project.remote.rename(project.remote.with_name("gone"))
    assert prepared(head, anna, snapshot=snapshot)["state"] == "waiting"


def test_an_incomplete_tree_is_refused(head: Head, anna: Person, project: Project) -> None:
    record = prepared(head, anna, snapshot=project.snapshot(anna, tree="0" * 40))
    assert (record["state"], record["outcome"]) == ("ended", "failed")
    assert "tree 000000000000 is incomplete" in record["reason"]
    assert not head.data.attempt(record["number"], 1).exists()


def test_one_missing_file_is_enough_to_refuse_a_tree(head: Head, anna: Person, project: Project) -> None:
    project.write("new.bin", b"x" * 100)
    tree = project.tree()
    blob = git(project.path, "rev-parse", f"{tree}:new.bin").decode().strip()
    body = project.pack_of([name for name in project.objects(tree) if name != blob])
    record = prepared(head, anna, snapshot=project.snapshot(anna, pack=anna.upload(body)))
    assert record["outcome"] == "failed"
    assert blob in record["reason"]
    assert anna.post("/snapshots/missing", json={"objects": [tree]}).json["objects"] == [
        tree
    ]  # nothing was stored


def test_a_commit_that_vanished_from_its_remote_fails_the_job(
    head: Head, anna: Person, project: Project
) -> None:
    snapshot = project.snapshot(anna)
    git(project.path, "checkout", "--quiet", "--orphan", "other")
    project.commit(x="y")
    git(project.remote, "reflog", "expire", "--expire=now", "--all")
    git(project.remote, "gc", "--quiet", "--prune=now")
    record = prepared(head, anna, snapshot=snapshot)
    assert record["outcome"] == "failed"
    assert f"{project.remote} no longer has commit {snapshot['commit']}" in record["reason"]


def test_an_unreachable_remote_fails_the_job_and_gits_error_is_in_the_log(
    head: Head, anna: Person, project: Project, tmp_path: Path
) -> None:
    number = anna.submit(snapshot=project.snapshot(anna))
    project.remote.rename(tmp_path / "gone")
    prepare(head, number)
    record = anna.job(number)
    assert record["outcome"] == "failed"
    assert f"the head cannot fetch from {project.remote}" in record["reason"]
    assert "`pit run --bundle`" in record["reason"]
    lines = [line["text"] for line in anna.log(number)["lines"] if line["source"] == "prepare"]
    assert [line for line in lines if "does not appear to be a git repository" in line]


def test_a_pack_replaces_the_remote(head: Head, anna: Person, project: Project) -> None:
    record = prepared(head, anna, snapshot=project.snapshot(anna, whole=True, remote=None))
    assert record["state"] == "waiting", record["reason"]
    assert listing(source(head, record)) == listing(project.path)
    assert list(head.data.uploads().glob("*/*")) == []  # it is deleted after use


def test_an_invalid_pack_or_one_without_the_commit_fails_the_job(
    head: Head, anna: Person, project: Project, tmp_path: Path
) -> None:
    other = a_project(tmp_path / "other")
    other.commit(a="x")
    for pack, words in (
        (b"PACKnot", "the pack cannot be unpacked"),
        (other.pack(), "is incomplete"),
    ):
        snapshot = project.snapshot(anna, whole=True, remote=None, pack=anna.upload(pack))
        record = prepared(head, anna, snapshot=snapshot)
        assert record["outcome"] == "failed"
        assert words in record["reason"]


def test_a_repository_without_commits_comes_as_a_pack(head: Head, anna: Person, tmp_path: Path) -> None:
    project = a_project(tmp_path / "young")
    project.write(".compute", "echo\n")
    tree = project.tree()
    record = prepared(head, anna, snapshot=a_snapshot(tree=tree, pack=anna.upload(project.pack(tree))))
    assert record["state"] == "waiting", record["reason"]
    assert list(listing(source(head, record))) == [".compute"]
    assert record["snapshot"]["dirty"] is None


def test_an_unknown_commit_is_refused_even_if_the_tree_is_known(
    head: Head, anna: Person, project: Project
) -> None:
    snapshot = project.snapshot(anna)
    assert prepared(head, anna, snapshot=snapshot)["state"] == "waiting"
    assert prepared(head, anna, snapshot={**snapshot, "commit": "f" * 40})["outcome"] == "failed"


def test_a_project_without_script_needs_commands(head: Head, anna: Person, tmp_path: Path) -> None:
    project = a_project(tmp_path / "bare")
    project.commit(a="x")
    record = prepared(head, anna, snapshot=project.snapshot(anna))
    assert record["reason"] == "the project has no .compute; add one, or give commands with `-d`"
    assert prepared(head, anna, snapshot=project.snapshot(anna), command="true")["state"] == "waiting"


@pytest.mark.threat("F04")
def test_preparing_again_after_a_crash_gives_the_same(head: Head, anna: Person, project: Project) -> None:
    snapshot = project.snapshot(anna)
    number = anna.submit(command=None, snapshot=snapshot)
    for leftover in ("1", "1.part"):
        broken = head.data.root / "jobs" / str(number) / leftover
        (broken / "src").mkdir(parents=True)
        (broken / "src/half").write_text("x")
    prepare(head, number)
    record = anna.job(number)
    assert record["state"] == "waiting"
    assert listing(source(head, record)) == listing(project.path)
    assert [path.name for path in (head.data.root / "jobs" / str(number)).iterdir()] == ["1"]


def test_a_job_stopped_while_it_is_prepared_stays_stopped(
    head: Head, anna: Person, project: Project, in_thread: Callable[..., Any]
) -> None:
    snapshot = project.snapshot(anna)
    number = anna.submit(command=None, snapshot=snapshot)
    partial = head.data.root / "jobs" / str(number) / "1.part"
    with Sources(head.data, head.settings).store(1).lock():  # blocks the preparation
        done = in_thread(lambda: prepare(head, number))
        while not partial.exists():
            pass
        assert anna.stop(number).json["state"] == "ended"
    done()
    record = anna.job(number)
    assert (record["state"], record["outcome"]) == ("ended", "stopped")


def test_the_log_shows_the_preparation(head: Head, anna: Person, project: Project) -> None:
    project.write("a.txt", "changed\n")
    snapshot = project.snapshot(anna)
    record = prepared(head, anna, snapshot=snapshot)
    lines = [line["text"] for line in anna.log(record["number"])["lines"] if line["source"] == "prepare"]
    assert lines[0] == f"fetching {snapshot['commit'][:12]} from {project.remote}"
    assert lines[-1].startswith(f"commit {snapshot['commit'][:12]} with 1 changed file checked out in")


@pytest.mark.threat("S35")
def test_filters_of_the_project_run_nothing(head: Head, anna: Person, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    project = a_project(tmp_path / "hostile")
    config = f'[filter "evil"]\n\tsmudge = touch {canary}\n'
    project.commit(**{".compute": "echo\n", ".gitattributes": "* filter=evil\n", ".gitconfig": config})
    assert prepared(head, anna, snapshot=project.snapshot(anna))["state"] == "waiting"
    assert not canary.exists()


@pytest.mark.threat("S27")
def test_submodules_of_the_project_run_nothing(head: Head, anna: Person, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    project = a_project(tmp_path / "hostile")
    module = f'[submodule "x"]\n\tpath = x\n\turl = ext::touch {canary}\n\tupdate = !touch {canary}\n'
    project.commit(**{".compute": "echo\n", ".gitmodules": module})
    record = prepared(head, anna, snapshot=project.snapshot(anna))
    assert not canary.exists()
    assert "gitmodules" in record["reason"]  # git itself refuses such objects
