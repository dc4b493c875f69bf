"""Render and parse times and ages, in the user's time zone."""

import re
from contextlib import suppress
from datetime import datetime, timedelta
from math import inf

from pit_protocol.durations import parse_duration

MINUTE, HOUR, DAY = 60, 3600, 86400
_AGE = re.compile(r"(\d+)([smhdw])")
_UNITS = {"s": 1, "m": MINUTE, "h": HOUR, "d": DAY, "w": 7 * DAY}
_STEPS = ((2 * HOUR, MINUTE, "min"), (2 * DAY, HOUR, "h"), (inf, DAY, "days"))  # up to so long, in this unit
_DAYS = ("today", "yesterday")
FORMS = "today, 14:00, 2026-04-01, '2026-04-01 17:05' or an age such as 90m"
BEGINS = "22:00, 2026-12-01T08:00, or a length of time from now such as 2h"
_FORMATS = ("%Y", "%Y-%m", "%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S")


def local_time(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S")


def clock_time(at: float, now: float) -> str:
    """`14:20` if that is today, else `2026-04-01 14:20`."""
    text = local_time(at)[:-3]
    return text[11:] if text[:10] == local_time(now)[:10] else text


def get_local_time(at: float | None) -> str:
    return "-" if at is None else local_time(at)


def get_local_date(at: float | None) -> str:
    return get_local_time(at)[:10]


def short_age(seconds: float) -> str:
    """An age in at most two units: `12s`, `3m`, `2h 5m`, `4d`."""
    whole = max(0, int(seconds))
    if whole < MINUTE:
        return f"{whole}s"
    if whole < HOUR:
        return f"{whole // MINUTE}m"
    if whole < DAY:
        hours, minutes = whole // HOUR, whole % HOUR // MINUTE
        return f"{hours}h {minutes}m" if minutes else f"{hours}h"
    return f"{whole // DAY}d"


def start_text(starts: tuple[float, float], now: float) -> str:
    """When a job starts, not before and not after: `starts in 10 to 40 min`."""
    low, high = (max(0.0, at - now) for at in starts)
    if high < MINUTE:
        return "starts within a minute"
    unit, name = next((size, name) for most, size, name in _STEPS if high <= most)
    least, most = int(low // unit), int(-(-high // unit))
    if least == 0:
        return f"starts within {most} {name}"
    return (
        f"starts in about {most} {name}"
        if most - least <= max(1, most // 10)
        else f"starts in {least} to {most} {name}"
    )


def parse_time(text: str, now: float) -> float:
    """Parse `2026-04-01 17:05`, `today`, `14:00` or `90m` (ago) to seconds since 1970; raise ValueError."""
    text = text.strip()
    age = _AGE.fullmatch(text)
    try:
        if day := _day(text, now):
            return day.timestamp()
        if age:
            ago = timedelta(seconds=int(age[1]) * _UNITS[age[2]])
            return (datetime.fromtimestamp(now) - ago).timestamp()
        for form in _FORMATS:
            if moment := _moment(text.replace("T", " "), form):
                return moment.timestamp()
    except OverflowError:
        pass
    raise ValueError(f"{text!r} is not a time: write {FORMS}")


def _day(text: str, now: float) -> datetime | None:
    """The beginning of `today` or `yesterday`, or the last time that a clock showed `14:00`."""
    present = datetime.fromtimestamp(now)
    midnight = present.replace(hour=0, minute=0, second=0, microsecond=0)
    if text in _DAYS:
        return midnight - timedelta(days=_DAYS.index(text))
    if not (clock := _moment(text, "%H:%M") or _moment(text, "%H:%M:%S")):
        return None
    moment = datetime.combine(midnight, clock.time())
    return moment if moment <= present else moment - timedelta(days=1)


def parse_begin(text: str, now: float) -> str:
    """Parse `22:00`, `2026-12-01T08:00` or `2h` (from now) to a time with its offset; raise ValueError."""
    text = text.strip()
    moment = _parse_begin(text, now)
    if moment is None:
        raise ValueError(f"{text[:40]!r} is not a time: write {BEGINS}")
    if moment.timestamp() < now:
        raise ValueError(f"{text[:40]} is in the past: write {BEGINS}")
    return moment.astimezone(moment.tzinfo).isoformat(timespec="seconds")


def parse_local_window(text: str, now: float) -> str:
    """Parse `2026-12-01T08:00/4h` to a begin with its offset, and a length; raise ValueError."""
    begin, _, length = text.strip().partition("/")
    moment = _parse_begin(begin.strip(), now)
    if moment is None or not length:
        raise ValueError(f"{text[:40]!r} is not a begin and a length: write 2026-12-01T08:00/4h or 22:00/90m")
    parse_duration(length)
    return f"{moment.astimezone(moment.tzinfo).isoformat(timespec='seconds')}/{length.strip()}"


def _parse_begin(text: str, now: float) -> datetime | None:
    """The moment, in the user's time zone unless it names another one."""
    with suppress(ValueError):
        return datetime.fromtimestamp(now + parse_duration(text))
    present = datetime.fromtimestamp(now)
    if clock := _moment(text, "%H:%M") or _moment(text, "%H:%M:%S"):
        moment = datetime.combine(present.date(), clock.time())
        return moment if moment > present else moment + timedelta(days=1)
    with suppress(ValueError):
        return datetime.fromisoformat(text)
    return None


def _moment(text: str, form: str) -> datetime | None:
    try:
        return datetime.strptime(text, form)
    except ValueError:
        return None
