"""A stub head, and real workers as subprocesses that a test may kill."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

import pytest

from pit_protocol.system.procfs import read_stat
from pit_worker.runtime import cgroup, process_tree
from tests.support.servers.certificate_files import Certificate, make_certificate
from tests.support.stubs.worker_head import StubHead

T = TypeVar("T")
OWN = cgroup.find_own()
ROOT = Path(__file__).parents[2]
EMPTY_SPOOL = {"lock", "lease", "data_root", "hellos"}  # what stays in it without processes
PYTHON_ENVIRON = {"PYTHONPATH": f"{ROOT}/worker:{ROOT}/protocol"}


class Eventually(Protocol):
    def __call__(self, look: Callable[[], T], timeout_s: float = 120.0) -> T: ...


@pytest.fixture
def eventually() -> Eventually:
    def wait(look: Callable[[], T], timeout_s: float = 120.0) -> T:
        """Wait until `look` gives something true, and give that."""
        deadline = time.monotonic() + timeout_s
        while True:
            seen = look()
            if seen or time.monotonic() > deadline:
                assert seen
                return seen
            time.sleep(0.01)

    return wait


def is_alive(pid: int | str) -> bool:
    stat = read_stat(int(pid))
    return stat is not None and stat.state not in "ZX"


class Workers:
    """Starts workers on one spool, and leaves nothing of them behind."""

    def __init__(self, head: StubHead, folder: Path) -> None:
        self.head = head
        self.folder = folder
        self.spool = folder / "spool"
        self.token_file = folder / "token"
        self.token_file.touch(0o600)
        self.token_file.write_text(head.token + "\n")
        self._running: list[subprocess.Popen[str]] = []

    def start(self, spool: Path | None = None, *, program: str = "", **environ: str) -> subprocess.Popen[str]:
        """Start one with all settings on its command line; `program` is a changed worker, in Python."""
        arguments = ["--url", self.head.url, "--token-file", str(self.token_file)]
        place = ["--spool", str(spool or self.spool)]
        return self.start_with(*place, *arguments, program=program, **environ)

    def start_with(self, *arguments: str, program: str = "", **environ: str) -> subprocess.Popen[str]:
        log = (self.folder / "worker.log").open("a")
        worker = subprocess.Popen(
            [sys.executable, *(["-c", program] if program else ["-m", "pit_worker"]), "run", *arguments],
            # Inside a PID namespace a process has another id than the test knows.
            env={**os.environ, **PYTHON_ENVIRON, "PIT_WORKER_PID_NAMESPACES": "off", **environ},
            stderr=log,
            text=True,
        )
        log.close()
        self._running.append(worker)
        return worker

    def kill(self, worker: subprocess.Popen[str]) -> None:
        worker.kill()
        worker.wait()

    def log(self) -> str:
        return (self.folder / "worker.log").read_text()

    def close(self) -> None:
        for worker in self._running:
            self.kill(worker)
        for process, attempt in {*self.head.orders, *self.head.reports}:
            process_tree.send(f"{self.head.cluster}-{process}-{attempt}", None, None, 9)
        for group in OWN.glob(f"pit-{self.head.cluster}-*") if OWN else ():
            while cgroup.send(group, 9):
                time.sleep(0.01)
            cgroup.remove(group)


def make_data_root(place: Path) -> Path:
    root = place / "data"
    for name in ("shared", "home/ann", "jobs/1/src", "jobs/1/keep"):
        (root / name).mkdir(parents=True, exist_ok=True)
    return root


@pytest.fixture
def data_root(tmp_path: Path) -> Path:
    return make_data_root(tmp_path)


@pytest.fixture
def head(data_root: Path) -> Iterator[StubHead]:
    head = StubHead(str(data_root))
    yield head
    head.close()


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    return make_certificate(tmp_path, "head")


@pytest.fixture
def tls_head(data_root: Path, certificate: Certificate) -> Iterator[StubHead]:
    head = StubHead(str(data_root), certificate=certificate)
    yield head
    head.close()


@pytest.fixture
def workers(head: StubHead, tmp_path: Path) -> Iterator[Workers]:
    workers = Workers(head, tmp_path)
    yield workers
    workers.close()
