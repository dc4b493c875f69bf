"""A real cluster of one machine, driven through the installed `pit`, in a scratch place of its own."""

import copy
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from pit_protocol import API_PREFIX
from tests.support.fork_server import run_pit

PIT = Path(sys.executable).with_name("pit")


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


def eventually(claim: Callable[[], Any], within_s: float = 120.0) -> Any:
    """Wait until the claim holds, and return what it said."""
    deadline = time.monotonic() + within_s
    while True:
        if found := claim():
            return found
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


class Project:
    """A git project with a remote that has its first commit."""

    def __init__(self, place: Path) -> None:
        self.path = place / "project"
        origin = place / "origin.git"
        self._git("init", "--quiet", "--bare", "--initial-branch=main", str(origin), cwd=place)
        self._git("clone", "--quiet", str(origin), str(self.path), cwd=place)
        self.write(".compute", "echo committed\n")
        self.git("add", ".")
        self.git("commit", "--quiet", "-m", "first")
        self.git("push", "--quiet", "origin", "HEAD:main")

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text)

    def git(self, *arguments: str) -> str:
        return self._git(*arguments, cwd=self.path)

    def _git(self, *arguments: str, cwd: Path) -> str:
        who = ["-c", "user.name=Anna", "-c", "user.email=anna@example.org"]
        done = subprocess.run(["git", *who, *arguments], cwd=cwd, check=True, capture_output=True, text=True)
        return done.stdout.strip()


class Cluster:
    """Head and worker as `pit up` makes them, and the client to use them with."""

    def __init__(self, place: Path, project: Project) -> None:
        self.home = place / "pit"
        self.project = project
        self.env = {
            "PATH": f"{PIT.parent}:{os.environ['PATH']}",
            "HOME": str(place),
            "PIT_HOME": str(self.home),
            "LC_ALL": "C.UTF-8",
            "PIT_HEAD_GRACE_S": "2",
            "PIT_HEAD_RESERVE_MIB": "0",
        }

    def with_project(self, project: Project) -> "Cluster":
        """The same head and worker, used from another project."""
        other = copy.copy(self)
        other.project = project
        return other

    def pit(self, *arguments: str, cwd: Path | None = None, timeout: float = 120, **env: str) -> Result:
        done = Result(*run_pit(arguments, cwd or self.project.path, {**self.env, **env}, timeout))
        assert "Traceback" not in done.err, done.err
        return done

    def ok(self, *arguments: str, cwd: Path | None = None, **env: str) -> str:
        result = self.pit(*arguments, cwd=cwd, **env)
        assert result.code == 0, result
        return result.out

    def json(self, *arguments: str) -> Any:
        return json.loads(self.ok(*arguments, "--json"))

    def json_in(self, place: Path, *arguments: str) -> Any:
        """The last document that the command prints in that directory."""
        return json.loads(self.ok(*arguments, "--json", cwd=place).splitlines()[-1])

    def run(self, command: str, request: str = "[]", *options: str) -> int:
        """Submit a job of direct commands and return its number."""
        return int(self.json("run", "a job", request, "-d", command, *options)["number"])

    def get(self, path: str) -> Any:
        """Ask the head itself, which takes a fraction of the time that a client takes to start."""
        url = (self.home / "connect.txt").read_text().split()[0]
        token = (self.home / "user.token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        answer = requests.get(f"{url}{API_PREFIX}{path}", headers=headers, timeout=120)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def record(self, number: int) -> Any:
        return self.get(f"/jobs/{number}")

    def log_text(self, number: int) -> str:
        """What the log has so far, with nothing but the lines' texts."""
        return "\n".join(line["text"] for line in self.get(f"/jobs/{number}/log")["lines"])

    def wait(self, number: int) -> Any:
        self.pit("wait", str(number))
        return self.record(number)

    def pid(self, program: str) -> int:
        """The process id of the `head` or the `worker`."""
        return int((self.home / f"{program}.pid").read_text().split()[0])

    def is_up(self) -> bool:
        """Whether both programs run."""
        try:
            return all(is_alive(self.pid(program)) for program in ("head", "worker"))
        except FileNotFoundError:
            return False

    def kill(self, program: str) -> None:
        """Kill it, and wait until it is gone: on a busy machine a killed process lives on for a while."""
        pid = self.pid(program)
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not is_alive(pid))


@contextmanager
def running(cluster: Cluster) -> Iterator[Cluster]:
    """Bring the cluster up, and down again when done; a traceback in its logs is an error."""
    up = cluster.pit("up")
    assert up.code == 0, (up, *(log.read_text() for log in cluster.home.glob("*.log")))
    try:
        yield cluster
    finally:
        if not cluster.is_up():  # a test may have killed one of them
            cluster.pit("up")
        cluster.pit("down", "--stop")
    logs = "".join(log.read_text() for log in cluster.home.glob("*.log"))
    assert "Traceback" not in logs, logs
