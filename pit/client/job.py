"""A job for Python programs: its log, its end, its results."""

import time
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from pit.head.client import Head
from pit.head.retry import HeadRetry
from pit.jobs.log_follow import HOLD_S, list_batches
from pit.transfer import archive
from pit.ui import output
from pit.ui.log_view import REPEATED
from pit_protocol.answers.jobs import JobRecord, JobSummary, LogLine
from pit_protocol.answers.why import Why
from pit_protocol.states import JobState, Outcome


class Job:
    """A job as the head knew it last; `refresh` and `wait` ask again."""

    def __init__(self, head: Head, record: JobSummary) -> None:
        self._head, self._record = head, record

    @property
    def number(self) -> int:
        """Its number; that of its array if it is an element."""
        return self._record.number

    @property
    def name(self) -> str:
        """Its number as people write it: `190`, or `190.7` for an element of an array."""
        return self._record.name

    @property
    def title(self) -> str:
        """Its title."""
        return self._record.title

    @property
    def state(self) -> str:
        """Where it is: `preparing`, `waiting`, `starting`, `running`, `stopping` or `ended`."""
        return self._record.state

    @property
    def outcome(self) -> str | None:
        """How it ended: `succeeded`, `failed`, `stopped`, `lost` or `timed out`; None: it has not."""
        return self._record.outcome

    @property
    def reason(self) -> str:
        """Why it ended so, or what it waits for."""
        return self._record.reason

    @property
    def succeeded(self) -> bool:
        """Whether it has ended well."""
        return self._record.outcome == Outcome.SUCCEEDED

    @property
    def record(self) -> JobRecord:
        """All that the head knows of it: options, code, events, processes with their exit codes."""
        if not isinstance(self._record, JobRecord):
            self.refresh()
        assert isinstance(self._record, JobRecord)  # noqa: S101 - that is what `refresh` gets
        return self._record

    def refresh(self) -> "Job":
        """Ask the head again; returns the job itself."""
        self._record = self._head.job(self._record.id)
        return self

    def wait(self, timeout: float | None = None) -> "Job":
        """Wait until it has ended, also while the head is away; TimeoutError after `timeout` seconds."""
        retry = HeadRetry(output.note, met=True)
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = HOLD_S if until is None else max(0.0, min(HOLD_S, until - time.monotonic()))
            self._record = retry.call(lambda left=left: self._head.job(self._record.id, left))  # type: ignore[misc]
            if self._record.state == JobState.ENDED:
                return self
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"job {self.name} has not ended after {timeout:g} s")

    def log(
        self, *, follow: bool = False, tail: int | None = None, process: str | None = None
    ) -> Iterator[LogLine]:
        """The lines of its log, each with `at`, `source` and `text`; with `follow` until it has ended."""
        filters = {"tail": tail, "process": process}
        retry = HeadRetry(output.note)
        for batch in list_batches(self._head, self._record.id, filters, retry, REPEATED, follow=follow):
            yield from batch.lines

    def stop(self) -> "Job":
        """Stop it: SIGTERM, and SIGKILL after a grace period; returns at once."""
        self._record = self._head.stop(self._record.id)
        return self

    def why(self) -> Why:
        """Why it waits, or how it ended, in sentences."""
        return self._head.why(self._record.id)

    def results(self) -> list[dict[str, Any]]:
        """A record for each element of an array that has begun, or one for a job that is not an array.

        It has `index`, `outcome`, the values of the sweep, and what was written to `$RESULT_FILE`.
        """
        elements = self._head.elements(self.number).elements
        return [
            {"index": each.index, "outcome": each.outcome, **each.sweep, **each.results} for each in elements
        ]

    def download(self, target: str | PathLike[str] | None = None, *, force: bool = False) -> Path:
        """Write its directory and log as a .tar.gz; by default to `job-NUMBER.tar.gz` in this directory."""
        path = Path(target if target is not None else f"job-{self.name}.tar.gz")
        archive.check_target(path, force)
        archive.save(self._head, self._record.id, path, force=force)
        return path

    def __repr__(self) -> str:
        how = self.outcome or self.state
        return f"<Job {self.name} {self.title!r}: {how}>"
