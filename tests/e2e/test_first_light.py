"""The whole way of a job, through the installed `pit`."""

import json
import os
import signal
import subprocess
import tarfile
from pathlib import Path

import pytest
import requests

from tests.support.clusters.local import PIT, Cluster, eventually, is_alive
from tests.support.mounts import BOUND, REMOTE

EXAMPLE = Path(__file__).parents[2] / "examples" / "first-light"


@pytest.fixture
def cluster(used_cluster: Cluster) -> Cluster:
    """For all tests here: they leave it as it was."""
    return used_cluster


IN_BOTH = pytest.mark.parametrize("used_cluster", [BOUND, REMOTE], indirect=True)


def newest(cluster: Cluster) -> int:
    """The number of the job that was submitted last."""
    return int(cluster.json("show", "jobs", "desc=date", "limit=1")["jobs"][0]["number"])


@IN_BOTH
def test_two_processes_find_each_other_and_the_result_comes_home(cluster: Cluster) -> None:
    project = cluster.project
    project.write("rate.txt", "0.1\n")
    project.git("add", "rate.txt")
    project.git("commit", "--quiet", "-m", "rate")
    project.git("push", "--quiet", "origin", "HEAD:main")
    project.write("rate.txt", "0.01\n")
    project.write(".compute", (EXAMPLE / "compute.sh").read_text())
    project.write("meet.py", (EXAMPLE / "meet.py").read_text())

    log = cluster.ok("run", "First light", "2:[]", "-l")

    assert f"Hash:       {project.git('rev-parse', 'HEAD')}" in log
    assert "[worker 0] process 0 of 2, learning rate 0.01" in log
    assert "[worker 0] process 1 says: hello from the other side" in log
    assert "[worker 1] process 0 says: welcome to the pit" in log
    assert "SUC" in cluster.ok("status")
    number = newest(cluster)
    assert cluster.record(number)["result"] == "both processes met"
    cluster.ok("download", str(number))
    top = f"job-{number}"
    with tarfile.open(project.path / f"{top}.tar.gz") as tar:
        answer = tar.extractfile(f"{top}/keep/answer.txt")
        assert answer is not None and answer.read() == b"welcome to the pit\n"
        assert {f"{top}/src/meet.py", f"{top}/src/rate.txt", f"{top}/result"} <= set(tar.getnames())


def test_other_accounts_of_the_machine_cannot_get_in(shared_cluster: Cluster) -> None:
    url = (shared_cluster.home / "connect.txt").read_text().split()[0]
    body = {"name": "mallory", "full_name": "Mallory", "password": "correct horse"}
    refused = requests.post(f"{url}/api/v1/users", json=body, timeout=120)
    assert (refused.status_code, refused.json()["code"]) == (403, "registration_closed")
    del body["full_name"]
    assert requests.post(f"{url}/api/v1/login", json=body, timeout=120).status_code == 401


def test_a_web_page_cannot_reach_the_head_under_its_own_name(shared_cluster: Cluster) -> None:
    url = (shared_cluster.home / "connect.txt").read_text().split()[0]
    for path in ("api/v1/", "dav/"):
        answer = requests.get(f"{url}/{path}", headers={"Host": "rebound.example.com"}, timeout=120)
        assert (answer.status_code, answer.json()["code"]) == (421, "misdirected")


@IN_BOTH
def test_every_variable_is_told_and_every_directory_is_as_specified(cluster: Cluster) -> None:
    script = """
    for d in "$JOB_DIR" "$SRC_DIR" "$KEEP_DIR" "$USER_DIR"; do touch "$d/here" && echo "writable $d"; done
    touch "$SHARED_DIR/here" 2>/dev/null || echo "shared is read-only"
    test "$PWD" = "$SRC_DIR" && echo "in src"
    cat "$HOSTFILE"; env
    """
    number = cluster.run(script, "2:[],[]")
    assert cluster.wait(number)["outcome"] == "succeeded"
    lines = cluster.ok("log", str(number), "--process", "1.0").splitlines()
    texts = [line.split("] ", 2)[2] for line in lines]
    told = dict(text.split("=", 1) for text in texts if "=" in text and " " not in text.split("=")[0])
    expected = {
        "NUM_GROUPS": "2",
        "NUM_PROCESSES_GROUP0": "2",
        "NUM_PROCESSES_GROUP1": "1",
        "HOST_GROUP0_PROCESS1": "127.0.0.1",
        "HOST_GROUP1_PROCESS0": "127.0.0.1",
        "GROUP_INDEX": "1",
        "PROCESS_INDEX": "0",
        "JOB_NUMBER": str(number),
        "MASTER_ADDR": "127.0.0.1",
        "WORLD_SIZE": "3",
        "RANK": "2",
    }
    assert {name: told.get(name) for name in expected} == expected
    assert told["MASTER_PORT"].isdigit()
    assert [text for text in texts if text.startswith("writable")].__len__() == 4
    assert "shared is read-only" in texts and "in src" in texts and "127.0.0.1 slots=3" in texts
    assert not [name for name in told if "TOKEN" in name or name.startswith("PIT_WORKER")]


def test_a_failing_process_stops_the_others_and_its_last_lines_close_the_log(cluster: Cluster) -> None:
    script = 'if [ $RANK = 1 ]; then echo "oh no"; exit 7; fi; sleep 60'
    result = cluster.pit("run", "gang", "3:[]", "-d", script, "-l")
    assert result.code == 3
    number = newest(cluster)
    assert f"job {number} failed: worker 1 ended with exit code 7" in result.err
    closing = result.out.splitlines()[-3:]
    assert closing[0].endswith("[head] last lines of worker 1, which failed first:")
    assert closing[1].endswith("[head]   | oh no")
    codes = [(p["exit_code"], p["killed_by"]) for p in cluster.record(number)["processes"]]
    assert codes[1] == (7, None)
    assert [by for _, by in (codes[0], codes[2])] == ["job", "job"]


@IN_BOTH
def test_stopping_ends_daemons_too_and_gives_the_job_its_grace(cluster: Cluster, tmp_path: Path) -> None:
    pid_file = tmp_path / "daemon.pid"
    daemon = (
        f"setsid sh -c 'trap \"\" TERM; echo $$ >{pid_file}; while :; do sleep 1; done' >/dev/null 2>&1 &"
    )
    script = (
        f"trap 'echo saved >$KEEP_DIR/state; exit 0' TERM; {daemon} echo ready; while :; do sleep 0.1; done"
    )
    number = cluster.run(script)
    eventually(lambda: "ready" in cluster.log_text(number))
    daemon_pid = int(eventually(lambda: pid_file.exists() and pid_file.read_text()))
    assert cluster.ok("stop", str(number)) == f"job {number} is stopping\n"
    record = cluster.wait(number)
    assert (record["outcome"], record["reason"]) == ("stopped", "by " + record["user"])
    assert not is_alive(daemon_pid)
    continued = cluster.run("cat $KEEP_DIR/state", "[]", "-c", str(number))
    assert cluster.wait(continued)["outcome"] == "succeeded"
    assert "[worker 0] saved" in cluster.ok("log", str(continued))


def test_interrupting_the_log_leaves_the_job_running(cluster: Cluster) -> None:
    command = [str(PIT), "run", "long", "[]", "-d", "echo on; sleep 60", "-l"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=cluster.project.path, env=cluster.env, text=True, **pipes) as client:
        assert client.stdout is not None
        while "[worker 0] on" not in client.stdout.readline():
            pass
        client.send_signal(signal.SIGINT)
        _, error = client.communicate(timeout=120)
    assert client.returncode == 130
    number = newest(cluster)
    assert f"`pit log {number}`" in error and f"`pit stop {number}`" in error
    assert cluster.record(number)["state"] == "running"
    cluster.ok("stop", str(number))


def test_a_repository_without_remote_or_even_commits_runs(cluster: Cluster, tmp_path: Path) -> None:
    bare = tmp_path / "no commits"
    bare.mkdir()
    subprocess.run(["git", "init", "--quiet"], cwd=bare, check=True)
    (bare / ".compute").write_text("cat data.bin | wc -c\n")
    (bare / "data.bin").write_bytes(os.urandom(5000))
    assert "[worker 0] 5000" in cluster.ok("run", "no commits", "[]", "-l", cwd=bare)
    who = ["-c", "user.name=Anna", "-c", "user.email=anna@example.org"]
    subprocess.run(["git", "add", "."], cwd=bare, check=True)
    subprocess.run(["git", *who, "commit", "--quiet", "-m", "one"], cwd=bare, check=True)
    assert "[worker 0] 5000" in cluster.ok("run", "no remote", "[]", "-l", cwd=bare)


def test_jobs_that_do_not_fit_wait_with_a_reason_and_start_in_turn(cluster: Cluster) -> None:
    slots = cluster.json("show", "nodes")["nodes"][0]["slots"]
    first = cluster.run("sleep 60", f"{slots}:[]")
    eventually(lambda: cluster.record(first)["state"] == "running")
    second = cluster.run("echo second", "2:[]")
    third = cluster.run("echo third", "[]")
    eventually(lambda: cluster.record(third)["state"] == "waiting" and cluster.record(third)["reason"])
    assert cluster.record(second)["reason"] == f"needs 2 slots, 0 free; job {first} holds them"
    assert cluster.record(third)["reason"] == f"needs 1 slot, 0 free; job {first} holds them"
    cluster.ok("stop", str(first))
    assert cluster.pit("wait", str(second), str(third)).code == 0


def test_the_raw_log_is_exactly_what_was_written_and_the_archive_has_the_log(cluster: Cluster) -> None:
    written = bytes(range(256)) + "\r10%\r20% é".encode()
    escaped = "".join(f"\\x{byte:02x}" for byte in written)
    number = cluster.run(f"printf '{escaped}'")
    cluster.wait(number)
    command = [str(PIT), "log", str(number), "--raw"]
    found = subprocess.run(
        command, cwd=cluster.project.path, env=cluster.env, capture_output=True, timeout=120
    )
    assert (found.returncode, found.stdout) == (0, written)
    assert cluster.ok("log", str(number), "-f", "-n", "3").splitlines()[0].endswith("] [worker 0] 20% é")
    cluster.ok("download", str(number))
    with tarfile.open(cluster.project.path / f"job-{number}.tar.gz") as tar:
        log = tar.extractfile(f"job-{number}.log")
        assert log is not None and "[worker 0] 20% é\n" in log.read().decode(errors="replace")


def test_every_listing_has_a_stable_json_form(cluster: Cluster) -> None:
    before = cluster.json("status")["totals"]["done"]
    number = cluster.run("true")
    cluster.wait(number)
    assert cluster.json("status")["totals"]["done"] == before + 1
    assert cluster.json("show", f"job:{number}") == cluster.record(number)
    assert cluster.json("show", "jobs")["jobs"][0]["number"] == number
    assert cluster.json("show", "me")["admin"] is True
    name = cluster.json("show", "nodes")["nodes"][0]["name"]
    assert cluster.json("show", f"node:{name}")["state"] == "online"
    lines = cluster.ok("log", str(number), "--json").splitlines()
    assert all({"at", "source", "text"} <= set(json.loads(line)) for line in lines)


def test_a_job_finds_the_users_python_and_not_pits_own(cluster: Cluster) -> None:
    assert cluster.env["PATH"].startswith(f"{PIT.parent}:"), "pit's environment is active"
    number = cluster.run('command -v python3; echo "[$VIRTUAL_ENV$PYTHONPATH$PYTHONHOME]"')
    assert cluster.wait(number)["outcome"] == "succeeded"
    log = cluster.log_text(number)
    assert "/python3\n" in log and str(PIT.parent) not in log
    assert "\n[]\n" in log
