"""A process's tree is found and killed, with a cgroup and without."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pit_worker import cgroup, cookie
from pit_worker.entry import parse_stat, read_stat
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


def test_a_name_with_blanks_and_parentheses_is_read():
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


def test_a_tree_is_found_by_its_mark_though_it_left_session_and_parent(
    tmp_path: Path, eventually: Eventually
):
    mark, pid_file = f"mark-{os.getpid()}", tmp_path / "pid"
    environ = {**os.environ, "PIT_COOKIE": mark}
    command = f"(setsid sh -c 'echo $$ >{pid_file}; sleep 1000' &)"
    subprocess.run(["sh", "-c", command], env=environ, check=True)
    pid = int(eventually(lambda: pid_file.exists() and pid_file.read_text()))
    assert cookie.send(mark, None, None, 0) >= 1
    cookie.send(mark, None, None, signal.SIGKILL)
    eventually(lambda: not is_alive(pid))
    assert cookie.send(mark, None, None, 0) == 0


def test_a_mark_that_only_begins_alike_is_not_touched():
    environ = {**os.environ, "PIT_COOKIE": f"mark-{os.getpid()}-10"}
    with subprocess.Popen(["sleep", "1000"], env=environ) as stranger:
        assert cookie.send(f"mark-{os.getpid()}-1", None, None, signal.SIGKILL) == 0
        assert stranger.poll() is None
        stranger.kill()


def test_a_session_whose_id_was_given_anew_is_not_touched():
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as stranger:
        stat = read_stat(stranger.pid)
        assert stat is not None
        assert cookie.send("no-such-mark", (stranger.pid, stat.start_time - 1), None, signal.SIGKILL) == 0
        assert stranger.poll() is None
        stranger.kill()
