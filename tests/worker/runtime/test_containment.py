"""Without a cgroup, too, nothing that a command starts outlives it."""

import fcntl
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from pit_protocol.messages.beat import Order, OrderAction
from pit_protocol.states import KilledBy, ProcessState
from pit_worker.runtime import containment
from pit_worker.runtime.fork_server import PACKAGES, python
from pit_worker.supervisor import namespace
from tests.support.requirements import lack, need_programs, need_system_rights
from tests.support.stubs.worker_head import StubHead, a_spec
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
    need_programs("flock")
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


def test_a_contained_process_may_have_a_lease(
    head: StubHead, workers: Workers, eventually: Eventually, means: dict[str, str]
):
    workers.start(**means)
    spec = replace(a_spec("echo on; exit 5"), lease_s=50.0)
    head.order(Order(1, 1, OrderAction.RUN, spec=spec))
    assert (eventually(lambda: head.end(1)).exit_code, head.log(1)) == (5, "on\n")


def test_a_process_sees_its_own_namespace_in_proc(head: StubHead, workers: Workers, eventually: Eventually):
    need_namespaces()
    workers.start(**NAMESPACE)
    seen = "[ $(readlink /proc/self/ns/pid) != $(readlink /proc/$PPID/ns/pid) ] || echo same as its parent; "
    head.run(1, f'{seen} tr "\\0" " " </proc/$$/cmdline; echo; cat /proc/1/comm; kill -KILL $$')
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, end.signal) == (137, 9)
    lines = head.log(1).splitlines()
    assert lines[-1] == "pit-init"
    assert lines[-2].startswith("/bin/bash ")


def test_a_worker_that_may_not_make_namespaces_learns_why():
    need_system_rights()
    need_programs("setpriv")
    words = ["setpriv", "--bounding-set", "-sys_admin", *python(namespace.__file__), *PACKAGES]
    tried = subprocess.run(words, capture_output=True, text=True)
    assert (tried.returncode, tried.stderr) == (1, "operation not permitted\n")


def test_the_programs_of_a_process_are_its_command_alone(
    head: StubHead, workers: Workers, eventually: Eventually, data_root: Path, means: dict[str, str]
):
    """No shell and no other program around it: with many short processes each one counts."""
    workers.start(**means)
    head.run(1, "mkfifo $JOB_DIR/go; echo ready; read <$JOB_DIR/go")
    eventually(lambda: head.log(1) == "ready\n")
    marker = f"PIT_COOKIE={head.cluster}-{'-'.join(map(str, head.key(1)))}".encode()
    programs = [path.parent for path in Path("/proc").glob("[0-9]*/environ") if has(path, marker)]
    assert [Path(program / "exe").readlink().name for program in programs] == ["bash"]
    (data_root / "jobs/1/go").write_text("\n")
    assert eventually(lambda: head.end(1)).exit_code == 0


def has(file: Path, text: bytes) -> bool:
    try:
        return text in file.read_bytes()
    except OSError:
        return False


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
