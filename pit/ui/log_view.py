"""A job's log on a terminal, which redraws unfinished lines, and in a pipe, which gets versions of them."""

import json
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from pit.ui import output
from pit.ui.live import LiveArea, width
from pit.ui.render import log_line, log_source
from pit_protocol.answers.jobs import LogBatch, LogLine
from pit_protocol.wire import to_json


class Pace(NamedTuple):
    """When unfinished lines are shown."""

    pause_s: float  # between two versions
    hold_back: bool  # a line is shown only if it is still unfinished after the pause


REDRAWN = Pace(0.25, hold_back=False)  # smooth enough, and cheap for the head
REPEATED = Pace(1.0, hold_back=True)  # a program may write one line in several steps


class LogView(Protocol):
    pace: Pace

    def show(self, batch: LogBatch) -> None: ...
    def note(self, message: str) -> None:
        """Say something on stderr."""

    def end(self) -> None:
        """Nothing more follows."""


def choose_view(*, as_json: bool, follow: bool) -> LogView:
    colour = output.has_colour()
    if as_json:
        return LineView(lambda line: json.dumps(to_json(line)), follow=follow, keep_all=True)
    if follow and output.can_redraw():
        return TerminalView(colour=colour)
    return LineView(lambda line: log_line(line, colour=colour), follow=follow)


class LineView:
    """Prints whole lines: a new version of an unfinished line is a line of its own.

    Without `follow`, unfinished lines come once, at the end. With `keep_all`, a line is printed when it is
    finished even if it was printed like this before.
    """

    pace = REPEATED

    def __init__(
        self, render: Callable[[LogLine], str], *, follow: bool = True, keep_all: bool = False
    ) -> None:
        self._render = render
        self._follow = follow
        self._keep_all = keep_all
        self._unfinished: dict[str, LogLine] = {}

    def show(self, batch: LogBatch) -> None:
        lines = []
        for line in batch.lines:
            before = self._unfinished.pop(line.source, None)
            if not self._follow or self._keep_all or before is None or before.text != line.text:
                lines.append(line)
        for line in batch.unfinished:
            self._unfinished[line.source] = line
        self._print([*lines, *(batch.unfinished if self._follow else [])])

    def note(self, message: str) -> None:
        output.note(message)

    def end(self) -> None:
        if not self._follow:
            self._print(self._unfinished.values())

    def _print(self, lines: Iterable[LogLine]) -> None:
        if text := "\n".join(map(self._render, lines)):
            output.show(text)


class TerminalView:
    """Redraws the unfinished line of each process below the finished lines."""

    pace = REDRAWN

    def __init__(self, *, colour: bool, area: LiveArea | None = None) -> None:
        self._colour = colour
        self._area = area or LiveArea(output.show_part)
        self._unfinished: dict[str, LogLine] = {}

    def show(self, batch: LogBatch) -> None:
        for line in batch.lines:
            self._unfinished.pop(line.source, None)
        for line in batch.unfinished:
            self._unfinished[line.source] = line
        self._area.show([log_line(line, colour=self._colour) for line in batch.lines], self._rows())

    def note(self, message: str) -> None:
        self._area.clear()
        output.note(message)
        self._area.show([], self._rows())

    def end(self) -> None:
        self._area.leave()

    def _rows(self) -> list[str]:
        # `worker 2` comes before `worker 10`.
        sources = sorted(self._unfinished, key=lambda source: (len(source), source))
        return [self._row(self._unfinished[source]) for source in sources]

    def _row(self, line: LogLine) -> str:
        row = log_line(line, colour=self._colour)
        # The time of a line that still changes matters least.
        return row if width(row) < self._area.columns else log_source(line, colour=self._colour)
