"""Judging single numbers and texts that come from outside."""

import re

from pit_protocol.problem import Problem
from pit_protocol.wire import MAX_NUMBER

# What no database stores: NUL, and halves of characters.
_ODD = re.compile("[\0\ud800-\udfff]")


def parse_number(name: str, text: str) -> float:
    """A number of a query, neither negative nor beyond all bounds."""
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= MAX_NUMBER:
        raise Problem("bad_number", f"{name} must be a number, not {text[:40]!r}", status=422)
    return value


def check_text(what: str, text: str, longest: int, *, shortest: int = 0) -> None:
    if not shortest <= len(text) <= longest:
        raise Problem(
            f"bad_{what}", f"{what} must have {shortest} to {longest} characters, not {len(text)}", status=422
        )
    if _ODD.search(text):
        raise Problem(f"bad_{what}", f"{what} cannot hold a NUL character or half a character", status=422)


def storable(text: str) -> str:
    """The text with what cannot be stored replaced."""
    return _ODD.sub("\ufffd", text)
