"""Untrusted text cannot control the terminal."""

import pytest

from pit.ui.sanitize import sanitize, sanitize_lines, sanitize_log


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext ünï 漢字 🐍", "plain\ttext ünï 漢字 🐍"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b31m", "\\x9b31m"),
        ("abc\u202egpj.exe", "abc\\u202egpj.exe"),
        ("\u2066\u2069\u061c\u200f", "\\u2066\\u2069\\u061c\\u200f"),
        ("two\nlines\r", "two\\x0alines\\x0d"),
        ("\x00\x7f\x85\u2028", "\\x00\\x7f\\x85\\u2028"),
        ("\ud800", "\\ud800"),
    ],
)
@pytest.mark.threat("S45", "S51", "S53")
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert sanitize(text) == shown


def test_line_breaks_are_kept() -> None:
    assert sanitize_lines("a\x1b\nb") == "a\\x1b\nb"


def test_log_colours_are_kept_on_a_terminal_and_reset_at_the_end_of_the_line() -> None:
    assert sanitize_log("\x1b[31mred\x1b[2J", colour=True) == "\x1b[31mred\\x1b[2J\x1b[0m"


def test_log_colours_are_removed_in_a_pipe() -> None:
    assert sanitize_log("\x1b[1;31mred\x1b[0m \x1b[2J", colour=False) == "red \\x1b[2J"


@pytest.mark.parametrize(
    ("text", "shown"),
    [("10%\r50%\r100%\r", "100%"), ("\rdone", "done"), ("\r\r", ""), ("a\r\r", "a"), ("\r\x1b[K50%", "50%")],
)
def test_a_redrawn_line_shows_its_last_state(text: str, shown: str) -> None:
    assert sanitize_log(text, colour=False) == shown
