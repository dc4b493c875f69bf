"""Limits of a process's cgroup are set where the machine has the controllers."""

from pathlib import Path

from pit_worker.runtime import cgroup


def test_limits_are_written_where_there_are_controllers(tmp_path: Path) -> None:
    for name in ("cpu.max", "memory.max", "memory.swap.max"):
        (tmp_path / name).write_text("max")
    cgroup.limit(tmp_path, 1.5, 2048)
    assert (tmp_path / "cpu.max").read_text() == "150000 100000"
    assert (tmp_path / "memory.max").read_text() == str(2048 * 1024 * 1024)
    assert (tmp_path / "memory.swap.max").read_text() == "0"


def test_without_controllers_nothing_is_written(tmp_path: Path) -> None:
    cgroup.limit(tmp_path, 1.5, 2048)
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_asks_for_nothing_is_not_limited(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("max")
    cgroup.limit(tmp_path, None, None)
    assert (tmp_path / "memory.max").read_text() == "max"


def test_the_controllers_that_there_are_get_enabled_for_processes(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    cgroup.enable_controllers(tmp_path)
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"


def test_a_machine_without_controllers_is_left_alone(tmp_path: Path) -> None:
    cgroup.enable_controllers(tmp_path)
    (tmp_path / "cgroup.controllers").write_text("hugetlb\n")
    cgroup.enable_controllers(tmp_path)
    assert not (tmp_path / "cgroup.subtree_control").exists()
