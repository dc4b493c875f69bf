"""What `pit run` costs, in what can be counted: modules, requests and programs."""

import subprocess
import sys
from pathlib import Path

import pytest

from pit.snapshot import git_command
from tests.client.conftest import Pit
from tests.support.stubs.head import StubHead

MODULES = 460  # that the command imports, those of Python's own start included
HEAVY = ("git", "gitdb", "rich", "lark", "docker", "flask", "sqlalchemy", "cryptography")


@pytest.fixture
def git_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The verbs of all git programs that the client starts."""
    calls: list[str] = []
    run = subprocess.run

    def counted(command: list[str], *arguments: object, **options: object) -> object:
        if command[0] == "git":
            words = iter(command[1:])
            calls.append(next(word for word in words if word != "-c" or not next(words)))
        return run(command, *arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(git_command.subprocess, "run", counted)
    return calls


@pytest.mark.usefixtures("checkout")
def test_a_project_that_the_head_has_is_one_request(connected: StubHead, pit_command: Pit) -> None:
    assert pit_command("run", "first").exit_code == 0
    connected.calls.clear()
    result = pit_command("run", "second")
    assert result.exit_code == 0, result.output
    assert [(call.method, call.path) for call in connected.calls] == [("POST", "/jobs")]
    first, second = (sent["snapshot"] for sent in connected.submissions)
    assert first["tree"] == second["tree"]


def test_a_changed_project_is_negotiated(connected: StubHead, checkout: Path, pit_command: Pit) -> None:
    assert pit_command("run", "first").exit_code == 0
    (checkout / "new.txt").write_text("new\n")
    connected.calls.clear()
    assert pit_command("run", "second").exit_code == 0
    paths = [call.path for call in connected.calls if not call.path.startswith("/uploads/")]
    assert paths == ["/jobs", "/snapshots/offer", "/snapshots/missing", "/jobs"]
    assert connected.submissions[-1]["snapshot"]["pack"] in connected.uploads


def test_a_known_project_takes_few_gits(
    connected: StubHead, checkout: Path, pit_command: Pit, git_calls: list[str]
) -> None:
    for is_changed, most in ((False, 6), (True, 12)):
        if is_changed:
            (checkout / "new.txt").write_text("new\n")
        assert pit_command("run", "first").exit_code == 0
        git_calls.clear()
        assert pit_command("run", "second").exit_code == 0
        assert 0 < len(git_calls) <= most, git_calls


def test_the_command_imports_little() -> None:
    program = "import sys, pit.cli, pit.commands.run, pit.commands.status; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    assert not {name.partition(".")[0] for name in modules} & set(HEAVY)
    assert len(modules) <= MODULES, len(modules)
