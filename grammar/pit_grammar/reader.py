"""Parse a text with request.lark; the only module that handles Lark's errors, and turns them into ours."""

from typing import Any, cast

from lark import Lark, UnexpectedInput, UnexpectedToken

from pit_grammar.builder import Builder
from pit_grammar.errors import RequestError, RuleError, shorten
from pit_grammar.request import Request

# A description and an example for each terminal; if several are expected, the first gives the example.
_TERMINALS = {
    "VALUE": ("the value of the label (r9)", "2:[a100]@rack=r9"),
    "NAME": ("the name of a node (n0) or of a label (rack)", "[2:a100]@n0"),
    "KIND": ("a kind (a100)", "[2:a100]"),
    "RSQB": ('"]"', "[2:a100,4:cpu]"),
    "OPEN": ('"["', "2:[a100]"),
    "NUMBER": ("a count (4)", "2-4:[a100]"),
    "COLON": ('":"', "2:[8:a100]"),
    "MINUS": ('"-"', "2-4:[a100]"),
    "EQUAL": ('"="', "2:[a100]@rack=r9"),
    "COMMA": ('","', "2:[],4:[a100]"),
    "AT": ('"@"', "[2:a100]@n0"),
    "$END": ("the end", "[]"),
}

# Common mistakes: a token, and the next one that is not allowed after it.
_HINTS = {
    ("KIND", "COLON"): "; the count comes first",
    ("KIND", "VALUE"): "; a kind is written without spaces",
}


class Reader:
    """The parser, built once; it keeps no state, so threads may share it."""

    def __init__(self) -> None:
        self._lark = Lark.open(
            "request.lark", rel_to=__file__, parser="lalr", start="request", transformer=Builder()
        )

    def read(self, text: str) -> Request:
        """Parse a request, or raise RequestError."""
        try:
            return cast(Request, self._lark.parse(text))
        except UnexpectedInput as error:
            raise _syntax_error(text, error) from error
        except RuleError as error:
            column = (error.position or 0) + 1
            raise RequestError(text, column, str(error), (error.expected,), error.example) from error


def _syntax_error(text: str, error: UnexpectedInput) -> RequestError:
    parser: Any = error.interactive_parser  # Lark gives `choices` no types
    choices = parser.choices()
    known = [terminal for name, terminal in _TERMINALS.items() if name in choices]
    position, message = _locate(text, error)
    return RequestError(text, position + 1, message, tuple(phrase for phrase, _ in known), known[0][1])


def _locate(text: str, error: UnexpectedInput) -> tuple[int, str]:
    """The position of the error, and a message about it."""
    if not isinstance(error, UnexpectedToken):
        position = error.pos_in_stream or 0
        return position, f'"{shorten(text[position])}" is not allowed here'
    if error.token.type != "$END":
        return error.token.start_pos or 0, f'"{shorten(error.token)}" is not allowed here{_hint(error)}'
    # At the end of the text Lark reports where the last token began.
    end = len(text.rstrip(" \t\r\n"))
    return end, "the request ends too early" if end else "the request is empty"


def _hint(error: UnexpectedToken) -> str:
    before = error.token_history[-1] if error.token_history else None
    return _HINTS.get((before.type, error.token.type), "") if before else ""
