"""What processes use, by their cgroups or by /proc; and stack dumps of those that hang."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pit_worker.process import stack_dump
from pit_worker.process.measure import measure
from pit_worker.runtime.local import LocalRuntime
from pit_worker.spool.entry import Entry, Intent

BUSY = "print(flush=True)\nwhile True: pass"


class OneProgram(LocalRuntime):
    """A process that is one program, in this cgroup if there is one."""

    def __init__(self, pid: int, group: Path | None = None) -> None:
        self._pid, self._group = pid, group

    def find_cgroup(self, entry: Entry) -> Path | None:
        return self._group

    def list_pids(self, entry: Entry) -> set[int]:
        return {self._pid}


@pytest.fixture
def entry(tmp_path: Path) -> Entry:
    return Entry(tmp_path, Intent(1, 1, "cluster", "boot", str(tmp_path), None))


@pytest.fixture
def busy() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE) as program:
        assert program.stdout
        program.stdout.readline()
        yield program.pid
        program.kill()


def test_a_program_is_measured_by_proc(entry: Entry, busy: int) -> None:
    runtime = OneProgram(busy)
    first = measure(runtime, entry)
    for _ in range(10_000):
        later = measure(runtime, entry)
        if later.cpu_s > first.cpu_s:
            break
    assert later.cpu_s > first.cpu_s
    assert 1024 * 1024 < later.memory < 1024 * 1024 * 1024
    assert later.at > first.at


def test_a_cgroup_is_measured_by_its_files(entry: Entry, tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    (tmp_path / "memory.current").write_text("5000\n")
    (tmp_path / "memory.stat").write_text("anon 3000\ninactive_file 2000\n")
    found = measure(OneProgram(os.getpid(), tmp_path), entry)
    assert (found.cpu_s, found.memory) == (2.5, 3000)


def test_what_a_cgroup_does_not_say_comes_from_proc(entry: Entry, tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\n")
    found = measure(OneProgram(os.getpid(), tmp_path), entry)
    assert found.cpu_s == 2.5
    assert found.memory > 1024 * 1024


def test_the_stacks_of_python_programs_go_to_the_output(
    entry: Entry, busy: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = tmp_path / "py-spy"
    spy.write_text('#!/bin/sh\necho "asked: $*"\n')
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    os.mkfifo(entry.pipe)
    reader = os.open(entry.pipe, os.O_RDONLY | os.O_NONBLOCK)
    stack_dump.write(OneProgram(busy), entry)
    written = os.read(reader, 65536).decode()
    os.close(reader)
    assert written == f"pit: where Python program {busy} is:\nasked: dump --nonblocking --pid {busy}\n"
