"""A parent that starts a program again after a crash, as systemd does for an installed worker.

`python -m pit.local.keeper COMMAND…` ends when the program ends in good order, or when a person has to act.
If it is killed itself, the kernel kills the program.
"""

import ctypes
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType

from pit_protocol.backoff import Backoff

FINAL = (0, 1, 2)  # exit codes after which another start would not help
HEALTHY_S = 60.0  # after running for so long, the next pause is a short one again
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def main(command: Sequence[str]) -> int:
    keeper = Keeper(command)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, keeper.on_signal)
    return keeper.run()


class Keeper:
    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._child: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()

    def run(self) -> int:
        """Run the program until it ends for good; its exit code."""
        backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        while True:
            began = time.monotonic()
            code = self._run_once()
            if code in FINAL or self._stopping.is_set():
                return code if code >= 0 else 128 - code
            if time.monotonic() - began > HEALTHY_S:
                backoff.reset()
            pause_s = backoff.delay_s()
            sys.stderr.write(
                f"pit: {self._command[0]} ended with {code}; it starts again in {pause_s:.1f} s\n"
            )
            sys.stderr.flush()
            if self._stopping.wait(pause_s):
                return 0

    def on_signal(self, number: int, _frame: FrameType | None) -> None:
        """Pass a signal on, and start nothing any more."""
        self._stopping.set()
        if self._child:
            self._child.send_signal(number)

    def _run_once(self) -> int:
        # This process has one thread, so it is safe to run code between fork and exec.
        self._child = subprocess.Popen(self._command, preexec_fn=_die_with_parent)
        if self._stopping.is_set():
            self._child.terminate()  # the signal came before there was a child
        return self._child.wait()


def _die_with_parent() -> None:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
