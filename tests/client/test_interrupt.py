"""Ctrl-C at any moment prints nothing but what the command says about it."""

import subprocess
import sys

PROGRAM = """
import signal
from pit.__main__ import interrupt

class HalfMade:
    def __init__(self):
        signal.raise_signal(signal.SIGINT)
        self.file = None

    def __del__(self):
        self.file.close()

signal.signal(signal.SIGINT, interrupt)
try:
    HalfMade()
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_object_that_was_left_half_made_does_not_complain() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")
