"""Progress on stderr: bars with size, speed and remaining time, and notes about slow work.

`rich` is imported only for a terminal, because importing it takes a while.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pit.ui import output
from pit.ui.sanitize import sanitize

if TYPE_CHECKING:
    from rich.progress import Progress

QUIET_S = 1.0  # work that takes less is not announced


class Bar:
    """The progress of one transfer; shows nothing without a terminal. Any thread may advance it."""

    def __init__(self, progress: "Progress | None", name: str, total: int | None, done: int) -> None:
        self._progress = progress
        self.done = done
        if progress is not None:
            self._task = progress.add_task(sanitize(name), total=total, completed=done)

    def advance(self, size: int) -> None:
        self.done += size
        if self._progress is not None:
            self._progress.advance(self._task, size)

    def expect(self, total: int) -> None:
        """Set the total once it is known."""
        if self._progress is not None:
            self._progress.update(self._task, total=total)

    def end(self) -> None:
        """Remove the bar."""
        if self._progress is not None:
            self._progress.remove_task(self._task)


class Bars:
    """Several bars, each with a name."""

    def __init__(self, progress: "Progress | None" = None) -> None:
        self._progress = progress

    def begin(self, name: str, total: int | None = None, *, done: int = 0) -> Bar:
        """Add a bar; `done` is what an earlier attempt has already transferred."""
        return Bar(self._progress, name, total, done)


@contextmanager
def announce_if_slow(work: str) -> Iterator[None]:
    """Say on a terminal what pit is doing, if it takes longer than `QUIET_S`."""
    timer = threading.Timer(QUIET_S, output.note, [f"{work} ..."])
    timer.daemon = True
    if sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def hint_on_interrupt(hint: str) -> Iterator[None]:
    """On Ctrl-C, print how to resume."""
    try:
        yield
    except KeyboardInterrupt:
        output.note("interrupted", hint)
        raise


@contextmanager
def bars() -> Iterator[Bars]:
    """Show bars in this block; nothing if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield Bars()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield Bars(progress)
