"""Fixtures for the client's tests: a home directory, git projects, a stub head."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import click.testing
import pytest

from pit.cli import pit
from pit.connect.head_address import Address
from pit.connect.token_store import Account, keep_account
from pit_protocol.atomic_file import write_atomic
from tests.support.certificates import Certificate, a_certificate
from tests.support.git_projects import git
from tests.support.stubs.head import TOKEN, Server, StubHead

Pit = Callable[..., click.testing.Result]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory without the settings, tokens and git configuration of the developer."""
    path = tmp_path / "home"
    path.mkdir()
    for name in [name for name in os.environ if name.startswith(("GIT_", "PIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("TZ", "UTC")
    user = "[user]\nname = Anna\nemail = anna@example.org\n"
    (path / ".gitconfig").write_text(f"{user}[init]\ndefaultBranch = main\n[core]\ntrustctime = false\n")
    monkeypatch.chdir(path)
    return path


@pytest.fixture
def head() -> Iterator[StubHead]:
    with Server() as stub:
        yield stub


@pytest.fixture(scope="session")
def certificate() -> Certificate:
    """The head's self-signed certificate."""
    return a_certificate()


@pytest.fixture
def secure_head(certificate: Certificate, tmp_path: Path) -> Iterator[StubHead]:
    """A head with HTTPS and a self-signed certificate."""
    with Server(certificate.serving(tmp_path)) as stub:
        yield stub


@pytest.fixture
def known(secure_head: StubHead, certificate: Certificate, home: Path) -> StubHead:
    """A head whose certificate and token are stored in the home directory."""
    (home / ".pitconnect.txt").write_text(Address(secure_head.url, (certificate.pem,)).text)
    keep_account([certificate.pin], Account("anna", TOKEN))
    return secure_head


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interactive terminal; `input` of `pit_command` is what the user types."""
    monkeypatch.setattr("pit.ui.prompt.is_interactive", lambda: True)


@pytest.fixture
def connected(head: StubHead, home: Path) -> StubHead:
    """A head whose URL and token are stored in the home directory."""
    (home / ".pitconnect.txt").write_text(f"{head.url}\n")
    write_atomic(home / ".pituser.txt", f"{head.url} anna {TOKEN}\n")
    return head


@pytest.fixture
def pit_command() -> Pit:
    """Run `pit` with these arguments in this process."""
    runner = click.testing.CliRunner()

    def run(*arguments: str, input: str | None = None) -> click.testing.Result:
        return runner.invoke(pit, arguments, input=input)

    return run


@pytest.fixture
def pit_env(home: Path) -> dict[str, str]:
    """The environment to run `python -m pit` as a subprocess."""
    root = Path(__file__).parents[2]
    path = os.pathsep.join(str(root / name) for name in ("", "protocol", "grammar"))
    return {**os.environ, "PYTHONPATH": path}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one pushed commit, next to its remote."""
    remote, top = tmp_path / "remote.git", tmp_path / "project"
    git(tmp_path, "init", "--bare", "-q", str(remote))
    top.mkdir()
    git(top, "init", "-q")
    (top / ".compute").write_text("echo computing\n")
    (top / "model.py").write_text("print('one')\nprint('two')\n")
    (top / "data.bin").write_bytes(bytes(range(256)))
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "first")
    git(top, "remote", "add", "origin", str(remote))
    git(top, "push", "-q", "-u", "origin", "main")
    monkeypatch.chdir(top)
    return top


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry at once: no test waits in real time."""
    monkeypatch.setattr("pit.head.retry.FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr("pit.head.retry.TRIES", 2)
