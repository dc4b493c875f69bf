"""Escape control characters in untrusted text: no title or log line may control the user's terminal."""

import re

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
    text = _last_segment(text)
    if not colour:
        return sanitize(_SGR.sub("", text))
    pieces: list[str] = []
    position = 0
    for match in _SGR.finditer(text):
        pieces += (sanitize(text[position : match.start()]), match.group())
        position = match.end()
    if not pieces:
        return sanitize(text)
    return "".join((*pieces, sanitize(text[position:]), _RESET))


def _last_segment(text: str) -> str:
    # A progress bar redraws its line after each `\r`; only its last state matters.
    return next((segment for segment in reversed(text.split("\r")) if segment), "")


def _escaped(match: re.Match[str]) -> str:
    code = ord(match.group())
    if 0xDC80 <= code <= 0xDCFF:  # how Python represents a byte that is not UTF-8
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
