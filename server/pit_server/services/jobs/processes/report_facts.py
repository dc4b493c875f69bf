"""What a worker's report says of its process, as an event and as the columns of its row."""

from signal import Signals
from typing import Any

from pit_protocol.messages.beat import Report
from pit_protocol.states import KilledBy, ProcessEvent, ProcessState
from pit_server.services.validation import storable

MAX_IMAGE = 500

_REPORTED = {
    ProcessState.STARTING: ProcessEvent.TAKEN,
    ProcessState.RUNNING: ProcessEvent.STARTED,
    ProcessState.ENDED: ProcessEvent.ENDED,
}


def event_of(report: Report) -> ProcessEvent | None:
    """What a report means for its process; a stop is news only if the worker decided on it."""
    if report.state is ProcessState.STOPPING and report.killed_by is KilledBy.TIME:
        return ProcessEvent.STOP
    return _REPORTED.get(report.state)


def start_facts(report: Report) -> dict[str, Any]:
    """Start time and image, if the report has them; a later report may not."""
    facts = {"started_at": report.started_at, "image": storable(report.image)[:MAX_IMAGE]}
    return {name: fact for name, fact in facts.items() if fact}


def end_facts(report: Report, *, now: float) -> dict[str, Any]:
    """How a process ended."""
    return {
        "exit_code": report.exit_code,
        "signal": report.signal,
        "killed_by": report.killed_by,
        "oom": report.oom,
        "node_fault": report.node_fault,
        "ended_at": report.ended_at or now,
        **start_facts(report),
    }


def how_ended(report: Report) -> str:
    if report.reason:
        how = "is lost" if report.killed_by is KilledBy.NODE else "ended"
        return f"{how}: {storable(report.reason)}"
    memory = "; it ran out of memory" if report.oom else ""
    if report.signal is not None:
        return f"was killed by signal {_signal_name(report.signal)}{memory}"
    return ("ended" if report.exit_code is None else f"ended with exit code {report.exit_code}") + memory


def _signal_name(number: int) -> str:
    try:
        return f"{number} ({Signals(number).name})"
    except ValueError:
        return str(number)
