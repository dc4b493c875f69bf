"""Notes for those who wait: what keeps a job from going on."""

import sys
import time

from pit.ui import output
from pit_protocol.answers.jobs import JobRecord
from pit_protocol.states import JobState

EVERY_S = 10.0  # a job has at most one note in this time, because its reason may change often


class DelayNotes:
    """What was said about each job that is waited for; nothing is said unless someone can read it."""

    def __init__(self, *, is_wanted: bool | None = None) -> None:
        self._is_wanted = sys.stderr.isatty() if is_wanted is None else is_wanted
        self._seen: dict[int, str] = {}
        self._told: dict[int, tuple[str, float]] = {}

    def seen(self, number: int) -> str | None:
        """The delay that the head need not report again; None: it should report none."""
        return self._seen.get(number, "") if self._is_wanted else None

    def look(self, record: JobRecord) -> None:
        """Say what delays the job, if that is new."""
        if not self._is_wanted or record.state == JobState.ENDED:
            return
        self._seen[record.id] = record.delay
        told, at = self._told.get(record.id, ("", -EVERY_S))
        if record.delay not in ("", told) and time.monotonic() - at >= EVERY_S:
            self._told[record.id] = record.delay, time.monotonic()
            output.note(f"job {record.name} is {record.state}: {record.reason}")
