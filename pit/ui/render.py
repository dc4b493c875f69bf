"""Text for the head's answers: pure functions from answers to sanitized text."""

from collections.abc import Iterable

from pit.ui.sanitize import sanitize, sanitize_log
from pit.ui.times import local_time
from pit_protocol.answers.jobs import JobProcess, JobRecord, LogLine


def records(pairs: Iterable[tuple[str, str]]) -> str:
    """Lines of `Label: value`, aligned."""
    labelled = [(f"{label}:", value) for label, value in pairs]
    width = max(len(label) for label, _ in labelled) + 1
    return "\n".join(f"{label:<{width}}{value}".rstrip() for label, value in labelled)


def listing(names: Iterable[str] | None) -> str:
    return sanitize(", ".join(names or ())) or "-"


def accepted_text(record: JobRecord) -> str:
    """What `pit run` prints about the new job."""
    return records([("Job number", str(record.number)), *snapshot_pairs(record)])


def snapshot_pairs(record: JobRecord) -> list[tuple[str, str]]:
    snapshot = record.snapshot
    remote = f"{sanitize(snapshot.remote_name or '')} <{sanitize(snapshot.remote or '')}>".strip()
    return [
        ("Remote", remote if snapshot.remote else "none, all objects were sent from here"),
        ("Hash", sanitize(snapshot.commit or "none, there is no commit yet")),
        ("Diff LoC", f"{snapshot.diff_lines:,}"),
        ("Resources", f'"{sanitize(record.request)}"'),
    ]


def log_line(line: LogLine, *, colour: bool) -> str:
    return _log_line(f"[{local_time(line.at)}] [{sanitize(line.source)}]", line, colour=colour)


def log_source(line: LogLine, *, colour: bool) -> str:
    """A log line without its time."""
    return _log_line(f"[{sanitize(line.source)}]", line, colour=colour)


def _log_line(where: str, line: LogLine, *, colour: bool) -> str:
    text = sanitize_log(line.text, colour=colour)
    return f"\x1b[2m{where}\x1b[0m {text}" if colour else f"{where} {text}"


def ending(record: JobRecord) -> str:
    """How a job ended, as a sentence: `job 12 failed: worker 1 ended with exit code 3`."""
    number, outcome = record.name, record.outcome
    if outcome == "succeeded":
        return f"job {number} succeeded"
    verb = {"stopped": "was stopped", "lost": "was lost"}.get(outcome or "", sanitize(outcome or "ended"))
    why = sanitize(record.reason or "")
    return f"job {number} {verb}: {why}" if why else f"job {number} {verb}"


def process_end(process: JobProcess) -> str:
    if process.signal:
        return f"signal {process.signal}"
    return f"exit code {process.exit_code}" if process.exit_code is not None else "-"
