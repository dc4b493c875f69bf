"""A process's tree is found and killed, with a cgroup and without."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pit_protocol.system.procfs import parse_stat, read_stat
from pit_worker.runtime import cgroup, process_tree
from tests.worker.conftest import Eventually, is_alive

OWN = cgroup.find_own()


@pytest.fixture
def group() -> Iterator[Path]:
    if OWN is None:
        pytest.skip("no cgroup v2 below which this user may make others")
    group = cgroup.make(OWN, f"tree-{os.getpid()}")
    yield group
    cgroup.remove(group)
    assert not group.exists()


def test_a_name_with_spaces_and_parentheses_is_parsed():
    line = "42 (a) b (c) S 7 42 40 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 9999 1 1 1"
    stat = parse_stat(line)
    assert (stat.pid, stat.parent, stat.session, stat.state, stat.start_time) == (42, 7, 40, "S", 9999)


def test_all_in_a_cgroup_are_killed_also_below_it(group: Path, eventually: Eventually):
    inner = group / "inner"
    inner.mkdir()
    with subprocess.Popen(["sh", "-c", 'echo 0 >"$1/cgroup.procs"; sleep 1000', "sh", inner]) as child:
        eventually(lambda: child.pid in cgroup.members(group))
        assert cgroup.send(group, signal.SIGKILL) >= 1
        child.wait()
    eventually(lambda: cgroup.send(group, 0) == 0)


def test_a_tree_is_found_by_its_marker_though_it_left_session_and_parent(
    tmp_path: Path, eventually: Eventually
):
    mark, pid_file = f"mark-{os.getpid()}", tmp_path / "pid"
    environ = {**os.environ, "PIT_COOKIE": mark}
    command = f"(setsid sh -c 'echo $$ >{pid_file}; sleep 1000' &)"
    subprocess.run(["sh", "-c", command], env=environ, check=True)
    pid = int(eventually(lambda: pid_file.exists() and pid_file.read_text()))
    assert process_tree.send(mark, None, None, 0) >= 1
    process_tree.send(mark, None, None, signal.SIGKILL)
    eventually(lambda: not is_alive(pid))
    eventually(lambda: process_tree.send(mark, None, None, 0) == 0)  # its child dies a moment later


def test_a_marker_that_is_only_a_prefix_does_not_match():
    environ = {**os.environ, "PIT_COOKIE": f"mark-{os.getpid()}-10"}
    with subprocess.Popen(["sleep", "1000"], env=environ) as other:
        assert process_tree.send(f"mark-{os.getpid()}-1", None, None, signal.SIGKILL) == 0
        assert other.poll() is None
        other.kill()


def test_a_session_whose_id_was_reused_is_not_touched():
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as other:
        stat = read_stat(other.pid)
        assert stat is not None
        assert process_tree.send("no-such-mark", (other.pid, stat.start_time - 1), None, signal.SIGKILL) == 0
        assert other.poll() is None
        other.kill()
