"""Bars: what a person at a terminal sees of a transfer, and that a pipe sees nothing."""

import os
import pty
import subprocess
import sys
import threading

import pytest

from pit.progress import announced, bars, resumable

SCRIPT = """
from pit.progress import bars
with bars() as shown:
    first = shown.begin("model\\x1b[31m.bin", 4_000_000, done=1_000_000)
    second = shown.begin("unknown")
    first.advance(1_000_000)
    second.advance(5)
"""


def test_nothing_is_shown_where_stderr_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with bars() as shown:
        bar = shown.begin("model.bin", 10, done=3)
        bar.advance(7)
        bar.end()
    assert bar.done == 10
    assert capsys.readouterr() == ("", "")


def test_a_terminal_sees_each_by_name_with_its_part_and_no_foreign_sequences() -> None:
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


def test_long_work_is_announced_to_a_terminal_and_short_work_is_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pit.progress.QUIET_S", 0.0)
    with announced("packing"):
        pass
    assert capsys.readouterr().err == ""  # no terminal
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    told = threading.Event()
    monkeypatch.setattr("pit.output.tell", lambda words: (print(words, file=sys.stderr), told.set()))
    with announced("packing"):
        assert told.wait(10)
    assert capsys.readouterr().err == "packing ...\n"
    monkeypatch.setattr("pit.progress.QUIET_S", 60.0)
    with announced("reading"):
        pass
    assert capsys.readouterr().err == ""


def test_who_interrupts_is_told_how_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), resumable("`-c` goes on"):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "pit: interrupted\n`-c` goes on\n"


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 65536)
    except OSError:  # how a terminal says that the other side has left
        return b""
