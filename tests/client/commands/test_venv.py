"""`pit run --venv`: which files an environment is built from, and what is refused before anything is sent."""

from pathlib import Path

import pytest

from tests.client.conftest import Pit
from tests.support.stubs.head import StubHead


def sent_venv(connected: StubHead) -> tuple[str | None, str | None]:
    options = connected.submissions[-1]["options"]
    return options["venv"], options["python"]


def test_without_the_option_a_job_has_no_environment(
    connected: StubHead, checkout: Path, pit_command: Pit
) -> None:
    (checkout / "requirements.txt").write_text("coal\n")
    pit_command("run", "x")
    assert sent_venv(connected) == (None, None)


def test_a_locked_project_comes_before_requirements(
    connected: StubHead, checkout: Path, pit_command: Pit
) -> None:
    for name in ("requirements.txt", "uv.lock"):
        (checkout / name).touch()
    pit_command("run", "x", "--venv")
    assert sent_venv(connected) == ("requirements.txt", None), "uv.lock needs pyproject.toml"
    (checkout / "pyproject.toml").touch()
    pit_command("run", "x", "--venv", "--python", "3.12")
    assert sent_venv(connected) == ("uv.lock", "3.12")


def test_pitenv_is_the_default_and_options_come_first(
    connected: StubHead, checkout: Path, pit_command: Pit
) -> None:
    for name in ("requirements.txt", "gpu.txt"):
        (checkout / name).touch()
    (checkout / ".pitenv").write_text("")
    pit_command("run", "x")
    assert sent_venv(connected) == ("requirements.txt", None)
    (checkout / ".pitenv").write_text('# for the lab\npython = 3.12\nrequirements = "gpu.txt"\n')
    pit_command("run", "x")
    assert sent_venv(connected) == ("gpu.txt", "3.12")
    pit_command("run", "x", "--requirements", "requirements.txt")
    assert sent_venv(connected) == ("requirements.txt", "3.12")
    pit_command("run", "x", "--no-venv")
    assert sent_venv(connected) == (None, None)


@pytest.mark.parametrize(
    ("arguments", "pitenv", "sentence"),
    [
        (["--venv"], None, "there is no uv.lock with pyproject.toml and no requirements.txt in "),
        (["--requirements", "a.txt"], None, "there is no a.txt in "),
        (["--requirements", "/etc/hosts"], None, "'/etc/hosts' is not a path in the project"),
        (["--requirements", "../a.txt"], None, "'../a.txt' is not a path in the project"),
        (["--requirements", "ignored.txt"], None, "ignored.txt is ignored by git and would be left out"),
        (["--requirements", "ignored.txt", "--python", "4"], None, "'4' is not a version of Python such as"),
        ([], "pythn = 3.12", ".pitenv, line 1: 'pythn = 3.12' is not understood"),
        ([], "python 3.12", ".pitenv, line 1: 'python 3.12' is not understood"),
    ],
)
def test_what_no_node_could_build_is_refused_here(
    connected: StubHead,
    checkout: Path,
    pit_command: Pit,
    arguments: list[str],
    pitenv: str | None,
    sentence: str,
) -> None:
    (checkout / ".gitignore").write_text("ignored.txt\n")
    (checkout / "ignored.txt").touch()
    if pitenv:
        (checkout / ".pitenv").write_text(pitenv)
    result = pit_command("run", "x", *arguments)
    assert result.exit_code == 1
    assert sentence in result.stderr
    assert not connected.submissions
