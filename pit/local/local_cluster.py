"""The head and the worker of `pit up`: their files, names and commands."""

import fcntl
import getpass
import os
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pit.local.daemon import Daemon
from pit.text_files import read_text
from pit_protocol.atomic_file import write_atomic

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class State:
    """The directory with all state of an embedded head and its worker."""

    root: Path

    @classmethod
    def find(cls) -> "State":
        if chosen := os.environ.get("PIT_HOME"):
            return cls(Path(chosen).absolute())
        data = os.environ.get("XDG_DATA_HOME", "")
        return cls((Path(data) if data.startswith("/") else Path.home() / ".local/share") / "pit")

    @property
    def head_home(self) -> Path:
        return self.root / "head"

    @property
    def connect_file(self) -> Path:
        return self.root / "connect.txt"

    @property
    def user_token(self) -> Path:
        return self.root / "user.token"

    @property
    def node_token(self) -> Path:
        return self.root / "node.token"

    @property
    def spool(self) -> Path:
        return self.root / "worker"

    @property
    def head(self) -> Daemon:
        return Daemon("head", self.root / "head.pid", self.root / "head.log")

    @property
    def worker(self) -> Daemon:
        return Daemon("worker", self.root / "worker.pid", self.root / "worker.log")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the directory: two `pit up` at once start one head."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.root / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


@dataclass(frozen=True)
class Names:
    """What `connect.txt` fixes at the first `pit up`, even if the machine is renamed later."""

    url: str
    node: str
    user: str

    @property
    def bind(self) -> str:
        return self.url.removeprefix("http://")

    @property
    def port(self) -> int:
        return int(self.bind.rpartition(":")[2])


def get_url() -> str | None:
    names = get_names(State.find())
    return names.url if names else None


def get_names(state: State) -> Names | None:
    lines = (read_text(state.connect_file) or "").split()
    return Names(*lines) if len(lines) == 3 and re.fullmatch(r"http://127\.0\.0\.1:\d+", lines[0]) else None


def keep_names(state: State, port: int) -> Names:
    """Choose the names once; only the port may change later."""
    known = get_names(state)
    names = Names(
        f"http://{LOOPBACK}:{port}",
        known.node if known else fold(socket.gethostname().partition(".")[0], "node"),
        known.user if known else fold(getpass.getuser(), "user"),
    )
    if names != known:
        write_atomic(state.connect_file, f"{names.url}\n{names.node}\n{names.user}\n", sync=True)
    return names


def fold(name: str, fallback: str) -> str:
    """A name that a head accepts, from the name of a machine or a person."""
    folded = re.sub(r"[^a-z0-9_-]+", "-", name.lower())
    return re.sub(r"^[^a-z]+", "", folded).rstrip("-") or fallback


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def setup_command(state: State, names: Names) -> list[str]:
    return [*_head(), "setup", *_home(state), *_local(state, names)]


def head_command(state: State, names: Names) -> list[str]:
    return [*_head(), "serve", *_home(state), "--bind", names.bind, *_local(state, names), "--embedded"]


def worker_command(state: State, names: Names) -> list[str]:
    token = ["--token-file", str(state.node_token)]
    place = ["--spool", str(state.spool), "--address", LOOPBACK]
    keeper = [sys.executable, "-m", "pit.local.keeper"]
    return [*keeper, sys.executable, "-m", "pit_worker", "run", "--url", names.url, *token, *place]


def environment() -> dict[str, str]:
    """The daemons' environment; they run in another directory, so paths must be absolute."""
    env = dict(os.environ)
    if path := env.get("PYTHONPATH"):
        env["PYTHONPATH"] = os.pathsep.join(
            str(Path(part).absolute()) for part in path.split(os.pathsep) if part
        )
    # The head runs as the user: it may fetch what the user may, and jobs find the user's programs.
    env.setdefault("PIT_HEAD_GIT_PROTOCOLS", "https,ssh,http,git,file")
    env.setdefault("PIT_HEAD_GIT_LOCAL_HOSTS", "*")
    # Also where the user is root: jobs may do what the user may.
    env.setdefault("PIT_WORKER_RUN_AS", "worker")
    env.setdefault("PIT_WORKER_SEARCH_PATH", without_own_venv(env.get("PATH", os.defpath)))
    return env


def without_own_venv(search_path: str) -> str:
    """The search path without the programs of pit's own virtual environment, if pit is in one.

    Another environment that the user has activated stays: its `python3` is the one they use.
    """
    if sys.prefix == sys.base_prefix:
        return search_path
    own = Path(sys.prefix, "bin").resolve()
    parts = search_path.split(os.pathsep)
    return os.pathsep.join(part for part in parts if not part or Path(part).resolve() != own)


def _head() -> list[str]:
    return [sys.executable, "-m", "pit_server"]


def _local(state: State, names: Names) -> list[str]:
    files = ["--user-file", str(state.user_token), "--node-file", str(state.node_token)]
    return ["--user", names.user, "--node", names.node, *files]


def _home(state: State) -> list[str]:
    return ["--home", str(state.head_home)]
