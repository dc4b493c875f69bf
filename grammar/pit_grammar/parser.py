"""The way into the language: `parse`, which is cheap to import and builds the parser on first use."""

from functools import cache
from typing import TYPE_CHECKING

from pit_grammar.errors import RequestError
from pit_grammar.request import Request

if TYPE_CHECKING:
    from pit_grammar.reader import Reader

LONGEST = 4096  # characters


def parse(text: str) -> Request:
    """Return the request that `text` says, or raise RequestError."""
    # Before all else, so that a hostile text costs nothing, whatever is in it.
    if len(text) > LONGEST:
        message = f"the request has {len(text):,} characters; put like processes into one group"
        raise RequestError(
            text, LONGEST + 1, message, (f"the end, after {LONGEST:,} characters",), "500:[a100]"
        )
    return _reader().read(text)


@cache
def _reader() -> "Reader":
    # Imported here, for Lark takes tens of milliseconds to import, and most
    # commands of the client read no request.
    from pit_grammar.reader import Reader

    return Reader()
