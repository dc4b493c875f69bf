"""What the client's tests have in common: a home of their own, real git projects, a stub head."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import click.testing
import pytest

from pit.accounts import Account, keep_account
from pit.address import Address
from pit.cli import pit
from tests.certificates import Certificate, a_certificate
from tests.client.projects import git
from tests.client.stub_head import TOKEN, Server, StubHead

Pit = Callable[..., click.testing.Result]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without the settings, tokens and git configuration of whoever runs the tests."""
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
    """The head's own certificate, for which nobody vouches."""
    return a_certificate()


@pytest.fixture
def secure_head(certificate: Certificate, tmp_path: Path) -> Iterator[StubHead]:
    """A head that is reached by HTTPS and shows its own certificate."""
    with Server(certificate.serving(tmp_path)) as stub:
        yield stub


@pytest.fixture
def known(secure_head: StubHead, certificate: Certificate, home: Path) -> StubHead:
    """A head that the home knows by its certificate, with a token."""
    (home / ".pitconnect.txt").write_text(Address(secure_head.url, (certificate.pem,)).text)
    keep_account([certificate.pin], Account("anna", TOKEN))
    return secure_head


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Someone sits there who can be asked; `input` of `pit_command` is what he types."""
    monkeypatch.setattr("pit.terminal.is_interactive", lambda: True)


@pytest.fixture
def connected(head: StubHead, home: Path) -> StubHead:
    """A head that the home directory knows, with a token."""
    (home / ".pitconnect.txt").write_text(f"{head.url}\n")
    (home / ".pituser.txt").write_text(f"{head.url} anna {TOKEN}\n")
    return head


@pytest.fixture
def pit_command() -> Pit:
    """`pit` with these arguments, in this process."""
    runner = click.testing.CliRunner()

    def run(*arguments: str, input: str | None = None) -> click.testing.Result:
        return runner.invoke(pit, arguments, input=input)

    return run


@pytest.fixture
def pit_env(home: Path) -> dict[str, str]:
    """The environment in which `python -m pit` runs as a program of its own."""
    root = Path(__file__).parents[2]
    path = os.pathsep.join(str(root / name) for name in ("", "protocol", "grammar"))
    return {**os.environ, "PYTHONPATH": path}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one pushed commit, and its remote beside it."""
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
    """Ask and send again at once: no test waits on real time."""
    monkeypatch.setattr("pit.patience.FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr("pit.patience.PAUSES_S", (0.0, 0.0))
