"""A person at a real terminal: types when asked, and sees what is shown."""

import os
import pty
import select
import signal
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class Terminal:
    def __init__(self, command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        self._controller, terminal = pty.openpty()
        self._process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)
        self.shown = ""
        self._answered = 0

    def press(self, keys: str) -> None:
        os.write(self._controller, keys.encode())

    def resize(self, rows: int, columns: int) -> None:
        termios.tcsetwinsize(self._controller, (rows, columns))
        os.kill(self._process.pid, signal.SIGWINCH)  # the kernel tells only the foreground group

    def modes(self) -> list[Any]:
        return termios.tcgetattr(self._controller)

    def see(self, text: str, within_s: float = 60.0) -> None:
        """Wait until it is shown, after all that was seen or answered."""
        deadline = time.monotonic() + within_s
        while (found := self.shown.find(text, self._answered)) < 0:
            if time.monotonic() > deadline or not self._read(deadline):
                self._process.kill()
                self.end()
                raise AssertionError(f"{text!r} not in {self.shown!r}")
        self._answered = found + len(text)

    def answer(self, question: str, text: str, within_s: float = 60.0) -> None:
        """Wait for the question, which must come after all that was answered, and type."""
        self.see(question, within_s)
        self.press(f"{text}\n")

    def end(self, within_s: float = 60.0) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + within_s
        while self._read(deadline):
            pass
        os.close(self._controller)
        return self._process.wait(within_s)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._controller], [], [], max(0.0, deadline - time.monotonic()))
        try:
            data = os.read(self._controller, 65536) if ready else b""
        except OSError:  # how a terminal says that nobody is there any more
            data = b""
        self.shown += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)
