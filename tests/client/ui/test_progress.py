"""Progress is shown on a terminal and not in a pipe."""

import os
import pty
import subprocess
import sys
import threading

import pytest

from pit.ui.progress import announce_if_slow, bars, hint_on_interrupt

SCRIPT = """
from pit.ui.progress import bars
with bars() as shown:
    first = shown.begin("model\\x1b[31m.bin", 4_000_000, done=1_000_000)
    second = shown.begin("unknown")
    first.advance(1_000_000)
    second.advance(5)
"""


def test_nothing_is_shown_if_stderr_is_not_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with bars() as shown:
        bar = shown.begin("model.bin", 10, done=3)
        bar.advance(7)
        bar.end()
    assert bar.done == 10
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_each_bar_with_its_sanitized_name() -> None:
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen([sys.executable, "-c", SCRIPT], stderr=follower, env=environment) as process:
        os.close(follower)
        shown = b""
        while data := _read(leader):
            shown += data
    os.close(leader)
    assert process.returncode == 0
    assert b"2.0/4.0 MB" in shown
    assert b"model\\x1b[31m.bin" in shown
    assert b"unknown" in shown


def test_slow_work_is_announced_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pit.ui.progress.QUIET_S", 0.0)
    with announce_if_slow("packing"):
        pass
    assert capsys.readouterr().err == ""  # no terminal
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    announced = threading.Event()
    monkeypatch.setattr("pit.ui.output.note", lambda words: (print(words, file=sys.stderr), announced.set()))
    with announce_if_slow("packing"):
        assert announced.wait(120)
    assert capsys.readouterr().err == "packing ...\n"
    monkeypatch.setattr("pit.ui.progress.QUIET_S", 60.0)
    with announce_if_slow("reading"):
        pass
    assert capsys.readouterr().err == ""


def test_an_interrupt_prints_how_to_resume(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), hint_on_interrupt("`-c` goes on"):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "pit: interrupted\n`-c` goes on\n"


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 65536)
    except OSError:  # the other side closed the terminal
        return b""
