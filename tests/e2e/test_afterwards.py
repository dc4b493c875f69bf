"""What can be had of a job's code later: shown, compared, brought back, run again."""

import json
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.project_states import contents
from tests.support.clusters.local import Cluster, eventually
from tests.support.requirements import lack


@pytest.fixture
def cluster(used_cluster: Cluster) -> Cluster:
    """For all tests here: they leave it as it was."""
    return used_cluster


@pytest.fixture
def dirty(cluster: Cluster) -> int:
    """An ended job of a project with uncommitted changes."""
    project = cluster.project
    project.write("kept.txt", "as committed\n")
    project.git("add", ".")
    project.git("commit", "--quiet", "-m", "second")
    project.write(".compute", "echo dirty; cat new.txt\n")
    project.write("new.txt", "untracked\n")
    (project.path / "link").symlink_to("new.txt")
    number = int(cluster.json("run", "dirty", "[]")["number"])
    assert cluster.wait(number)["outcome"] == "succeeded"
    return number


def test_a_jobs_record_tells_what_was_not_committed(cluster: Cluster, dirty: int) -> None:
    snapshot = cluster.record(dirty)["snapshot"]
    assert snapshot["commit"] == cluster.project.git("rev-parse", "HEAD")
    assert snapshot["base"] == cluster.project.git("rev-parse", "HEAD~1")
    assert (snapshot["dirty"], snapshot["diff_files"]) == (True, 3)
    assert (snapshot["diff_added"], snapshot["diff_removed"], snapshot["diff_lines"]) == (3, 1, 4)
    text = cluster.ok("show", str(dirty))
    assert "Changes:    3 files not as committed, 3 lines added, 1 removed" in text
    assert snapshot["tree"] in text


def test_the_uncommitted_part_is_a_patch(cluster: Cluster, dirty: int, tmp_path: Path) -> None:
    patch = cluster.ok("diff", str(dirty))
    cluster.project.git("clone", "-q", ".", str(tmp_path / "clone"))
    applied = subprocess.run(["git", "apply", "-"], cwd=tmp_path / "clone", input=patch.encode(), check=False)
    assert applied.returncode == 0
    assert contents(tmp_path / "clone") == contents(cluster.project.path)


def test_two_jobs_differ_in_code_and_settings(cluster: Cluster, dirty: int) -> None:
    cluster.project.write("new.txt", "another\n")
    other = cluster.run("true", "[1:cpu]")
    told = cluster.ok("diff", str(dirty), str(other))
    assert "# title: dirty -> a job\n" in told
    assert "# request: [] -> [cpu]\n" in told
    assert "# command: .compute -> true\n" in told
    assert "-untracked\n+another\n" in told
    document = cluster.json("diff", str(dirty), str(other))
    assert document["settings"]["request"] == ["[]", "[cpu]"]
    assert "+another" in document["diff"]


def test_the_code_comes_back_as_a_worktree(cluster: Cluster, dirty: int, tmp_path: Path) -> None:
    before = contents(cluster.project.path)
    status = cluster.project.git("status", "--porcelain")
    cluster.project.git("stash", "-q", "-u")
    place = tmp_path / "back"
    assert "a worktree at" in cluster.ok("checkout", str(dirty), str(place))
    assert contents(place) == before
    shutil.rmtree(place)
    assert "a worktree at" in cluster.ok("checkout", str(dirty), str(place))
    assert contents(place) == before
    assert subprocess.check_output(["git", "status", "--porcelain"], cwd=place, text=True).strip() == status


def test_the_code_comes_back_as_a_directory_anywhere(cluster: Cluster, dirty: int, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert "a plain directory" in cluster.ok("checkout", str(dirty), cwd=elsewhere)
    assert contents(elsewhere / f"job-{dirty}") == contents(cluster.project.path)
    again = cluster.pit("checkout", str(dirty), cwd=elsewhere)
    assert (again.code, again.err.splitlines()[0]) == (1, f"pit: job-{dirty} already exists")


@pytest.mark.parametrize("how", [[], ["--plain"]], ids=["worktree", "plain"])
def test_code_that_comes_back_into_the_project_is_no_part_of_it(
    cluster: Cluster, dirty: int, how: list[str]
) -> None:
    before = cluster.project.git("status", "--porcelain")
    told = cluster.pit("checkout", str(dirty), *how)
    assert told.err == (
        f"pit: job-{dirty} is ignored by git and `pit run` from now on: .git/info/exclude names it\n"
    )
    assert (cluster.project.path / f"job-{dirty}" / "new.txt").exists()
    assert cluster.project.git("status", "--porcelain") == before
    planned = cluster.json("run", "x", "--dry-run")
    assert planned["tree"] == cluster.record(dirty)["snapshot"]["tree"]
    cluster.ok("checkout", str(dirty), f"job-{dirty}/again", "--plain")
    assert (cluster.project.path / ".git/info/exclude").read_text().count("job-") == 1


def test_a_job_runs_again_whatever_became_of_the_project(
    cluster: Cluster, dirty: int, tmp_path: Path
) -> None:
    cluster.project.write("new.txt", "changed since\n")
    lines = cluster.ok("rerun", str(dirty), "--request", "[1:cpu]", "-l", "--json", cwd=tmp_path).splitlines()
    record = json.loads(lines[-1])
    assert (record["outcome"], record["reruns"], record["request"]) == ("succeeded", dirty, "[cpu]")
    assert "untracked" in cluster.ok("log", str(record["number"]))


def test_this_code_runs_with_an_old_jobs_settings(cluster: Cluster, dirty: int) -> None:
    cluster.project.write("new.txt", "changed since\n")
    told = cluster.ok("rerun", str(dirty), "--here", "--title", "again", "-l")
    assert "changed since" in told


def test_a_dry_run_lists_what_would_go_along_and_sends_nothing(cluster: Cluster, dirty: int) -> None:
    cluster.project.write(".env", "SECRET=1\n")
    before = cluster.json("show", "jobs")["total"]
    result = cluster.pit("run", "x", "--dry-run")
    assert result.code == 0
    assert "left out because they look like secrets: .env" in result.err
    listed = [line.split() for line in result.out.splitlines()]
    assert ["M", "24", ".compute"] in listed
    assert ["?", "10", "new.txt"] in listed
    document = json.loads(cluster.ok("run", "x", "--dry-run", "--json"))
    assert [file["path"] for file in document["left_out"]] == [".env"]
    assert cluster.json("show", "jobs")["total"] == before


def test_a_directory_that_git_does_not_know_runs_as_it_is(cluster: Cluster, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    (plain / "deep").mkdir(parents=True)
    (plain / ".compute").write_text("cat deep/file\n")
    (plain / "deep" / "file").write_text("no git here\n")
    (plain / "ignored.txt").write_text("ignored\n")
    (plain / ".pitignore").write_text("ignored*\n")
    record = cluster.json_in(plain, "run", "archive", "-a", "-l")
    assert record["outcome"] == "succeeded"
    assert (record["snapshot"]["commit"], record["snapshot"]["remote"]) == (None, None)
    assert contents(cluster.home / f"head/data/jobs/{record['number']}/1/src") == contents(plain)


def test_the_second_run_of_the_same_state_sends_next_to_nothing(cluster: Cluster) -> None:
    (cluster.project.path / "weights.bin").write_bytes(os.urandom(300_000))
    first = cluster.run("true")
    before = cluster.record(first)["snapshot"]
    second = cluster.record(cluster.run("true"))["snapshot"]
    assert before["pack"]
    assert second["pack"] is None
    cluster.project.write("model.py", "a small edit\n")
    third = cluster.wait(cluster.run("true"))
    assert third["outcome"] == "succeeded"
    assert "with 0" not in third["reason"]


def test_a_removed_job_comes_back_whole(cluster: Cluster, dirty: int, tmp_path: Path) -> None:
    cluster.wait(dirty)
    log, code = cluster.ok("log", str(dirty)), contents(cluster.project.path)
    told = cluster.ok("rm", str(dirty))
    assert told.startswith(f"job:{dirty} is in the trash for 30 days; `pit restore ")
    assert cluster.pit("log", str(dirty)).code == 1
    assert cluster.ok("restore", f"job:{dirty}") == f"job:{dirty} is back\n"
    assert cluster.ok("log", str(dirty)) == log
    cluster.ok("checkout", str(dirty), str(tmp_path / "back"), "--plain")
    assert contents(tmp_path / "back") == code


class TestLargeFiles:
    @pytest.fixture
    def lfs(self, cluster: Cluster) -> Cluster:
        """A project with a large file that its remote keeps by Git LFS."""
        if shutil.which("git-lfs") is None:
            lack("git-lfs is not installed")
        project = cluster.project
        for words in (("lfs", "install", "--local"), ("lfs", "track", "*.bin")):
            project.git(*words)
        (project.path / "model.bin").write_bytes(b"large " * 5000)
        project.git("add", ".")
        project.git("commit", "--quiet", "-m", "large")
        project.git("push", "--quiet", "origin", "HEAD:main")
        return cluster

    def ran_with(self, cluster: Cluster, place: Path, *options: str) -> tuple[dict[str, Any], bytes]:
        """The job's record, and what it found in the file."""
        job = cluster.json_in(place, "run", "large", "-d", "true", "-l", *options)
        assert job["outcome"] == "succeeded", cluster.ok("log", str(job["number"]))
        return job, (cluster.home / f"head/data/jobs/{job['number']}/1/src/model.bin").read_bytes()

    def test_an_unchanged_one_comes_from_the_remote(self, lfs: Cluster) -> None:
        job, found = self.ran_with(lfs, lfs.project.path)
        assert found == b"large " * 5000
        assert job["snapshot"]["pack"] is None

    def test_a_changed_one_travels(self, lfs: Cluster) -> None:
        (lfs.project.path / "model.bin").write_bytes(b"changed " * 5000)
        assert self.ran_with(lfs, lfs.project.path)[1] == b"changed " * 5000

    def test_without_its_content_here_it_stays_a_pointer(self, lfs: Cluster, tmp_path: Path) -> None:
        # The machine's own settings may know git-lfs.
        without = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
        clone = ["git", "clone", "-q", str(tmp_path / "origin.git"), str(tmp_path / "bare")]
        subprocess.run(clone, env=without, check=True)
        pointer = (tmp_path / "bare/model.bin").read_bytes()
        assert pointer.startswith(b"version https://git-lfs")
        job, found = self.ran_with(lfs, tmp_path / "bare")
        assert found == pointer
        again = lfs.json_in(tmp_path, "rerun", str(job["number"]), "-l")
        assert (lfs.home / f"head/data/jobs/{again['number']}/1/src/model.bin").read_bytes() == pointer
        lfs.ok("checkout", str(job["number"]), str(tmp_path / "out"))
        assert (tmp_path / "out/model.bin").read_bytes() == pointer
        assert self.ran_with(lfs, tmp_path / "bare", "--bundle")[1] == pointer
        assert self.ran_with(lfs, tmp_path / "bare", "-a")[1] == pointer

    def test_it_travels_where_the_head_cannot_get_it(self, lfs: Cluster) -> None:
        assert self.ran_with(lfs, lfs.project.path, "--bundle")[1] == b"large " * 5000


def find_text(place: Path, text: bytes) -> list[Path]:
    """The files that have it in the clear."""
    found = []
    for path in place.rglob("*"):
        with suppress(OSError):
            if path.is_file() and text in path.read_bytes():
                found.append(path)
    return found


class TestVariables:
    GIVEN = ("-e", "LR=0.1", "--secret", "TOKEN", "--secret", "OLD=x")

    @pytest.fixture
    def secret(self) -> str:
        return f"S3CRET-{os.urandom(8).hex()}"

    @pytest.fixture
    def job(self, cluster: Cluster, secret: str) -> int:
        """One that tells whether it has its variables, and no value."""
        script = f'[ "$TOKEN" = {secret} ] && echo "the token is here, LR is $LR, OLD is ${{OLD-away}}"\n'
        cluster.project.write(".compute", script)
        told = cluster.ok("run", "with variables", *self.GIVEN, "-l", "--json", TOKEN=secret)
        record = json.loads(told.splitlines()[-1])
        assert (record["outcome"], record["variables"]) == ("succeeded", ["OLD", "TOKEN"])
        return int(record["number"])

    def test_they_reach_the_job_and_no_secret_is_kept_in_the_clear(
        self, cluster: Cluster, job: int, secret: str
    ) -> None:
        assert "the token is here, LR is 0.1, OLD is x" in cluster.ok("log", str(job))
        shown = cluster.ok("show", str(job))
        assert "Variables:  LR=0.1\n" in shown and "Secrets:    OLD, TOKEN\n" in shown
        own = cluster.home / f"head/data/jobs/{job}/1/src/.compute"  # where the project itself has it
        # Until the worker was told to forget it, its spool has them too.
        eventually(lambda: find_text(cluster.home, secret.encode()) == [own])

    def test_they_stay_with_a_rerun_and_are_compared(self, cluster: Cluster, job: int) -> None:
        told = cluster.ok("rerun", str(job), "-e", "LR=0.2", "-e", "NEW=1", "-l", "--json")
        again = json.loads(told.splitlines()[-1])
        assert (again["options"]["env"], again["variables"]) == ({"LR": "0.2", "NEW": "1"}, ["OLD", "TOKEN"])
        assert "the token is here, LR is 0.2, OLD is x" in cluster.ok("log", str(again["number"]))
        assert cluster.ok("diff", str(job), str(again["number"])).splitlines() == [
            "# env.LR: 0.1 -> 0.2",
            "# env.NEW: - -> 1",
        ]
        here = json.loads(cluster.ok("rerun", str(job), "--here", "-l", "--json").splitlines()[-1])
        assert (here["outcome"], here["variables"]) == ("succeeded", ["OLD", "TOKEN"])
        document = cluster.json("diff", str(job), str(here["number"]))
        assert document["variables"] == {"removed": [], "added": [], "changed": [], "unknown": []}
