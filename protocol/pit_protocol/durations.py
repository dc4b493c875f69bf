"""Lengths of time in seconds, and how people write them."""

import re
from functools import lru_cache

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0
UNITS_S = {"w": 7 * DAY_S, "d": DAY_S, "h": HOUR_S, "m": MINUTE_S, "s": 1.0}
LONGEST_S = 3650 * DAY_S
_PART = re.compile(r"([0-9]{1,9})([wdhms])")


@lru_cache(maxsize=1024)
def parse_duration(text: str) -> float:
    """Parse `90s`, `2h` or `1h30m`; raise ValueError."""
    text = text.strip()
    parts = _PART.findall(text)
    seconds = sum(int(count) * UNITS_S[unit] for count, unit in parts)
    if "".join(map("".join, parts)) != text or not 0 < seconds <= LONGEST_S:
        raise ValueError(f"{text[:40]!r} is not a length of time: write 90s, 10m, 2h or 1d12h")
    return seconds


def parse_seconds(text: str) -> float:
    """The same, where a number alone is in seconds."""
    text = text.strip()
    is_number = text.isascii() and text.isdecimal() and int(text) > 0
    return parse_duration(f"{text}s" if is_number else text)


def render_duration(seconds: float) -> str:
    """The inverse of `parse_duration`, such as `1h30m`; weeks are written as days."""
    left, parts = max(1, round(seconds)), []
    for unit in "dhms":
        count, left = divmod(left, int(UNITS_S[unit]))
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)
