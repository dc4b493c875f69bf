"""Lines that are redrawn at the bottom of a terminal."""

import re

import pytest

from pit.ui import log_view
from pit.ui.live import LiveArea, fit, width
from pit_protocol.answers.jobs import LogBatch, LogLine


class Screen:
    """As much of a terminal as the area uses."""

    def __init__(self, columns: int = 40, lines: int = 10) -> None:
        self.size = (columns, lines)
        self.rows = [""]
        self._row = self._column = 0

    def write(self, text: str) -> None:
        for part in re.findall(r"\x1b\[\d*[AJm]|\r|\n|[^\x1b\r\n]+", text):
            if part == "\r":
                self._column = 0
            elif part == "\n":
                self._row, self._column = self._row + 1, 0
                self.rows += [""] * (self._row + 1 - len(self.rows))
            elif part.endswith("A") and part.startswith("\x1b"):
                self._row -= int(part[2:-1])
            elif part == "\x1b[J":
                self.rows[self._row :] = [self.rows[self._row][: self._column]]
            elif not part.startswith("\x1b"):
                old = self.rows[self._row]
                assert len(old) <= self._column, "printed over something"
                self.rows[self._row] = old + part
                self._column += len(part)


@pytest.fixture
def screen() -> Screen:
    return Screen()


@pytest.fixture
def area(screen: Screen) -> LiveArea:
    return LiveArea(screen.write, lambda: screen.size)


def test_rows_are_redrawn_below_the_lines_that_stay(screen: Screen, area: LiveArea) -> None:
    area.show(["one"], ["a 10%", "b 10%"])
    area.show([], ["a 20%", "b 10%"])
    area.show(["two"], ["b 20%"])
    assert screen.rows == ["one", "two", "b 20%"]
    area.show(["b 30%"], [])
    assert screen.rows == ["one", "two", "b 30%", ""]


def test_rows_that_stay_on_the_screen_are_not_printed_over(screen: Screen, area: LiveArea) -> None:
    area.show([], ["a 10%"])
    area.leave()
    area.show(["pit: job 12 keeps running"], [])
    assert screen.rows[:2] == ["a 10%", "pit: job 12 keeps running"]


def test_more_rows_than_fit_are_counted(screen: Screen, area: LiveArea) -> None:
    area.show([], [f"worker {i}" for i in range(30)])
    assert screen.rows == [*(f"worker {i}" for i in range(4)), "... and 26 more"]


def test_rows_wrapped_by_a_narrower_terminal_are_removed(area: LiveArea, screen: Screen) -> None:
    written: list[str] = []
    area = LiveArea(written.append, lambda: screen.size)
    area.show([], ["x" * 39, "y"])
    screen.size = (20, 10)
    area.show([], [])
    assert written[-1] == "\r\x1b[2A\x1b[J"


def test_a_row_is_cut_by_cells_and_keeps_its_colours() -> None:
    assert fit("ab█漢字", 7) == "ab█漢字"
    assert fit("ab█漢字", 6) == "ab█漢…"
    assert fit("ab█漢字", 5) == "ab█…"
    assert fit("\x1b[31mred and more\x1b[0m", 5) == "\x1b[31mred …\x1b[0m"
    assert width("\x1b[31m漢\x1b[0m") == 2


def an_open(source: str, text: str) -> LogLine:
    return LogLine(0.0, source, text, unfinished=True)


def test_a_terminal_redraws_the_line_of_each_process(screen: Screen, area: LiveArea) -> None:
    view = log_view.TerminalView(colour=False, area=area)
    view.show(LogBatch([], "", False, [an_open("worker 10", "x"), an_open("worker 2", "y" * 20)]))
    assert [row.partition("[worker")[2] for row in screen.rows] == [" 2] " + "y" * 20, " 10] x"]
    view.show(LogBatch([LogLine(0.0, "worker 2", "done")], "", False))
    assert [row.partition("[worker")[2] for row in screen.rows] == [" 2] done", " 10] x"]


def test_the_time_is_left_out_of_a_row_that_is_too_wide(screen: Screen, area: LiveArea) -> None:
    log_view.TerminalView(colour=False, area=area).show(
        LogBatch([], "", False, [an_open("worker 0", "x" * 20)])
    )
    assert screen.rows == ["[worker 0] " + "x" * 20]


def test_a_message_is_printed_above_the_rows(
    screen: Screen, area: LiveArea, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pit.ui.output.note", lambda message: screen.write(f"pit: {message}\n"))
    view = log_view.TerminalView(colour=False, area=area)
    view.show(LogBatch([], "", False, [an_open("worker 0", "x" * 20)]))
    view.note("the head is back")
    assert screen.rows == ["pit: the head is back", "[worker 0] " + "x" * 20]
