"""What can be wrong with a request, and how it is shown to the person who typed it."""

_HALF_WIDTH = 36  # of the expression shown on each side of the caret
_PIECE_WIDTH = 24  # of a piece of the expression quoted in a sentence


class RequestError(Exception):
    """A text that is no request: where the mistake is, what was expected there, and what would work."""

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


class BrokenRule(ValueError):
    """A value that the language has no place for; whoever knows the column makes a RequestError of it."""

    def __init__(self, message: str, expected: str, example: str) -> None:
        super().__init__(message)
        self.expected = expected
        self.example = example
        self.position: int | None = None


def shorten(piece: str) -> str:
    """Render a piece of a request for a sentence: visible, and not too long to read."""
    shown = "".join(map(_visible, piece[: _PIECE_WIDTH + 1]))
    return shown if len(shown) <= _PIECE_WIDTH else shown[: _PIECE_WIDTH - 1] + "…"


def _window(text: str, position: int) -> tuple[str, int]:
    """Render the text around `position`; the number says how far right the caret stands."""
    before = "".join(map(_visible, text[max(0, position - _HALF_WIDTH - 1) : position]))
    after = "".join(map(_visible, text[position : position + _HALF_WIDTH + 1]))
    if len(before) > _HALF_WIDTH:
        before = "…" + before[1 - _HALF_WIDTH :]
    if len(after) > _HALF_WIDTH:
        after = after[: _HALF_WIDTH - 1] + "…"
    return before + after, len(before)


def _visible(char: str) -> str:
    # Beyond Latin letters a character may be two cells wide, none, or turn the
    # line around, and the caret would stand under another one.
    if char.isprintable() and char < "\u0250":
        return char
    return char.encode("unicode_escape").decode("ascii")
