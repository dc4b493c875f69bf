"""Lines of the log that say what keeps the job from going on.

They are not stored: a reader gets one when what delays the job is not what its cursor says it was told
of. So the log of a job whose reason changes often does not grow, and a reader gets few lines.
"""

import re
from typing import NamedTuple

from pit_protocol.answers.jobs import LogLine
from pit_protocol.states import JobState
from pit_server.services.jobs.records.delays import Delay

SEPARATOR = "."  # in a cursor, before what its reader was told of; not in the alphabet of the rest
EVERY_S = 10.0  # a reader gets at most one line in this time
QUEUED = (JobState.PREPARING, JobState.WAITING)
SILENT = "s"  # marks what was told of a placed job: that a node is silent
_FORM = re.compile(r"([sw]?[0-9a-f]{0,8})-([0-9]{1,12})")


class Told(NamedTuple):
    """What a reader was told last, and when."""

    mark: str = ""
    at: int = 0


def tell(state: JobState, delay: Delay | None, told: Told, *, now: float) -> tuple[list[LogLine], Told]:
    """The line that is due, if any, and what the reader has then been told."""
    if state is JobState.ENDED:
        return [], Told()
    mark = "" if delay is None else _mark(state, delay)
    # A clock that was set back must not silence the log.
    if mark == told.mark or 0 <= now - told.at < EVERY_S:
        return [], told
    if delay is not None:
        return [_line(now, _text(state, delay))], Told(mark, int(now))
    back = [_line(now, "all its nodes answer again")] if told.mark.startswith(SILENT) else []
    return back, Told("", told.at)


def parse_told(cursor: str) -> Told:
    match = _FORM.fullmatch(cursor.partition(SEPARATOR)[2])
    return Told(match[1], int(match[2])) if match else Told()


def render_told(told: Told) -> str:
    return f"{SEPARATOR}{told.mark}-{told.at}" if told.at else ""


def _mark(state: JobState, delay: Delay) -> str:
    return f"{'w' if state in QUEUED else SILENT}{delay.mark}"


def _text(state: JobState, delay: Delay) -> str:
    if state not in QUEUED:
        return delay.text
    is_sentence = delay.text.startswith("waits ")
    return f"waiting {delay.text.removeprefix('waits ')}" if is_sentence else f"waiting: {delay.text}"


def _line(now: float, text: str) -> LogLine:
    return LogLine(now, "head", text)
