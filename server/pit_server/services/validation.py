"""Validation of single numbers and texts from outside."""

import re

from pit_protocol.problem import Problem
from pit_protocol.wire import MAX_NUMBER

# What databases cannot store: NUL, and lone surrogates.
_ODD = re.compile("[\0\ud800-\udfff]")


def parse_number(name: str, text: str) -> float:
    """Parse a number of a query string; negative and huge ones raise a Problem."""
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
        raise Problem(f"bad_{what}", f"{what} must not contain a NUL or an invalid character", status=422)


def storable(text: str) -> str:
    """Replace what cannot be stored."""
    return _ODD.sub("\ufffd", text)
