"""`pit up` and `pit down`, with small stand-ins for the head's and the worker's programs."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pit.local import daemon as daemons
from pit.local.daemon import Daemon
from pit.local.local_cluster import State, environment, fold, without_own_venv
from tests.support.clusters.local import eventually, is_alive

HEAD = """
import json, pathlib, sys, threading
from tests.support.stubs.head import Handler, QuietServer, StubHead
from tests.support.stubs.users import a_node

options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
home = pathlib.Path(options["--home"])
home.mkdir(exist_ok=True)
for name in ("--user-file", "--node-file"):
    path = pathlib.Path(options[name])
    path.exists() or path.write_text("pit_x_1\\n")
(home / "node").write_text(options["--node"])
if sys.argv[1] == "setup":
    sys.exit()
if (home / "broken").exists():
    sys.exit("the head is broken\\nbeyond repair")
stub = StubHead(token="pit_x_1")

def node(method, path, query, body):
    if path != "/nodes/" + (home / "node").read_text():
        return None
    epochs = home.parent / "worker.epochs"
    epoch = len(epochs.read_text()) if epochs.exists() else 0
    return 200, a_node(path.rpartition("/")[2], state="online" if epoch else "new", epoch=epoch)

stub.people.answer = node
for job in json.loads((home / "jobs.json").read_text()) if (home / "jobs.json").exists() else ():
    stub.add_job(job)
host, _, port = options["--bind"].partition(":")
QuietServer((host, int(port)), type("Bound", (Handler,), {"stub": stub})).serve_forever()
"""
WORKER = """
import signal, sys
options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
with open(options["--spool"] + ".epochs", "a") as epochs:
    epochs.write("|")
signal.sigwait([signal.SIGTERM])
"""

RunPit = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def state(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[State]:
    monkeypatch.setenv("PIT_HOME", str(home / "state"))
    state = State.find()
    yield state
    for daemon in (state.worker, state.head):
        daemon.stop(0)


@pytest.fixture
def run_pit(tmp_path: Path, pit_env: dict[str, str], state: State) -> RunPit:
    """`pit` as a program, where `python -m pit_server` and `-m pit_worker` are the stand-ins."""
    for name, program in (("pit_server", HEAD), ("pit_worker", WORKER)):
        (tmp_path / "stand-ins" / name).mkdir(parents=True)
        (tmp_path / "stand-ins" / name / "__main__.py").write_text(program)
        (tmp_path / "stand-ins" / name / "__init__.py").touch()
    path = f"{tmp_path / 'stand-ins'}{os.pathsep}{pit_env['PYTHONPATH']}"
    env = {**pit_env, "PIT_HOME": str(state.root), "PYTHONPATH": path}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pit", *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)

    return run


def test_up_again_after_kill_and_down(run_pit: RunPit, state: State) -> None:
    up = run_pit("up")
    assert up.returncode == 0, up.stderr
    url = state.connect_file.read_text().splitlines()[0]
    assert up.stdout.splitlines()[0] == f"the head is up at {url}"
    assert 4 <= len(up.stdout.splitlines()) <= 6
    head_pid, worker_pid = state.head.get_pid(), state.worker.get_pid()
    assert state.root.stat().st_mode & 0o777 == 0o700

    again = run_pit("up")
    assert again.stdout.splitlines()[0] == f"the head is already up at {url}"
    assert (state.head.get_pid(), state.worker.get_pid()) == (head_pid, worker_pid)

    assert worker_pid is not None
    os.kill(worker_pid, signal.SIGKILL)
    eventually(lambda: not is_alive(worker_pid))
    assert run_pit("up").returncode == 0
    assert state.head.get_pid() == head_pid
    assert state.worker.get_pid() not in (None, worker_pid)

    down = run_pit("down")
    assert (down.returncode, down.stdout) == (0, "stopped the worker and the head\n")
    assert not state.head.is_alive()
    status = run_pit("status")
    assert (status.returncode, status.stderr.splitlines()[1]) == (1, "`pit up` starts it")
    assert run_pit("down").stdout == "nothing was up\n"


def test_down_refuses_while_jobs_run_unless_told(run_pit: RunPit, state: State) -> None:
    state.head_home.mkdir(parents=True)
    (state.head_home / "jobs.json").write_text(json.dumps([12, 13]))
    assert run_pit("up").returncode == 0
    down = run_pit("down")
    assert down.returncode == 1
    assert down.stderr == (
        "pit: 2 jobs still run: 12 (First light), 13 (First light)\n"
        "`pit down --leave` leaves them running, `pit down --stop` stops them first\n"
    )
    assert state.head.is_alive()
    assert run_pit("down", "--leave").stdout == "stopped the worker and the head\n"


def test_a_head_that_does_not_come_up_shows_its_last_words(run_pit: RunPit, state: State) -> None:
    state.head_home.mkdir(parents=True)
    (state.head_home / "broken").touch()
    up = run_pit("up")
    assert up.returncode == 1
    assert up.stderr.splitlines() == [
        "pit: the head ended at once",
        f"{state.head.log_file} ends with",
        "the head is broken",
        "beyond repair",
    ]


def test_a_taken_port_is_said(run_pit: RunPit) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        up = run_pit("up", "--port", str(taken.getsockname()[1]))
    assert up.returncode == 1
    assert up.stderr.endswith("is in use by another program\n`pit up` without --port finds a free one\n")


@pytest.mark.parametrize(
    ("name", "folded"),
    [("Anna.Smith", "anna-smith"), ("1st", "st"), ("ÄÖ", "node"), ("n0", "n0"), ("x-", "x")],
)
def test_names_are_folded_to_what_a_head_accepts(name: str, folded: str) -> None:
    assert fold(name, "node") == folded


def test_the_state_is_where_the_environment_says(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert State.find().root == home / ".local/share/pit"
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert State.find().root == Path("/data/pit")
    monkeypatch.setenv("PIT_HOME", "/pit")
    assert State.find().root == Path("/pit")


def test_relative_search_paths_hold_in_the_daemons_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f".{os.pathsep}protocol")
    assert environment()["PYTHONPATH"] == f"{home}{os.pathsep}{home}/protocol"


class TestSearchPathOfJobs:
    """The tests run in a virtual environment, which takes the place of pit's own."""

    own = str(Path(sys.prefix) / "bin")

    def test_pits_own_environment_is_left_out_wherever_and_however_it_is_written(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "link").symlink_to(self.own)
        path = os.pathsep.join([self.own, "/opt/bin", f"{self.own}/", f"{tmp_path}/link", "/usr/bin"])
        assert without_own_venv(path) == f"/opt/bin{os.pathsep}/usr/bin"

    def test_another_environment_that_is_active_stays_first(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", f"{home}/env/bin:{self.own}:/usr/bin")
        assert environment()["PIT_WORKER_SEARCH_PATH"] == f"{home}/env/bin:/usr/bin"

    def test_without_an_environment_of_its_own_nothing_is_left_out(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "prefix", sys.base_prefix)
        assert without_own_venv(f"{sys.base_prefix}/bin:/bin") == f"{sys.base_prefix}/bin:/bin"

    def test_a_search_path_that_was_set_is_used_as_it_is(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PIT_WORKER_SEARCH_PATH", f"{self.own}:/bin")
        assert environment()["PIT_WORKER_SEARCH_PATH"] == f"{self.own}:/bin"


class TestDaemon:
    @pytest.fixture
    def daemon(self, tmp_path: Path) -> Daemon:
        return Daemon("sleeper", tmp_path / "sleeper.pid", tmp_path / "sleeper.log")

    @pytest.fixture
    def stranger(self) -> Iterator[subprocess.Popen[bytes]]:
        with subprocess.Popen(["sleep", "60"]) as process:
            yield process
            process.kill()

    @pytest.mark.parametrize("identity", ["1 some-boot", "", "garbage"])
    def test_a_reused_pid_is_never_taken_for_ours(
        self, daemon: Daemon, stranger: subprocess.Popen[bytes], identity: str
    ) -> None:
        daemon.pid_file.write_text(f"{stranger.pid} {identity}\n")
        assert not daemon.is_alive()
        assert not daemon.stop(0)
        assert stranger.poll() is None

    def test_what_a_dead_one_left_behind_is_known(self, daemon: Daemon) -> None:
        script = "sleep 60 >&- & echo $!; read"
        with subprocess.Popen(
            ["bash", "-c", script], stdin=-1, stdout=-1, text=True, start_new_session=True
        ) as process:
            daemon.pid_file.write_text(f"{process.pid} {daemons._identity(process.pid)}\n")
            assert process.stdout is not None
            orphan = int(process.stdout.readline())
            alive = daemon.is_alive(), daemon.list_orphans()
            process.communicate("end\n")
        dead = daemon.is_alive(), daemon.list_orphans()
        os.kill(orphan, signal.SIGKILL)
        assert (alive, dead) == ((True, []), (False, [orphan]))

    def test_a_running_one_tells_what_it_was_told(
        self, daemon: Daemon, stranger: subprocess.Popen[bytes]
    ) -> None:
        daemon.pid_file.write_text(f"{stranger.pid} {daemons._identity(stranger.pid)}\n")
        assert (daemon.has_argument("60"), daemon.has_argument("6")) == (True, False)

    def test_one_that_ignores_the_request_is_ended_by_force(self, daemon: Daemon) -> None:
        script = "from signal import *; signal(SIGTERM, SIG_IGN); print('ready', flush=True); pause()"
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            daemon.pid_file.write_text(f"{process.pid} {daemons._identity(process.pid)}\n")
            assert daemon.stop(0.01)
        assert process.returncode == -signal.SIGKILL
        assert not daemon.is_alive()
