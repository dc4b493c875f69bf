"""Text from elsewhere, made harmless: no title or log line may steer the user's terminal."""

import re

_SGR = re.compile(r"\x1b\[[0-9;:]*m")
# C0 without tab, DEL and C1; bidi controls, which make text read other than it is; separators
# that some terminals take for line ends; lone surrogates, which no stream can encode.
_UNSAFE = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_RESET = "\x1b[0m"


def safe(text: object) -> str:
    """One line of harmless text; what is unsafe shows as `\\x1b` or `\\u202e`."""
    return _UNSAFE.sub(_escaped, str(text))


def safe_lines(text: object) -> str:
    """Like `safe`, for texts that may have several lines."""
    return "\n".join(safe(line) for line in str(text).splitlines())


def safe_log(text: str, *, colour: bool) -> str:
    """A log line as a terminal would end up showing it; `colour` keeps colour sequences alone."""
    text = _last_segment(text)
    if not colour:
        return safe(_SGR.sub("", text))
    pieces: list[str] = []
    position = 0
    for match in _SGR.finditer(text):
        pieces += (safe(text[position : match.start()]), match.group())
        position = match.end()
    if not pieces:
        return safe(text)
    return "".join((*pieces, safe(text[position:]), _RESET))


def _last_segment(text: str) -> str:
    # A progress bar redraws its line after each `\r`; only its last state is of interest.
    return next((segment for segment in reversed(text.split("\r")) if segment), "")


def _escaped(match: re.Match[str]) -> str:
    code = ord(match.group())
    if 0xDC80 <= code <= 0xDCFF:  # how Python keeps a byte that is no UTF-8
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
