"""A node without the head's files: what jobs write there is on the head when they end, whatever dies."""

import os
import shutil
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from pit.local.local_cluster import State, get_names, worker_command
from pit_worker.data.mount_daemon import BUSY
from tests.support.clusters.local import Cluster, eventually
from tests.support.mounts import IN_REMOTE

# For one job each: a start that crashes its worker three times is not tried again.
MOMENTS = (
    "after-intent",
    "after-mount",
    "after-start",
    "after-exit",
    "before-deliver",
    "after-batch",
    "after-deliver",
    "after-end-report",
)
OTHER_MOMENTS = ("after-fetch", "after-start")
CRASHED = 137
SCRIPT = """
echo "start" >>{ledger}
echo result >"$RESULT_FILE"; mkdir "$KEEP_DIR/sub"; cd "$KEEP_DIR/sub"; echo model >model; ln -s model latest
cd "$SRC_DIR"
printf '#!/bin/sh\\n' >tool; chmod +x tool; rm -f gone
echo note >"$USER_DIR/note"; cat "$USER_DIR/before" "$SHARED_DIR/set"
echo "end" >>{ledger}
exit 4
"""


@pytest.fixture
def remote(shared_remote: Cluster) -> Cluster:
    """For the tests that leave it as it was."""
    return shared_remote


def data(cluster: Cluster) -> Path:
    return cluster.home / "head" / "data"


def home(cluster: Cluster) -> Path:
    return data(cluster) / "home" / str(cluster.json("show", "me")["name"])


def attempts(cluster: Cluster) -> list[Path]:
    return sorted((cluster.home / "worker" / "attempts").glob("*"))


def kept(cluster: Cluster, place: Path) -> str:
    """Where a copy is that the head did not take, as people are told."""
    return f"on node {cluster.json('show', 'nodes')['nodes'][0]['name']} for 7 days, in {place}"


def begin(cluster: Cluster, command: str) -> int:
    """Submit it, and wait until it says that it is ready."""
    number = cluster.run(command)
    eventually(lambda: "ready" in cluster.log_text(number).splitlines())
    return number


@IN_REMOTE
@pytest.mark.threat("F08", "F11")
def test_a_worker_killed_at_every_step_of_one_job_loses_nothing(cluster: Cluster, tmp_path: Path) -> None:
    cluster.kill("worker")
    cluster.project.write("gone", "x")
    home(cluster).mkdir(exist_ok=True)
    (home(cluster) / "before").write_text("from home\n")
    (data(cluster) / "shared" / "set").write_text("from shared\n")
    for number_of_ledger, moments in enumerate((MOMENTS, OTHER_MOMENTS)):
        ledger = tmp_path / f"ledger{number_of_ledger}"
        number = cluster.run(SCRIPT.format(ledger=ledger))
        for moment in moments:
            assert run_worker(cluster, PIT_CRASH_AT=moment) == CRASHED, moment
        cluster.ok("up")
        check_whole(cluster, number, ledger)
        cluster.kill("worker")


def run_worker(cluster: Cluster, **settings: str) -> int:
    """Run the worker of `pit up` without the parent that would start it again; its exit code."""
    state = State(cluster.home)
    names = get_names(state)
    assert names
    command = worker_command(state, names)
    command = command[command.index("pit_worker") - 2 :]
    env = {**cluster.env, "PIT_WORKER_RUN_AS": "worker", **settings}
    with (cluster.home / "worker.log").open("ab") as log:
        return subprocess.run(command, env=env, stdout=log, stderr=log, timeout=120).returncode


def check_whole(cluster: Cluster, number: int, ledger: Path) -> None:
    """The job ran once, and all that it left has arrived."""
    record = cluster.wait(number)
    assert [process["exit_code"] for process in record["processes"]] == [4], record
    assert (record["outcome"], record["result"]) == ("failed", "result")
    assert ledger.read_text().splitlines() == ["start", "end"]
    log = cluster.ok("log", str(number))
    assert log.count("[worker 0] from home") == log.count("[worker 0] from shared") == 1
    job = data(cluster) / "jobs" / str(number) / "1"
    assert (job / "keep/sub/model").read_text() == "model\n"
    assert (job / "keep/sub/latest").readlink() == Path("model")
    assert (job / "src/tool").stat().st_mode & stat.S_IXUSR
    assert not (job / "src/gone").exists()
    assert (home(cluster) / "note").read_text() == "note\n"
    eventually(lambda: attempts(cluster) == [])


@IN_REMOTE
@pytest.mark.threat("F07", "F22")
def test_a_job_may_end_while_the_head_is_away_and_the_machine_start_anew(
    cluster: Cluster, tmp_path: Path
) -> None:
    wait = f"echo ready; until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo going >{tmp_path}/gone"
    number = begin(cluster, f'{wait}; echo late >"$USER_DIR/late"; echo k >"$KEEP_DIR/k"')
    cluster.kill("head")
    (tmp_path / "go").touch()
    eventually((tmp_path / "gone").exists)
    cluster.ok("up")
    assert cluster.wait(number)["outcome"] == "succeeded"
    assert (home(cluster) / "late").read_text() == "late\n"
    assert (data(cluster) / "jobs" / str(number) / "1/keep/k").read_text() == "k\n"
    write = 'echo saved >"$KEEP_DIR/state"; echo mine >"$USER_DIR/mine"'
    number = begin(cluster, f"{write}; echo $$ >{tmp_path}/pid; echo ready; exec sleep 60")
    (place,) = attempts(cluster)
    cluster.kill("worker")
    supervisor = _supervisors(cluster)  # first: it would note an end
    mounts = (*_pids("pit_worker.data.mount_daemon", str(place)), *_pids("rclone", str(place)))
    for pid in (*supervisor, *mounts, int((tmp_path / "pid").read_text())):
        os.kill(pid, signal.SIGKILL)
    cluster.ok("up", PIT_WORKER_BOOT_ID="another")
    record = cluster.wait(number)
    assert (record["outcome"], record["processes"][0]["killed_by"]) == ("lost", "reboot"), record
    assert (data(cluster) / "jobs" / str(number) / "1/keep/state").read_text() == "saved\n"
    assert (home(cluster) / "mine").read_text() == "mine\n"


@pytest.mark.parametrize("victim", ["guard", "rclone"])
def test_a_mount_that_dies_fails_the_process_with_the_reason(remote: Cluster, victim: str) -> None:
    write = f'echo last >"$USER_DIR/last-{victim}"; echo kept >"$KEEP_DIR/k"'
    command = f'{write}; echo ready; while :; do ls "$USER_DIR"; sleep 0.2; done'
    number = begin(remote, f"({command}) 2>/dev/null")
    (place,) = attempts(remote)
    for pid in _pids("pit_worker.data.mount_daemon" if victim == "guard" else "rclone", str(place)):
        os.kill(pid, signal.SIGKILL)
    record = remote.wait(number)
    assert record["outcome"] == "failed"
    assert "its data directories were lost" in record["reason"]
    # What was in the cache is sent all the same.
    assert (home(remote) / f"last-{victim}").read_text() == "last\n"
    assert (data(remote) / "jobs" / str(number) / "1/keep/k").read_text() == "kept\n"
    eventually(lambda: attempts(remote) == [])


def test_a_second_daemon_leaves_the_mounts_of_the_first_alone(remote: Cluster, tmp_path: Path) -> None:
    """As one that a worker started just before it was killed, when the next worker starts its own."""
    wait = f"echo ready; until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    number = begin(remote, f'{wait}; echo after >"$USER_DIR/after"')
    (place,) = attempts(remote)
    daemon = [sys.executable, "-P", "-m", "pit_worker.data.mount_daemon", str(place)]
    assert subprocess.run(daemon, timeout=120).returncode == BUSY
    (tmp_path / "go").touch()
    assert remote.wait(number)["outcome"] == "succeeded"
    assert (home(remote) / "after").read_text() == "after\n"


def test_processes_of_one_job_share_its_directory_and_one_mount(remote: Cluster) -> None:
    command = """
    echo $RANK >"$KEEP_DIR/$RANK"; until [ -e "$KEEP_DIR/0" ] && [ -e "$KEEP_DIR/1" ]; do sleep 0.05; done
    grep -c "$USER_DIR\\|$SHARED_DIR" /proc/mounts || grep -c attempts/$JOB_NUMBER-1 /proc/mounts
    """
    number = remote.run(command, "2:[]")
    assert remote.wait(number)["outcome"] == "succeeded"
    keep = data(remote) / "jobs" / str(number) / "1/keep"
    assert sorted(path.name for path in keep.iterdir()) == ["0", "1"]


def test_no_secret_is_in_an_argument_or_in_the_environment_of_a_job(remote: Cluster) -> None:
    number = begin(remote, "env; echo ready; sleep 60")
    (place,) = attempts(remote)
    token = (place / "token").read_text()
    assert (place / "token").stat().st_mode & 0o077 == 0
    assert not _pids(token)
    assert token not in remote.ok("log", str(number), "--no-follow")
    remote.ok("stop", str(number))
    assert remote.wait(number)["outcome"] == "stopped"


def test_what_is_over_a_quota_waits_for_room_and_stays_on_the_node_if_stopped(remote: Cluster) -> None:
    me = remote.json("show", "me")["name"]
    why = "1 file in home or groups could not be written: home/{}: user:"
    remote.ok("set", f"user:{me}", "quota=1M")
    try:
        waiting, stopped = (
            remote.run(f'head -c 3000000 /dev/zero >"$USER_DIR/{name}"; echo k >"$KEEP_DIR/k"')
            for name in ("waits", "stays")
        )
        for number, name in ((waiting, "waits"), (stopped, "stays")):
            told = f"not on the head yet: {why.format(name)}"
            eventually(lambda n=number, told=told: told in remote.ok("log", str(n), "--no-follow"))
            assert remote.record(number)["state"] == "running"
            assert told in remote.record(number)["processes"][0]["reason"]
        assert not remote.json("show", "nodes")["nodes"][0]["trouble"]  # others' jobs can run
        remote.ok("stop", str(stopped))
        record = remote.wait(stopped)
    finally:
        remote.ok("set", f"user:{me}", "quota=")
    place = remote.home / "worker" / "attempts" / f"{stopped}-1"
    assert record["outcome"] == "stopped"
    assert f"is kept {kept(remote, place)}" in record["processes"][0]["reason"]
    assert (place / "cache/own/vfs/pit/home/stays").stat().st_size == 3_000_000
    assert remote.wait(waiting)["outcome"] == "succeeded"
    assert (home(remote) / "waits").stat().st_size == 3_000_000
    assert not (home(remote) / "stays").exists()
    for number in (waiting, stopped):
        assert (data(remote) / "jobs" / str(number) / "1/keep/k").read_text() == "k\n"
    eventually(lambda: attempts(remote) == [place])
    shutil.rmtree(place)


def test_who_is_stopped_does_not_wait_for_room_either(remote: Cluster) -> None:
    me = remote.json("show", "me")["name"]
    remote.ok("set", f"user:{me}", "quota=1M")
    try:
        write = 'head -c 3000000 /dev/zero >"$USER_DIR/large"; echo k >"$KEEP_DIR/k"'
        number = begin(remote, f"{write}; echo ready; sleep 600")
        remote.ok("stop", str(number))
        record = remote.wait(number)
        place = remote.home / "worker" / "attempts" / f"{number}-1"
        [process] = record["processes"]
        assert (record["outcome"], process["state"], process["killed_by"]) == ("stopped", "ended", "user")
        why = "1 file in home or groups could not be written: home/large: user:"
        reason = process["reason"].removeprefix("ended: ")
        assert reason.startswith(why)
        assert reason.endswith(f"; undelivered data is kept {kept(remote, place)}")
        assert f"worker 0 ended: {reason}\n" in remote.ok("log", str(number), "--no-follow")
        assert reason == (place / "kept").read_text()
        assert (data(remote) / "jobs" / str(number) / "1/keep/k").read_text() == "k\n"
    finally:
        remote.ok("set", f"user:{me}", "quota=")
    assert (place / "cache/own/vfs/pit/home/large").stat().st_size == 3_000_000
    shutil.rmtree(place)


def test_one_file_that_the_head_cannot_take_keeps_no_other_from_coming(remote: Cluster) -> None:
    """A path that is too long for it, beside more directories than a program may have open."""
    name = "n" * 250
    deep = f'cd "$KEEP_DIR"; for i in $(seq 20); do mkdir {name}; cd {name}; done; echo deep >file'
    number = remote.run(
        f'mkdir "$KEEP_DIR"/d$(seq -s " $KEEP_DIR"/d 1500); echo k >"$KEEP_DIR/d1500/k"; {deep}'
    )
    record = remote.wait(number)
    place = remote.home / "worker" / "attempts" / f"{number}-1"
    assert record["outcome"] == "failed"
    reason = record["processes"][0]["reason"]
    assert "of its files could not be brought to the head: keep/nnn" in reason
    assert f"is too long; undelivered data is kept {kept(remote, place)}" in reason
    keep = data(remote) / "jobs" / str(number) / "1/keep"
    assert len(list(keep.iterdir())) == 1501
    assert (keep / "d1500/k").read_text() == "k\n"
    assert place.is_dir()
    shutil.rmtree(place)


def _supervisors(cluster: Cluster) -> list[int]:
    """Those that have claimed the start of a process."""
    return [int(file.read_text().split()[0]) for file in cluster.home.rglob("started")]


def _pids(*words: str) -> list[int]:
    """Of programs whose command line begins with the first word, or is Python's, and has them all."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            line = path.read_bytes().decode(errors="replace")
            is_program = line.startswith(words[0]) or words[0].startswith("pit_")
            if is_program and all(word in line for word in words):
                found.append(int(path.parent.name))
    return found
