"""`parse`, the entry point: quick to import, because the parser is built on first use."""

from functools import cache
from typing import TYPE_CHECKING

from pit_grammar.errors import RequestError
from pit_grammar.request import Request

if TYPE_CHECKING:
    from pit_grammar.reader import Reader

MAX_LENGTH = 4096  # characters


def parse(text: str) -> Request:
    """Parse a request, or raise RequestError."""
    # First, so that a hostile text costs no time.
    if len(text) > MAX_LENGTH:
        message = f"the request has {len(text):,} characters; put equal processes into one group"
        raise RequestError(
            text, MAX_LENGTH + 1, message, (f"the end, after {MAX_LENGTH:,} characters",), "500:[a100]"
        )
    return _reader().read(text)


def corrected(error: RequestError) -> RequestError:
    """The error with the request that was probably meant, if there is one; parses several guesses."""
    from pit_grammar.corrections import corrections

    for why, text in corrections(error.text):
        try:
            parse(text)
        except RequestError:
            continue
        return RequestError(error.text, error.column, f"{why}: write {text}", error.expected, text)
    return error


@cache
def _reader() -> "Reader":
    # Imported here, because Lark takes tens of milliseconds to import and most commands parse no request.
    from pit_grammar.reader import Reader

    return Reader()
