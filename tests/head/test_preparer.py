"""Preparing a job: its tree is exactly the user's, or the job ends with the reason."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pit_server.head import Head
from pit_server.store import mirror
from tests.head.cluster import EMPTY_TREE, Person, Worker, a_snapshot, a_submission, prepare
from tests.head.projects import Project, a_project, git, listing


@pytest.fixture
def database_url() -> str:
    return ""  # git and files: one database is enough


@pytest.fixture(autouse=True)
def node(a_node: Callable[..., Worker]) -> Worker:
    return a_node()


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


def test_every_kind_of_change_arrives(head: Head, anna: Person, project: Project) -> None:
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


def test_a_second_job_of_the_same_tree_needs_the_remote_no_more(
    head: Head, anna: Person, project: Project
) -> None:
    snapshot = project.snapshot(anna)
    prepared(head, anna, snapshot=snapshot)
    project.remote.rename(project.remote.with_name("gone"))
    assert prepared(head, anna, snapshot=snapshot)["state"] == "waiting"


def test_a_tree_that_comes_out_otherwise_is_refused(head: Head, anna: Person, project: Project) -> None:
    record = prepared(head, anna, snapshot=project.snapshot(anna, tree="0" * 40))
    assert (record["state"], record["outcome"]) == ("ended", "failed")
    assert "not 000000000000 as in your project" in record["reason"]
    assert not head.data.attempt(record["number"], 1).exists()


def test_a_commit_that_vanished_from_its_remote_is_told(head: Head, anna: Person, project: Project) -> None:
    snapshot = project.snapshot(anna)
    git(project.path, "checkout", "--quiet", "--orphan", "other")
    project.commit(x="y")
    git(project.remote, "reflog", "expire", "--expire=now", "--all")
    git(project.remote, "gc", "--quiet", "--prune=now")
    record = prepared(head, anna, snapshot=snapshot)
    assert record["outcome"] == "failed"
    assert f"{project.remote} no longer has commit {snapshot['commit']}" in record["reason"]


def test_a_diff_that_does_not_apply_is_told(head: Head, anna: Person, project: Project) -> None:
    body = b"diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-other\n+new\n"
    record = prepared(head, anna, snapshot=project.snapshot(anna, tree="0" * 40, diff=anna.upload(body)))
    assert record["outcome"] == "failed"
    assert "the diff does not apply to commit" in record["reason"]
    assert "a.txt" in record["reason"]


@pytest.mark.parametrize("path", ["../x", "/tmp/pit-canary", ".git/hooks/x", "sub/../../x"])
def test_a_diff_that_leads_out_of_the_tree_is_refused(
    head: Head, anna: Person, project: Project, path: str
) -> None:
    names = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
    new = names + "@@ -0,0 +1 @@\n+x\n"
    snapshot = project.snapshot(anna, tree="0" * 40, diff=anna.upload(new.encode()))
    assert prepared(head, anna, snapshot=snapshot)["outcome"] == "failed"
    assert not Path("/tmp/pit-canary").exists()


def test_a_remote_that_went_away_is_told_and_what_git_said_is_in_the_log(
    head: Head, anna: Person, project: Project, tmp_path: Path
) -> None:
    number = anna.submit(snapshot=project.snapshot(anna))
    project.remote.rename(tmp_path / "gone")
    prepare(head, number)
    record = anna.job(number)
    assert record["outcome"] == "failed"
    assert f"the head cannot fetch from {project.remote}" in record["reason"]
    assert "--bundle" in record["reason"]
    lines = [line["text"] for line in anna.log(number)["lines"] if line["source"] == "prepare"]
    assert [line for line in lines if "does not appear to be a git repository" in line]


def test_a_project_without_script_needs_commands(head: Head, anna: Person, tmp_path: Path) -> None:
    project = a_project(tmp_path / "bare")
    project.commit(a="x")
    record = prepared(head, anna, snapshot=project.snapshot(anna))
    assert record["reason"] == "the project has no .compute; add one, or give commands with `-d`"
    assert prepared(head, anna, snapshot=project.snapshot(anna), command="true")["state"] == "waiting"


def test_a_pack_replaces_the_remote(head: Head, anna: Person, project: Project) -> None:
    snapshot = project.snapshot(anna, remote=None, pack=anna.upload(project.pack()))
    record = prepared(head, anna, snapshot=snapshot)
    assert record["state"] == "waiting", record["reason"]
    assert listing(source(head, record)) == listing(project.path)


def test_a_pack_that_is_none_or_lacks_the_commit_is_told(
    head: Head, anna: Person, project: Project, tmp_path: Path
) -> None:
    other = a_project(tmp_path / "other")
    other.commit(a="x")
    for pack, words in (
        (b"PACKnot", "the tree could not be built"),
        (other.pack(), "came neither with a remote"),
    ):
        snapshot = project.snapshot(anna, remote=None, pack=anna.upload(pack))
        record = prepared(head, anna, snapshot=snapshot)
        assert record["outcome"] == "failed"
        assert words in record["reason"]


def test_a_repository_without_commits_comes_as_a_diff(head: Head, anna: Person, tmp_path: Path) -> None:
    project = a_project(tmp_path / "young")
    project.write(".compute", "echo\n")
    tree = project.tree()
    diff = git(project.path, "diff", "--binary", "--full-index", EMPTY_TREE, tree)
    record = prepared(head, anna, snapshot=a_snapshot(tree=tree, diff=anna.upload(diff)))
    assert record["state"] == "waiting", record["reason"]
    assert list(listing(source(head, record))) == [".compute"]


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
    with mirror._locks[head.data.mirror(1, snapshot["remote"])]:  # keeps the preparation from going on
        done = in_thread(lambda: prepare(head, number))
        while not partial.exists():
            pass
        assert anna.stop(number).json["state"] == "ended"
    done()
    record = anna.job(number)
    assert (record["state"], record["outcome"]) == ("ended", "stopped")


def test_the_log_tells_what_preparing_did(head: Head, anna: Person, project: Project) -> None:
    project.write("a.txt", "changed\n")
    snapshot = project.snapshot(anna)
    record = prepared(head, anna, snapshot=snapshot)
    told = [line["text"] for line in anna.log(record["number"])["lines"] if line["source"] == "prepare"]
    assert told[0] == f"fetching {snapshot['commit'][:12]} from {project.remote}"
    assert told[-1].startswith(f"commit {snapshot['commit'][:12]} with 1 changed lines checked out in")


def test_what_one_user_fetched_does_not_serve_another(
    head: Head, anna: Person, a_user: Callable[..., Person], project: Project
) -> None:
    snapshot = project.snapshot(anna)
    assert prepared(head, anna, snapshot=snapshot)["state"] == "waiting"
    project.remote.rename(project.remote.with_name("gone"))
    answer = a_user("berta").post("/jobs", json=a_submission(snapshot=snapshot))
    assert answer.json["code"] == "remote_not_fetchable"
    assert prepared(head, anna, snapshot=snapshot)["state"] == "waiting"


def test_a_commit_that_the_remote_never_had_is_not_recorded_with_a_tree_that_is_known(
    head: Head, anna: Person, project: Project
) -> None:
    snapshot = project.snapshot(anna)
    assert prepared(head, anna, snapshot=snapshot)["state"] == "waiting"
    record = prepared(head, anna, snapshot={**snapshot, "commit": "f" * 40})
    assert record["outcome"] == "failed"


def test_filters_of_the_project_run_nothing(head: Head, anna: Person, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    project = a_project(tmp_path / "hostile")
    config = f'[filter "evil"]\n\tsmudge = touch {canary}\n'
    project.commit(**{".compute": "echo\n", ".gitattributes": "* filter=evil\n", ".gitconfig": config})
    assert prepared(head, anna, snapshot=project.snapshot(anna))["state"] == "waiting"
    assert not canary.exists()


def test_submodules_of_the_project_run_nothing(head: Head, anna: Person, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    project = a_project(tmp_path / "hostile")
    module = f'[submodule "x"]\n\tpath = x\n\turl = ext::touch {canary}\n\tupdate = !touch {canary}\n'
    project.commit(**{".compute": "echo\n", ".gitmodules": module})
    record = prepared(head, anna, snapshot=project.snapshot(anna))
    assert not canary.exists()
    assert "gitmodules" in record["reason"]  # git itself refuses such objects
