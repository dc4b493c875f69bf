"""Without a cgroup, too, nothing that a command starts outlives it."""

import fcntl
import subprocess
from pathlib import Path

import pytest

from pit_protocol.states import KilledBy, ProcessState
from pit_worker.runtime import containment
from tests.support.requirements import lack, need_programs
from tests.support.stubs.worker_head import StubHead
from tests.worker.conftest import Eventually, Workers

NAMESPACE = {"PIT_WORKER_CGROUPS": "off", "PIT_WORKER_PID_NAMESPACES": "on"}
SUBREAPER = {"PIT_WORKER_CGROUPS": "off", "PIT_WORKER_PID_NAMESPACES": "off"}
# In a session of its own, without the environment by which it could be found, and without output.
ESCAPE = (
    "cd $JOB_DIR; (setsid env -i flock lock sleep 1000 </dev/null >/dev/null 2>&1 &); "
    "while flock -n lock true; do sleep 0.01; done; "
)


@pytest.fixture(params=["namespace", "subreaper"])
def means(request: pytest.FixtureRequest) -> dict[str, str]:
    if request.param == "subreaper":
        return SUBREAPER
    need_namespaces()
    return NAMESPACE


def need_namespaces() -> None:
    need_programs("unshare", "flock")
    if why := containment.why_no_namespace():
        lack(why)


def is_free(lock: Path) -> bool:
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.mark.threat("F36")
def test_a_process_that_left_session_and_environment_ends_with_its_command(
    head: StubHead, workers: Workers, eventually: Eventually, data_root: Path, means: dict[str, str]
):
    workers.start(**means)
    head.run(1, ESCAPE + "exit 4")
    assert eventually(lambda: head.end(1)).exit_code == 4
    eventually(lambda: is_free(data_root / "jobs/1/lock"))


def test_such_a_process_ends_when_its_job_is_stopped(
    head: StubHead, workers: Workers, eventually: Eventually, data_root: Path, means: dict[str, str]
):
    workers.start(**means)
    head.run(1, ESCAPE + "trap 'echo told; exit 3' TERM; echo ready; while :; do sleep 0.02; done")
    eventually(lambda: head.log(1) == "ready\n")
    head.stop(1)
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, end.killed_by) == (3, KilledBy.USER)
    assert "told" in head.log(1).splitlines()
    eventually(lambda: is_free(data_root / "jobs/1/lock"))


def test_a_contained_process_is_adopted_after_its_worker_was_killed(
    head: StubHead, workers: Workers, eventually: Eventually, data_root: Path, means: dict[str, str]
):
    first = workers.start(**means)
    head.run(1, ESCAPE + "echo ready; until [ -e go ]; do sleep 0.02; done; echo bye; exit 9")
    eventually(lambda: head.log(1) == "ready\n")
    workers.kill(first)
    workers.start(**means)
    eventually(lambda: len(head.hellos) == 2 and head.state(1) is ProcessState.RUNNING)
    (data_root / "jobs/1/go").touch()
    assert (eventually(lambda: head.end(1)).exit_code, head.log(1)) == (9, "ready\nbye\n")
    eventually(lambda: is_free(data_root / "jobs/1/lock"))


def test_a_process_sees_its_own_namespace_in_proc(head: StubHead, workers: Workers, eventually: Eventually):
    need_namespaces()
    workers.start(**NAMESPACE)
    seen = "[ $(readlink /proc/self/ns/pid) != $(readlink /proc/$PPID/ns/pid) ] || echo same as its parent; "
    head.run(1, f'{seen} tr "\\0" " " </proc/$$/cmdline; echo; cat /proc/1/comm; kill -KILL $$')
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, end.signal) == (137, 9)
    lines = head.log(1).splitlines()
    assert lines[-1] == "sh"
    assert lines[-2].startswith("/bin/bash ")


def test_an_unshare_that_dies_of_sigterm_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fake = tmp_path / "unshare"
    fake.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert containment.why_no_namespace().startswith("unshare is too old")
    fake.write_text("#!/bin/sh\necho unshare: not permitted >&2; exit 1\n")
    assert containment.why_no_namespace() == "unshare failed: unshare: not permitted"


def test_orphans_are_killed_by_a_supervisor_that_adopts_them(tmp_path: Path):
    program = [*containment.choose(cgroups=False, pid_namespaces=False).before_supervisor, "/bin/sh", "-c"]
    script = "(setsid sh -c 'sleep 0.1; cut -d\" \" -f4 /proc/$$/stat' &) ; sleep 0.5; echo $$"
    done = subprocess.run([*program, script], capture_output=True, text=True, check=True)
    parent, own = done.stdout.split()
    assert parent == own


def test_a_child_has_its_grace_though_the_shell_above_it_died_at_once(
    head: StubHead, workers: Workers, eventually: Eventually, means: dict[str, str]
):
    workers.start(**means)
    child = "trap 'sleep 0.2; echo saved; exit' TERM; echo ready; while :; do sleep 0.02; done"
    head.run(1, f'bash -c "{child}"; exit 5', grace_s=30)
    eventually(lambda: head.log(1) == "ready\n")
    head.stop(1)
    assert eventually(lambda: head.end(1)).signal == 15
    assert "saved" in head.log(1).splitlines()
