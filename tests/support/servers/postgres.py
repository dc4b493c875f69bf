"""A real PostgreSQL server in a temporary directory, on a socket that only tests know."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg

from tests.support.requirements import lack

NOT_DURABLE = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")

# Durability is not needed: the next test run creates the data again.
OPTIONS = (
    "listen_addresses=''",
    *NOT_DURABLE,
    "deadlock_timeout=100ms",
    "max_connections=200",
    "wal_level=minimal",
    "max_wal_senders=0",
)


def find_binaries() -> Path:
    """The directory of initdb and pg_ctl; required in CI, optional on a laptop."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    if not on_path and not found:
        lack("PostgreSQL is not installed (no initdb on PATH or below /usr/lib/postgresql)")
    return Path(on_path).parent if on_path else found[-1].parent


def _fast_directory() -> str | None:
    """A directory in memory if there is enough, because copying databases is four times as fast there."""
    memory = Path("/dev/shm")
    plenty = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2**30
    return str(memory) if plenty else None


class Postgres:
    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        self._home = Path(tempfile.mkdtemp(prefix="pit-pg-", dir=_fast_directory()))
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:  # the server refuses to be root
            shutil.chown(self._home, "postgres", "postgres")
            self._user = {"user": "postgres", "group": "postgres", "extra_groups": []}

    def start(self, *, is_durable: bool = False) -> None:
        """A durable one survives `kill`."""
        self._options = [option for option in OPTIONS if not (is_durable and option in NOT_DURABLE)]
        self._run(
            "initdb", "-D", "data", "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"
        )
        self.start_again()

    def start_again(self) -> None:
        options = " ".join(f"-c {option}" for option in self._options)
        self._run("pg_ctl", "-D", "data", "-w", "-l", "log", "-o", f"-k {self._home} {options}", "start")

    def kill(self) -> None:
        """With SIGKILL, its sessions first: the server would take long to notice that it has died."""
        server = int((self._home / "data/postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        for pid in (server, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while any(Path(f"/proc/{pid}").exists() for pid in children) and time.monotonic() < deadline:
            time.sleep(0.02)
        (self._home / "data/postmaster.pid").unlink()

    def stop(self) -> None:
        self._run("pg_ctl", "-D", "data", "-w", "-m", "immediate", "stop")
        shutil.rmtree(self._home)

    def url(self, name: str) -> str:
        return f"postgresql://postgres@/{name}?host={self._home}"

    def create(self, name: str, template: str = "template0") -> None:
        self._execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")

    def drop(self, name: str) -> None:
        self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _execute(self, statement: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._binaries / program, *arguments],
            cwd=self._home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=120,
            **self._user,
        )
        assert done.returncode == 0, done.stderr.decode()


def wait_for_blocked(url: str, timeout_s: float = 60.0) -> None:
    """Return as soon as a session in this database waits for a row lock."""
    deadline = time.monotonic() + timeout_s
    blocked = "datname = current_database() AND wait_event_type = 'Lock'"
    query = f"SELECT count(*) FROM pg_stat_activity WHERE {blocked}"
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(query).fetchone() == (0,):
            assert time.monotonic() < deadline, "no session waits for a lock"
