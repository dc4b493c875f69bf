"""Errors in a request, and how they are shown to the user."""

_HALF_WIDTH = 36  # characters shown on each side of the caret
_QUOTE_WIDTH = 24  # characters of the request quoted in a sentence


class RequestError(Exception):
    """The text is not a valid request: where the error is, what was expected, and a valid example."""

    def __init__(self, text: str, column: int, message: str, expected: tuple[str, ...], example: str) -> None:
        super().__init__(text, column, message, expected, example)
        self.text = text
        self.column = column
        self.message = message
        self.expected = expected
        self.example = example

    def __str__(self) -> str:
        shown, caret = _window(self.text, self.column - 1)
        expected = " or ".join(filter(None, (", ".join(self.expected[:-1]), self.expected[-1])))
        return (
            f"{self.message}\n"
            f"  {shown}\n"
            f"  {' ' * caret}^\n"
            f"expected here: {expected}\n"
            f"for example: {self.example}"
        )


class RuleError(ValueError):
    """A value that breaks a rule of the language; the parser adds the column and raises RequestError."""

    def __init__(self, message: str, expected: str, example: str) -> None:
        super().__init__(message)
        self.expected = expected
        self.example = example
        self.position: int | None = None


def shorten(piece: str) -> str:
    """Quote a part of a request in a sentence: printable, and truncated if it is long."""
    shown = "".join(map(_visible, piece[: _QUOTE_WIDTH + 1]))
    return shown if len(shown) <= _QUOTE_WIDTH else shown[: _QUOTE_WIDTH - 1] + "…"


def _window(text: str, position: int) -> tuple[str, int]:
    """The text around `position`, and the column of the caret in it."""
    before = "".join(map(_visible, text[max(0, position - _HALF_WIDTH - 1) : position]))
    after = "".join(map(_visible, text[position : position + _HALF_WIDTH + 1]))
    if len(before) > _HALF_WIDTH:
        before = "…" + before[1 - _HALF_WIDTH :]
    if len(after) > _HALF_WIDTH:
        after = after[: _HALF_WIDTH - 1] + "…"
    return before + after, len(before)


def _visible(char: str) -> str:
    # Beyond Latin letters a character may have zero or two cells, or reverse the text direction, and the
    # caret would point to the wrong one.
    if char.isprintable() and char < "\u0250":
        return char
    return char.encode("unicode_escape").decode("ascii")
