"""A cluster to break: a real head and real workers as programs, each node behind a proxy of its own.

Tests talk to the head directly. `finish` heals everything, lets all jobs end and checks the
invariants of `checker.py`; the fixture calls it after every test.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import requests

from pit_protocol import API_PREFIX
from pit_protocol.version_check import HEADERS
from pit_server.app import create_head
from pit_server.services.nodes import nodes
from pit_server.services.users import accounts, tokens
from pit_server.settings import Settings
from tests.support.clusters.head import a_submission
from tests.support.clusters.local import PIT, eventually
from tests.support.faults.checker import Accepted, Checker
from tests.support.faults.ledger import Ledger
from tests.support.faults.proxy import ChaosProxy

ROOT = Path(__file__).parents[3]
OWNER = "anna"
LOOPBACK = "127.0.0.1"
# So short that nothing waits for a clock longer than it must.
IMPATIENT = {
    "PIT_HEAD_HOLD_S": "0.5",
    "PIT_HEAD_OFFLINE_AFTER_S": "1.5",
    "PIT_HEAD_GRACE_S": "0.5",
    "PIT_HEAD_RESERVE_MIB": "0",
    "PIT_HEAD_BCRYPT_COST": "4",
    "PIT_HEAD_MIN_FREE_PERCENT": "0",
}
AS_WORKER = {"PIT_WORKER_RUN_AS": "worker", "PIT_WORKER_DISK_RESERVE_MIB": "0", "PIT_WATCH_SPEEDUP": "20"}


class Node:
    """A machine with a worker, its spool and its wire to the head."""

    def __init__(self, cluster: "Cluster", name: str, token: str) -> None:
        self.name = name
        self.spool = cluster.place / f"spool-{name}"
        self.proxy = ChaosProxy((cluster.host, cluster.port))
        self.inside: Sequence[str] = ()  # the command that leads to where the machine is, if that is not here
        self.environ: dict[str, str] = {}  # of its worker
        self.worker: subprocess.Popen[bytes] | None = None
        self._cluster = cluster
        self._token_file = cluster.place / f"token-{name}"
        self._token_file.write_text(token + "\n")
        self._token_file.chmod(0o600)

    def start(self, **environ: str) -> subprocess.Popen[bytes]:
        command = ["-m", "pit_worker", "run", "--address", self.name, "--spool", str(self.spool)]
        command += ["--token-file", str(self._token_file)]
        if self.inside:  # a machine of its own has a real wire, and does not reach the proxy
            command += ["--url", self._cluster.url, "--ca-file", str(self._cluster.certificate)]
        else:
            command += ["--url", self.proxy.url]
        env = {**AS_WORKER, **self.environ, **environ}
        self.worker = self._cluster.run_python(command, env, self.inside)
        return self.worker

    def kill(self) -> None:
        assert self.worker is not None
        self.worker.kill()
        self.worker.wait(120)

    def pause(self) -> None:
        assert self.worker is not None
        self.worker.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.worker is not None
        self.worker.send_signal(signal.SIGCONT)

    @property
    def is_up(self) -> bool:
        return self.worker is not None and self.worker.poll() is None

    @property
    def state(self) -> str:
        return str(self._cluster.get(f"/nodes/{self.name}")["state"])

    def await_state(self, state: str, within_s: float = 120.0) -> None:
        eventually(lambda: self.state == state, within_s)


class Cluster:
    def __init__(
        self,
        place: Path,
        home: Path,
        database_url: str = "",
        node_names: tuple[str, ...] = ("n0",),
        host: str = LOOPBACK,
        ledger: Ledger | None = None,
    ) -> None:
        """`home` is that of a head whose database has its tables."""
        self.place, self.home, self.host = place, home, host
        with socket.socket() as probe:
            probe.bind((host, 0))
            self.port: int = probe.getsockname()[1]
        self.certificate = home / "certificate.pem"
        self.url = f"{'http' if host == LOOPBACK else 'https'}://{host}:{self.port}"
        self.settings = Settings(home=home, database_url=database_url)
        self.environ = {**IMPATIENT, **({"PIT_HEAD_DATABASE_URL": database_url} if database_url else {})}
        self.ledger = ledger or Ledger(place / "ledger")
        self.accepted: list[Accepted] = []
        self.head: subprocess.Popen[bytes] | None = None
        self.is_closed = False
        self._programs: list[subprocess.Popen[bytes]] = []
        self._console = place / "console.log"
        self.nodes = self._set_up(node_names)
        self.checker = Checker(self.settings, self.ledger, self.place)

    def _set_up(self, names: tuple[str, ...]) -> dict[str, Node]:
        head = create_head(self.settings)
        with head.database.write() as session:
            user = accounts.add(session, OWNER, is_admin=True, now=0.0)
            _, self.token = tokens.issue(session, user_id=user.id, now=0.0, expires_at=None)
            made = {}
            for name in names:
                row = nodes.add(session, name, now=0.0)
                made[name] = tokens.issue(session, node_id=row.id, now=0.0, expires_at=None)[1]
        head.database.dispose()
        return {name: Node(self, name, token) for name, token in made.items()}

    def start(self) -> None:
        self.start_head()
        for node in self.nodes.values():
            node.start()
        for node in self.nodes.values():
            node.await_state("online")

    def start_head(self, crash_at: str = "", **environ: str) -> None:
        """`crash_at` is a point of `crashing_head.py`."""
        entry = ["-m", "tests.support.faults.crashing_head", crash_at] if crash_at else ["-m", "pit_server"]
        command = [*entry, "serve", "--home", str(self.home), "--bind", f"{self.host}:{self.port}"]
        self.head = self.run_python(command, {**self.environ, **environ})
        eventually(lambda: self._answers() or self.head_is_gone)

    def kill_head(self) -> None:
        assert self.head is not None
        kill_group(self.head)
        self.await_crash()

    @property
    def head_is_gone(self) -> bool:
        return self.head is None or self.head.poll() is not None

    def await_crash(self, within_s: float = 120.0) -> None:
        """Wait until the head has died at its crash point.

        A process whose leader is a zombie may have threads that have not died yet, and listen.
        """
        eventually(lambda: self.head_is_gone and not self._answers(), within_s)

    def run_python(
        self, arguments: list[str], environ: dict[str, str], inside: Sequence[str] = ()
    ) -> subprocess.Popen[bytes]:
        env = {
            "PATH": f"{PIT.parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.place),
            "PYTHONPATH": f"{ROOT}:{ROOT}/server:{ROOT}/worker:{ROOT}/grammar:{ROOT}/protocol",
            **environ,
        }
        with self._console.open("ab") as log:
            program = subprocess.Popen(
                [*inside, sys.executable, *arguments],
                env=env,
                cwd=self.place,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._programs.append(program)
        return program

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((self.host, self.port)) == 0

    def console(self) -> str:
        return self._console.read_text(errors="replace")

    def call(self, method: str, path: str, timeout_s: float = 30.0, **options: Any) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.token}", **HEADERS}
        verify = True if self.host == LOOPBACK else str(self.certificate)
        url = f"{self.url}{API_PREFIX}{path}"
        return requests.request(method, url, headers=headers, timeout=timeout_s, verify=verify, **options)

    def get(self, path: str) -> Any:
        answer = self.call("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def submit(self, command: str, request: str = "[]", **fields: Any) -> int:
        """Submit once, and remember that the head has accepted it; raises if it does not answer."""
        body = a_submission(command=command, request=request, **fields)
        return self.send(body)

    def send(self, body: dict[str, Any]) -> int:
        answer = self.call("POST", "/jobs", json=body)
        assert answer.status_code in (200, 201), answer.text
        return self.accept(body["key"], int(answer.json()["number"]))

    def accept(self, key: str, number: int) -> int:
        """Remember that the head has answered this submission with success."""
        self.accepted.append(Accepted(key, number))
        return number

    def run_gated(self, gate: str = "go", request: str = "[]", code: int = 0, lines: int = 1) -> int:
        """A job that runs until its gate is opened, and is running when this returns."""
        number = self.submit(self.ledger.script(gate=gate, code=code, lines=lines), request)
        self.await_state(number, "running")
        count = len(self.record(number)["processes"])
        eventually(lambda: len(self.ledger.runs_of(number)) == count)
        return number

    def record(self, number: int) -> Any:
        return self.get(f"/jobs/{number}")

    def await_state(self, number: int, state: str, within_s: float = 120.0) -> Any:
        eventually(lambda: self.record(number)["state"] == state, within_s)
        return self.record(number)

    def await_end(self, number: int, within_s: float = 120.0) -> Any:
        return self.await_state(number, "ended", within_s)

    def stop(self, number: int) -> requests.Response:
        return self.call("POST", f"/jobs/{number}/stop")

    def finish(self) -> None:
        """Undo all faults, let everything end, and check that all invariants held."""
        for node in self.nodes.values():
            node.proxy.heal()
        if self.head_is_gone:
            self.start_head()
        for node in self.nodes.values():
            if not node.is_up:
                node.start()
            node.resume()
        for number in {job.number for job in self.accepted}:
            if self.record(number)["state"] != "ended":
                self.stop(number)
        for number in {job.number for job in self.accepted}:
            self.await_end(number)
        self.checker.await_clean(list(self.nodes.values()))
        self.checker.check(self.accepted)

    def close(self) -> None:
        """End everything; a second time does nothing."""
        if self.is_closed:
            return
        self.is_closed = True
        for program in reversed(self._programs):
            kill_group(program)
        for node in self.nodes.values():
            node.proxy.close()
        self.checker.kill_leftovers()


def kill_group(program: subprocess.Popen[bytes]) -> None:
    """Kill a program with its children: gunicorn's serving process is one."""
    if program.poll() is None:
        os.killpg(program.pid, signal.SIGKILL)
    program.wait(120)
