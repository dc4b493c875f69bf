"""Escape control characters in untrusted text: no title or log line may control the user's terminal."""

import re
from collections.abc import Iterator

_ERASE = re.compile(r"\x1b\[[0-2]?K")  # progress bars clear the line that they rewrite
_SGR = re.compile(r"\x1b\[[0-9;:]*m")
# C0 without tab, DEL and C1; bidi controls, which change how text reads; separators that some
# terminals treat as line ends; lone surrogates, which no stream can encode.
_UNSAFE = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_RESET = "\x1b[0m"


def sanitize(text: object) -> str:
    """One line, with unsafe characters escaped as `\\x1b` or `\\u202e`."""
    return _UNSAFE.sub(_escaped, str(text))


def sanitize_lines(text: object) -> str:
    """Like `sanitize`, but keep line breaks."""
    return "\n".join(sanitize(line) for line in str(text).splitlines())


def sanitize_log(text: str, *, colour: bool) -> str:
    """A log line as a terminal would show it in the end; with `colour`, keep colour sequences."""
    text = _ERASE.sub("", _last_segment(text))
    if not colour:
        return sanitize(_SGR.sub("", text))
    pieces = [piece if is_colour else sanitize(piece) for piece, is_colour in split_colour(text)]
    return "".join((*pieces, _RESET)) if len(pieces) > 1 else "".join(pieces)


def split_colour(text: str) -> Iterator[tuple[str, bool]]:
    """The text in pieces, and whether each is a colour sequence."""
    position = 0
    for match in _SGR.finditer(text):
        if match.start() > position:
            yield text[position : match.start()], False
        yield match.group(), True
        position = match.end()
    if position < len(text):
        yield text[position:], False


def _last_segment(text: str) -> str:
    # A progress bar redraws its line after each `\r`; only its last state matters.
    return next((segment for segment in reversed(text.split("\r")) if segment), "")


def _escaped(match: re.Match[str]) -> str:
    code = ord(match.group())
    if 0xDC80 <= code <= 0xDCFF:  # how Python represents a byte that is not UTF-8
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
