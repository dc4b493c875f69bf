"""Bad input gets one clear sentence and the way out, and loses nothing."""

import shutil
from pathlib import Path

import pytest

from tests.support.clusters.local import Cluster, eventually


@pytest.fixture
def cluster(used_cluster: Cluster) -> Cluster:
    """For all tests here: they leave it as it was."""
    return used_cluster


@pytest.mark.parametrize(
    ("arguments", "code", "message", "hint"),
    [
        (["run", "x", "[2:"], 1, "the request ends too early", "for example:"),
        (["run", "x", "[a100]"], 1, "no node has a100", "`pit show nodes`"),
        (["run", "x", "[]@nowhere"], 1, "there is no node @nowhere", "`pit show nodes`"),
        (["run", "x", "[9999:cpu]"], 1, "no node is that large", "`pit show nodes`"),
        (["run", "x", "99999:[]"], 1, "at most", "`pit show nodes`"),
        (["run", "", "[]"], 2, "a title has 1 to 200 characters", ""),
        (["run", "x", "[]", "-c", "99"], 1, "there is no job 99", "`pit status`"),
        (["log", "99"], 1, "there is no job 99", "`pit status`"),
        (["stop", "99"], 1, "there is no job 99", "`pit status`"),
        (["download", "99"], 1, "there is no job 99", "`pit status`"),
        (["show", "job:99"], 1, "there is no job 99", "`pit status`"),
        (["show", "node:n99"], 1, "there is no node n99", "`pit show nodes`"),
        (["show", "jobs", "colour=red"], 2, "'colour=red' is not a filter", ""),
        (["run"], 2, "", ""),
        (["frobnicate"], 2, "", ""),
    ],
)
def test_a_sentence_and_a_way_out(
    shared_cluster: Cluster, arguments: list[str], code: int, message: str, hint: str
) -> None:
    result = shared_cluster.pit(*arguments)
    assert result.code == code, result
    assert message in result.err and hint in result.err, result.err
    assert result.out == ""


def test_outside_a_git_repository(shared_cluster: Cluster, tmp_path: Path) -> None:
    result = shared_cluster.pit("run", "x", "[]", "-d", "true", cwd=tmp_path)
    assert result.code == 1 and "is not in a git repository" in result.err


def test_a_project_without_script_says_so_before_anything_is_sent(cluster: Cluster) -> None:
    before = cluster.json("status")["totals"]
    (cluster.project.path / ".compute").unlink()
    result = cluster.pit("run", "x", "[]")
    assert result.code == 1 and ".compute" in result.err and "-d" in result.err
    assert cluster.json("status")["totals"] == before


def test_a_head_that_is_not_there_is_named_with_the_file_it_came_from(
    tmp_path: Path, cluster: Cluster
) -> None:
    (cluster.project.path / ".pitconnect.txt").write_text("http://127.0.0.1:9\n")
    result = cluster.pit("status")
    assert result.code == 1
    assert "http://127.0.0.1:9" in result.err and ".pitconnect.txt" in result.err


def test_a_wrong_token_is_explained(cluster: Cluster) -> None:
    token = cluster.home / "user.token"
    good = token.read_text()
    token.write_text(f"pit_1_{'A' * 43}\n")
    try:
        result = cluster.pit("status")
    finally:
        token.write_text(good)
    assert result.code == 1
    assert "token" in result.err and "user.token" in result.err
    assert "AAAA" not in result.err


def test_a_commit_that_vanished_from_the_remote(cluster: Cluster) -> None:
    project = cluster.project
    project.write("more", "text")
    project.git("add", "more")
    project.git("commit", "--quiet", "-m", "second")
    project.git("push", "--quiet", "origin", "HEAD:main")
    origin = project.path.parent / "origin.git"
    shutil.rmtree(origin)
    project._git("init", "--quiet", "--bare", str(origin), cwd=project.path)
    result = cluster.pit("run", "x", "[]", "-l")
    assert result.code == 3
    assert "no longer has commit" in result.err or "cannot fetch" in result.err
    assert "pit run --bundle" in result.err
    assert "[worker 0] committed" in cluster.ok("run", "x", "[]", "-l", "--bundle")


def test_a_job_directory_deleted_under_way(cluster: Cluster) -> None:
    slots = cluster.json("show", "nodes")["nodes"][0]["slots"]
    blocker = cluster.run("sleep 60", f"{slots}:[]")
    number = cluster.run("true")
    eventually(lambda: cluster.record(number)["state"] == "waiting")
    shutil.rmtree(cluster.home / "head" / "data" / "jobs" / str(number))
    cluster.ok("stop", str(blocker))
    record = cluster.wait(number)
    # The node could not start it, so it was prepared again.
    assert record["outcome"] == "succeeded"
    assert [event["event"] for event in record["events"]].count("requeued") == 1
    assert cluster.wait(cluster.run("true"))["outcome"] == "succeeded"
