"""The head's own lines in a job's log: its events in words, so that none is ever lost or told twice."""

from collections.abc import Mapping
from dataclasses import dataclass

from pit_protocol.states import JobEvent, Outcome, ProcessEvent
from pit_server.db.models import Event, Process
from pit_server.store.logs import LogStream

LAST_LINES = 20  # of the first failing process, repeated at the end


@dataclass(frozen=True)
class Story:
    """What the lines of one job are told from."""

    number: int
    outcome: Outcome | None
    reason: str
    processes: Mapping[int, tuple[Process, str]]  # id -> process and its node's name
    streams: Mapping[int, LogStream]  # id -> its log


def tell(event: Event, story: Story, culprit: int | None) -> list[tuple[float, str]]:
    """The lines of one event; `culprit` is the process that made the job fail."""
    if event.process_id is not None and event.event != JobEvent.FAILED:
        return _of_process(event, story)
    if event.event == JobEvent.SETTLED or event.event == JobEvent.REFUSED:
        return [(event.at, text) for text in _closing(story, culprit)]
    texts = {
        JobEvent.ACCEPTED: f"job {story.number} accepted from {event.actor}",
        JobEvent.PREPARED: "the tree is ready",
        JobEvent.PLACED: f"placed {event.reason}",
        JobEvent.STOP: f"told to stop {event.reason}",
        JobEvent.FAILED: f"stopping: {event.reason}",
    }
    text = texts.get(JobEvent(event.event))
    lines = [(event.at, text)] if text else []
    if event.event == JobEvent.STOP and event.to_state == "ended":
        lines.append((event.at, f"job {story.number} {story.outcome}"))
    return lines


def _of_process(event: Event, story: Story) -> list[tuple[float, str]]:
    assert event.process_id is not None  # noqa: S101 - the caller looked
    process, node = story.processes[event.process_id]
    if event.event == ProcessEvent.STARTED:
        # By the worker's clock, as the lines that follow it.
        return [(process.started_at or event.at, f"worker {process.rank} started on {node}")]
    if event.event == ProcessEvent.ENDED:
        return [(max(event.at, process.ended_at or 0), f"worker {process.rank} {event.reason}")]
    return []


def _closing(story: Story, culprit: int | None) -> list[str]:
    end = f"job {story.number} {story.outcome}"
    lines = [f"{end}: {story.reason}" if story.reason else end]
    if culprit is None or story.outcome is not Outcome.FAILED:
        return lines
    stream = story.streams[culprit]
    last = stream.lines(stream.tail_offset(LAST_LINES), LAST_LINES * 4096, is_final=True)
    if not last:
        return lines
    rank = story.processes[culprit][0].rank
    told = [f"  | {line.text.decode(errors='replace')}" for line in last[-LAST_LINES:]]
    return [f"the last lines of worker {rank}, which failed first:", *told, *lines]
