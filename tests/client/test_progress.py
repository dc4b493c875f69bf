"""Bars: what a person at a terminal sees of a transfer, and that a pipe sees nothing."""

import os
import pty
import subprocess
import sys

import pytest

from pit.progress import bars

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


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 65536)
    except OSError:  # how a terminal says that the other side has left
        return b""
