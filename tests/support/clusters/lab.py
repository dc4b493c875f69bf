"""A lab on loopback: a head with TLS, people with homes of their own, machines that joined by one line."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.clusters.local import PIT, Project, Result, eventually
from tests.support.fork_server import run_pit
from tests.support.terminal import Terminal

PASSWORD = "correct horse"


class Lab:
    """Starts nothing by itself; `close` ends whatever was started."""

    def __init__(self, place: Path, host: str = "127.0.0.1", **settings: str) -> None:
        self.place = place
        with socket.socket() as probe:
            probe.bind((host, 0))
            self.url = f"https://{host}:{probe.getsockname()[1]}"
        self._settings = {
            "PIT_HEAD_TLS": "on",
            "PIT_HEAD_REGISTRATION": "approve",
            "PIT_HEAD_GIT_PROTOCOLS": "file",
            "PIT_HEAD_BCRYPT_COST": "4",
            "PIT_HEAD_GRACE_S": "2",
            "PIT_HEAD_RESERVE_MIB": "0",
            **settings,
        }
        self._running: list[subprocess.Popen[bytes]] = []
        self._log = place / "daemons.log"

    def start_head(self) -> subprocess.Popen[bytes]:
        bind = self.url.removeprefix("https://")
        command = ["pit_server", "serve", "--home", str(self.place / "head"), "--bind", bind]
        head = self._start(command, **self._settings)
        eventually(lambda: "this head is" in self.console() and self._answers())
        return head

    def start_worker(
        self, config: Path, inside: Sequence[str] = (), **settings: str
    ) -> subprocess.Popen[bytes]:
        """`inside` is the command that leads to where the machine is, if that is not here."""
        spool = self.place / f"spool-{config.name}"
        command = ["pit_worker", "run", "--config", str(config), "--spool", str(spool)]
        return self._start(command, inside, **settings)

    def console(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def setup_code(self) -> str:
        return eventually(lambda: re.findall(r"setup code (\w+)", self.console()))[-1]

    def pin(self) -> str:
        return str(re.findall(r"sha256:[0-9a-f]{64}", self.console())[-1])

    def join(self, line: str, name: str, address: str = "127.0.0.1") -> Path:
        """Paste the line on a machine; where it keeps what it was told."""
        config = self.place / f"etc-{name}"
        env = {"PATH": f"{PIT.parent}:{os.environ['PATH']}", "HOME": str(self.place)}
        command = f"{line.strip()} --config {config} --address {address}"
        done = subprocess.run(
            ["/bin/sh", "-c", command], env=env, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done
        return config

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGKILL)
        process.wait(120)

    def close(self) -> None:
        for process in reversed(self._running):
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
        assert "Traceback" not in self.console(), self.console()

    def _start(
        self, command: list[str], inside: Sequence[str] = (), **settings: str
    ) -> subprocess.Popen[bytes]:
        env = {"PATH": f"{PIT.parent}:{os.environ['PATH']}", "HOME": str(self.place), **settings}
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [*inside, sys.executable, "-m", *command],
                env=env,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        self._running.append(process)
        return process

    def _answers(self) -> bool:
        host, _, port = self.url.removeprefix("https://").partition(":")
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0


class Person:
    """A user with a home, a project and a terminal."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab, self.name = lab, name
        self.home = lab.place / f"home-{name}"
        self.home.mkdir()
        self.project = Project(self.home)
        self.env = {
            "PATH": f"{PIT.parent}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "PIT_HOME": str(self.home / "none"),
            "LC_ALL": "C.UTF-8",
            "TERM": "dumb",
        }

    def pit(self, *arguments: str, input: str = "", cwd: Path | None = None, **env: str) -> Result:
        done = Result(*run_pit(arguments, cwd or self.project.path, {**self.env, **env}, 120, input))
        assert "Traceback" not in done.err, done.err
        return done

    def ok(self, *arguments: str, **options: Any) -> str:
        result = self.pit(*arguments, **options)
        assert result.code == 0, result
        return result.out

    def refused(self, *arguments: str, **options: Any) -> str:
        """What stderr says of a command that must not work."""
        result = self.pit(*arguments, **options)
        assert result.code == 1, result
        return result.err

    def json(self, *arguments: str) -> Any:
        return json.loads(self.ok(*arguments, "--json"))

    def at_terminal(self, *arguments: str) -> Terminal:
        return Terminal([str(PIT), *arguments], self.project.path, self.env)

    def register(self, terminal: Terminal, *, is_password_known: bool = False) -> None:
        """Answer the questions of a new user, from the full name on."""
        terminal.answer("Full name:", f"{self.name.capitalize()} Example")
        terminal.answer("E-mail address", f"{self.name}@example.org")
        if not is_password_known:
            terminal.answer("New password:", PASSWORD)
        terminal.answer("Repeat the password:", PASSWORD)

    def run(self, command: str, request: str = "[]", *options: str) -> int:
        return int(self.json("run", "a job", request, "-d", command, *options)["number"])
