"""Words and bars on stderr for what takes its time: how much is done, how fast, how long it still takes.

`rich` is imported for a terminal only.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pit import output
from pit.safe import safe

if TYPE_CHECKING:
    from rich.progress import Progress

QUIET_S = 1.0  # for so long nobody wonders


class Bar:
    """One transfer; does nothing where nobody looks. Any thread may advance it."""

    def __init__(self, progress: "Progress | None", name: str, total: int | None, done: int) -> None:
        self._progress = progress
        self.done = done
        if progress is not None:
            self._task = progress.add_task(safe(name), total=total, completed=done)

    def advance(self, size: int) -> None:
        self.done += size
        if self._progress is not None:
            self._progress.advance(self._task, size)

    def expect(self, total: int) -> None:
        """Tell the total once it is known."""
        if self._progress is not None:
            self._progress.update(self._task, total=total)

    def end(self) -> None:
        """Take the bar away, for others to come."""
        if self._progress is not None:
            self._progress.remove_task(self._task)


class Bars:
    """Several of them, each under its name."""

    def __init__(self, progress: "Progress | None" = None) -> None:
        self._progress = progress

    def begin(self, name: str, total: int | None = None, *, done: int = 0) -> Bar:
        """A new bar; `done` is what an earlier try has brought already."""
        return Bar(self._progress, name, total, done)


@contextmanager
def announced(words: str) -> Iterator[None]:
    """Tell who looks at a terminal what goes on, if it takes a while."""
    timer = threading.Timer(QUIET_S, output.tell, [f"{words} ..."])
    timer.daemon = True
    if sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def resumable(way: str) -> Iterator[None]:
    """Tell who interrupts it how it goes on."""
    try:
        yield
    except KeyboardInterrupt:
        output.tell("interrupted", way)
        raise


@contextmanager
def bars() -> Iterator[Bars]:
    """Show bars while inside; nothing if stderr is no terminal."""
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
