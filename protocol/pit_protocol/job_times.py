"""When a job may begin, how long it may run, and what its processes get before the end.

The options are texts, as users write them; this is what they mean.
"""

from datetime import datetime
from typing import NamedTuple

from pit_protocol.durations import parse_duration, parse_seconds

# Those that programs handle by themselves. SIGTERM ends the job anyway, and the others cannot be handled.
SIGNALS = ("HUP", "INT", "QUIT", "USR1", "USR2", "ALRM", "CONT", "WINCH")


STOP = "stop"
LEAST_STALL_S = 120.0  # use is measured every half minute


class Warned(NamedTuple):
    """A signal that the processes of a job get before its time is over."""

    signal: str  # without `SIG`
    before_s: float


def parse_signal(text: str) -> Warned:
    """Parse `USR1@120`, in seconds, or `USR1@2m`; raise ValueError."""
    name, at, before = text.strip().partition("@")
    signal = name.upper().removeprefix("SIG")
    if signal not in SIGNALS:
        raise ValueError(f"{name[:40]!r} is not a signal that it sends: write one of {', '.join(SIGNALS)}")
    if not at:
        raise ValueError(f"{text[:40]!r} does not say when: write {signal}@120, in seconds before the end")
    return Warned(signal, parse_seconds(before))


class Stall(NamedTuple):
    """After how long without output and use a job counts as stalled, and whether it is stopped then."""

    after_s: float
    stops: bool


def parse_stall(text: str) -> Stall:
    """Parse `30m` or `30m:stop`; raise ValueError."""
    duration, colon, then = text.strip().partition(":")
    after_s = parse_duration(duration)
    if after_s < LEAST_STALL_S:
        raise ValueError(f"{duration} is too short: write 2m or more")
    if colon and then != STOP:
        raise ValueError(
            f"{then[:40]!r} is not what happens then: write {duration}:{STOP}, or {duration} to be told"
        )
    return Stall(after_s, bool(colon))


def parse_moment(text: str) -> float:
    """Parse `2026-12-01T08:00+01:00` to seconds since 1970; raise ValueError."""
    try:
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is not None:
            return moment.timestamp()
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"{text[:40]!r} is not a time with its offset, such as 2026-12-01T08:00+01:00")


class Window(NamedTuple):
    """A period, in seconds since 1970."""

    start: float
    end: float


def parse_window(text: str) -> Window:
    """Parse `2026-12-01T08:00+01:00/4h`; raise ValueError."""
    begin, slash, length = text.strip().partition("/")
    if not slash:
        raise ValueError(f"{text[:40]!r} is not a begin and a length, such as 2026-12-01T08:00/4h")
    start = parse_moment(begin)
    return Window(start, start + parse_duration(length))
