"""No text from elsewhere steers the terminal."""

import pytest

from pit.safe import safe, safe_lines, safe_log


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
def test_what_could_steer_a_terminal_is_escaped(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_several_lines_stay_lines() -> None:
    assert safe_lines("a\x1b\nb") == "a\\x1b\nb"


def test_colours_of_a_log_are_kept_on_a_terminal_and_end_with_the_line() -> None:
    assert safe_log("\x1b[31mred\x1b[2J", colour=True) == "\x1b[31mred\\x1b[2J\x1b[0m"


def test_colours_of_a_log_are_left_out_in_a_pipe() -> None:
    assert safe_log("\x1b[1;31mred\x1b[0m \x1b[2J", colour=False) == "red \\x1b[2J"


@pytest.mark.parametrize(
    ("text", "shown"), [("10%\r50%\r100%\r", "100%"), ("\rdone", "done"), ("\r\r", ""), ("a\r\r", "a")]
)
def test_of_a_line_that_redraws_itself_the_last_state_is_shown(text: str, shown: str) -> None:
    assert safe_log(text, colour=False) == shown
