"""The whole way of a job, through the installed `pit`."""

import json
import os
import signal
import subprocess
import tarfile
from pathlib import Path

from tests.e2e.cluster import PIT, Cluster, eventually, is_alive
from tests.e2e.mounts import IN_BOTH

EXAMPLE = Path(__file__).parents[2] / "examples" / "first-light"


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
    assert cluster.record(1)["result"] == "both processes met"
    cluster.ok("download", "1")
    with tarfile.open(project.path / "job-1.tar.gz") as tar:
        answer = tar.extractfile("job-1/keep/answer.txt")
        assert answer is not None and answer.read() == b"welcome to the pit\n"
        assert {"job-1/src/meet.py", "job-1/src/rate.txt", "job-1/result"} <= set(tar.getnames())


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
    assert "job 1 failed: process 0.1 ended with exit code 7" in result.err
    closing = result.out.splitlines()[-3:]
    assert closing[0].endswith("[head] the last lines of worker 1, which failed first:")
    assert closing[1].endswith("[head]   | oh no")
    codes = [(p["exit_code"], p["killed_by"]) for p in cluster.record(1)["processes"]]
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
    eventually(lambda: "ready" in cluster.ok("log", str(number), "--no-follow"))
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
        _, error = client.communicate(timeout=60)
    assert client.returncode == 130
    assert "`pit log 1`" in error and "`pit stop 1`" in error
    assert cluster.record(1)["state"] == "running"
    cluster.ok("stop", "1")


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
    assert cluster.record(second)["reason"] == "needs 2 slots, 0 free"
    assert cluster.record(third)["reason"] == "needs 1 slot, 0 free"
    cluster.ok("stop", str(first))
    assert cluster.pit("wait", str(second), str(third)).code == 0


def test_up_twice_is_fine_and_down_asks_about_running_jobs(cluster: Cluster) -> None:
    pids = cluster.pid("head"), cluster.pid("worker")
    assert "already" in cluster.ok("up")
    assert (cluster.pid("head"), cluster.pid("worker")) == pids
    go = cluster.home / "go"
    number = cluster.run(f"echo begun; until [ -e {go} ]; do sleep 0.05; done; echo over")
    eventually(lambda: "begun" in cluster.ok("log", str(number), "--no-follow"))
    refused = cluster.pit("down")
    assert refused.code == 1 and "1 job still runs: 1 (a job)" in refused.err
    cluster.ok("down", "--leave")
    assert cluster.pit("status").code == 1
    cluster.ok("up")
    go.touch()
    assert cluster.wait(number)["outcome"] == "succeeded"
    assert cluster.ok("log", str(number)).count("over") == 1


def test_every_listing_has_a_stable_json_form(cluster: Cluster) -> None:
    number = cluster.run("true")
    cluster.wait(number)
    assert cluster.json("status")["totals"]["done"] == 1
    assert cluster.json("show", "jobs")["jobs"][0]["number"] == number
    assert cluster.json("show", "me")["admin"] is True
    name = cluster.json("show", "nodes")["nodes"][0]["name"]
    assert cluster.json("show", f"node:{name}")["state"] == "online"
    lines = cluster.ok("log", str(number), "--json").splitlines()
    assert all({"at", "source", "text"} <= set(json.loads(line)) for line in lines)
