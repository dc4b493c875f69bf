"""Desktop notifications, by a program on the PATH or by the terminal."""

import sys
from pathlib import Path

import pytest

from pit.ui import desktop
from tests.client.conftest import Pit
from tests.support.stubs.head import StubHead, an_ended


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the desktop's program was called with."""
    arguments, programs = tmp_path / "arguments", tmp_path / "bin"
    programs.mkdir()
    program = programs / "notify-send"
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" >> '{arguments}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(sys, "platform", "linux")
    return arguments


def test_wait_shows_how_each_job_ended(shown: Path, connected: StubHead, pit_command: Pit) -> None:
    connected.add_job(1, **an_ended(), title="-u \x1b[31mred")
    connected.add_job(2, **an_ended())
    assert pit_command("wait", "--notify", "1", "2").exit_code == 0
    lines = shown.read_text().splitlines()
    assert lines[:4] == ["--app-name=pit", "--", "pit: -u \\x1b[31mred", "job 1 succeeded"]
    assert lines[-1] == "job 2 succeeded"


def test_without_a_desktop_the_terminal_rings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in desktop.SESSION:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    desktop.notify("pit: a\x07b", "job 1 succeeded")
    assert capsys.readouterr().err == "\x1b]9;pit: a\\x07b: job 1 succeeded\x07\x07"
