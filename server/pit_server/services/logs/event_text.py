"""The head's own lines in a job's log, rendered from its events."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pit_protocol.arrays.numbers import job_name
from pit_protocol.states import JobEvent, Outcome, ProcessEvent
from pit_server.db.models import Event, Process
from pit_server.store.log_stream import LogStream

RULE = "-" * 20  # marks where an attempt begins that is not the first
STOPPED_BY_PROCESS = (JobEvent.FAILED, JobEvent.TIMED_OUT, JobEvent.FINISHED)
LAST_LINES = 20  # of the process that failed first, repeated at the end


class PlacedProcess(NamedTuple):
    process: Process
    node: str  # its name
    attempt: int  # its number


@dataclass(frozen=True)
class JobFacts:
    """What the lines of one job are rendered from."""

    number: int
    outcome: Outcome | None
    reason: str
    processes: Mapping[int, PlacedProcess]  # by id, of all attempts
    streams: Mapping[int, LogStream]  # id -> its log


def render_event(event: Event, facts: JobFacts, culprit: int | None) -> list[tuple[float, str]]:
    """Render the lines of one event; `culprit` is the process that made the job fail."""
    if event.process_id is not None and event.event not in STOPPED_BY_PROCESS:
        return _of_process(event, facts)
    if event.event in (JobEvent.SETTLED, JobEvent.REFUSED, JobEvent.UNMET):
        return [(event.at, text) for text in _closing(facts, culprit)]
    if event.event == JobEvent.REQUEUED:
        return [(event.at, f"requeued: {event.reason}"), (event.at, f"{RULE} try {event.attempt + 1} {RULE}")]
    name = job_name(facts.number)
    texts = {
        JobEvent.ACCEPTED: f"job {name} accepted from {event.actor}",
        JobEvent.PREPARED: "the tree is ready",
        JobEvent.PLACED: f"placed {event.reason}",
        JobEvent.STOP: f"stop requested {event.reason}",
        JobEvent.TIMED_OUT: f"stopping: {event.reason}",
        JobEvent.FINISHED: f"stopping the others: {event.reason}",
        JobEvent.BAD_RESULT: event.reason,
        JobEvent.TIME_CHANGED: f"{event.actor} changed the time limit {event.reason}",
        JobEvent.STALLED: f"stalled: {event.reason}",
        JobEvent.FAILED: f"stopping: {event.reason}",
    }
    text = texts.get(JobEvent(event.event))
    lines = [(event.at, text)] if text else []
    if event.event == JobEvent.STOP and event.to_state == "ended":
        lines.append((event.at, f"job {name} {facts.outcome}"))
    return lines


def _of_process(event: Event, facts: JobFacts) -> list[tuple[float, str]]:
    assert event.process_id is not None  # noqa: S101 - the caller looked
    process, node, _ = facts.processes[event.process_id]
    if event.event == ProcessEvent.STARTED:
        # By the worker's clock, like the lines that follow it.
        return [(process.started_at or event.at, f"worker {process.rank} started on {node}")]
    if event.event == ProcessEvent.ENDED:
        return [(max(event.at, process.ended_at or 0), f"worker {process.rank} {event.reason}")]
    return []


def _closing(facts: JobFacts, culprit: int | None) -> list[str]:
    end = f"job {job_name(facts.number)} {facts.outcome}"
    lines = [f"{end}: {facts.reason}" if facts.reason else end]
    if culprit is None or facts.outcome is not Outcome.FAILED:
        return lines
    stream = facts.streams[culprit]
    last = stream.read(stream.tail_offset(LAST_LINES), LAST_LINES * 4096, is_final=True).lines
    if not last:
        return lines
    rank = facts.processes[culprit].process.rank
    quoted = [f"  | {line.text.decode(errors='replace')}" for line in last[-LAST_LINES:]]
    return [f"last lines of worker {rank}, which failed first:", *quoted, *lines]
