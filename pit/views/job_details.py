"""One job with all details, as `pit show job:N` prints it."""

from pit.ui.plural import plural
from pit.ui.render import process_end, records, snapshot_pairs
from pit.ui.sanitize import sanitize, sanitize_lines
from pit.ui.tables import Column, Section
from pit.ui.times import local_time, short_age
from pit_protocol.answers.jobs import JobEvent, JobProcess, JobRecord, JobSnapshot
from pit_protocol.job_options import OPTIONS

PROCESS_COLUMNS = (
    Column("PROCESS"),
    Column("NODE"),
    Column("STATE"),
    Column("END"),
    Column("STARTED"),
    Column("RAN"),
    Column("RESOURCES", flexible=True),
    Column("REASON", flexible=True),
)
EVENT_COLUMNS = (
    Column("TIME"),
    Column("EVENT"),
    Column("PROCESS"),
    Column("NOW"),
    Column("BY"),
    Column("REASON", flexible=True),
)


def job_text(job: JobRecord, now: float) -> str:
    """The record part; processes and events follow as tables."""
    state = sanitize(job.state) + (f", {sanitize(job.outcome)}" if job.outcome else "")
    pairs = [
        ("Job number", str(job.number)),
        ("Title", sanitize(job.title)),
        ("User", sanitize(job.user)),
        ("State", state),
        ("Reason", sanitize(job.reason or "")),
        ("Since", f"{local_time(job.since)} ({short_age(now - job.since)} ago)"),
        ("Created", local_time(job.created_at)),
        *snapshot_pairs(job),
        ("Branch", sanitize(job.snapshot.branch or "")),
        ("Tree", sanitize(job.snapshot.tree)),
        ("Changes", _changes(job.snapshot)),
        ("Reruns", str(job.reruns or "")),
        *((option.label, sanitize(job.options.shown(name))) for name, option in OPTIONS.items()),
        ("Image digest", _digests(job)),
        ("Secrets", sanitize(", ".join(job.variables))),
        ("Groups", sanitize(", ".join(job.groups))),
        ("GPU use", _use(job)),
        ("Keep", "yes" if job.keep else ""),
        ("Attempt", str(job.attempt)),
        ("Result", sanitize_lines(job.result or "").replace("\n", "\n" + " " * 12)),
    ]
    return records([(label, value) for label, value in pairs if value])


def _changes(snapshot: JobSnapshot) -> str:
    """What was not committed."""
    if snapshot.dirty is None:
        return ""
    if not snapshot.dirty:
        return "none, all of it was committed"
    count = snapshot.diff_files
    if count is None:
        return "some were not committed"
    added, removed = snapshot.diff_added, snapshot.diff_removed
    return f"{plural(count, 'file')} not as committed, {added:,} lines added, {removed:,} removed"


def _digests(job: JobRecord) -> str:
    """The exact images that ran."""
    ran = dict.fromkeys(process.image for process in job.processes if process.image)
    return ", ".join(sanitize(name) for name in ran)


def _use(job: JobRecord) -> str:
    if job.gpu_percent is None or job.memory_percent is None:
        return ""
    return f"{job.gpu_percent:.0f} % of time, {job.memory_percent:.0f} % of memory, on average over the run"


def process_section(job: JobRecord, now: float) -> Section:
    return Section("", [_process_row(process, now) for process in job.processes])


def event_section(job: JobRecord) -> Section:
    return Section("", [_event_row(event) for event in job.events])


def _process_row(process: JobProcess, now: float) -> tuple[str, ...]:
    started, ended = process.started_at, process.ended_at
    return (
        f"{process.group}.{process.index}",
        sanitize(process.node or "-"),
        sanitize(process.state),
        process_end(process),
        local_time(started) if started else "-",
        short_age((ended or now) - started) if started else "-",
        ", ".join(sanitize(resource) for resource in process.resources) or "-",
        sanitize(process.reason or "-"),
    )


def _event_row(event: JobEvent) -> tuple[str, ...]:
    return (
        local_time(event.at),
        sanitize(event.event),
        sanitize(event.process or "-"),
        sanitize(event.to_state or "-"),
        sanitize(event.actor or "-"),
        sanitize(event.reason or "-"),
    )
