"""One job with all details, as `pit show job:N` prints it."""

from collections.abc import Mapping

from pit.ui.plural import plural
from pit.ui.render import records, snapshot_pairs
from pit.ui.sanitize import sanitize, sanitize_lines
from pit.ui.tables import Column, Section, more_line
from pit.ui.times import local_time, short_age, start_text
from pit.views.arrays import progress_text
from pit_protocol.answers.jobs import JobEvent, JobRecord, JobSnapshot
from pit_protocol.job_options import OPTIONS

EVENT_COLUMNS = (
    Column("TIME", importance=8),
    Column("EVENT", importance=9),
    Column("WORKER", importance=7),
    Column("NOW", importance=3),
    Column("BY", importance=2),
    Column("REASON", flexible=True, importance=5),
)
RESULT_LINES = 3  # of a longer result on a terminal


def job_text(job: JobRecord, now: float, width: int | None = None) -> str:
    """The record part, with lines cut to the width of a terminal; processes and events follow as tables."""
    state = sanitize(job.state) + (f", {sanitize(job.outcome)}" if job.outcome else "")
    groups = sanitize(", ".join(job.groups))
    code = [pair for pair in snapshot_pairs(job) if pair[0] != "Diff LoC" or job.snapshot.dirty is None]
    branch = f" on {sanitize(job.snapshot.branch)}" if job.snapshot.branch else ""
    pairs = [
        ("Job number", job.name),
        ("Title", sanitize(job.title)),
        ("User", f"{sanitize(job.user)}, shared with {groups}" if groups else sanitize(job.user)),
        ("State", f"{state} since {local_time(job.since)} ({short_age(now - job.since)} ago)"),
        ("Reason", sanitize(job.reason or "")),
        ("Starts", start_text(job.starts, now).removeprefix("starts ") if job.starts else ""),
        ("Elements", progress_text(job.elements) if job.elements else ""),
        ("Values", sanitize(" ".join(f"{name}={value}" for name, value in job.sweep.items()))),
        ("Created", local_time(job.created_at)),
        *((label, value + branch if label == "Hash" else value) for label, value in code),
        ("Tree", sanitize(job.snapshot.tree)),
        ("Changes", _changes(job.snapshot)),
        ("Reruns", str(job.reruns or "")),
        *((option.label, sanitize(job.options.shown(name))) for name, option in OPTIONS.items()),
        ("Time left", _time_left(job, now)),
        ("Digest", _digests(job)),
        ("Secrets", sanitize(", ".join(job.variables))),
        ("GPU use", _use(job)),
        ("Use", _cpu_use(job)),
        ("Keep", "yes" if job.keep else ""),
        ("Exec", "also members of its groups" if job.exec == "group" else ""),
        ("Attempt", str(job.attempt) if job.attempt > 1 else ""),
        ("Result", _result(job.result or "", RESULT_LINES if width else 0)),
    ]
    text = records([(label, value) for label, value in pairs if value])
    return text if width is None else "\n".join(_cut(line, width) for line in text.splitlines())


def _cut(line: str, width: int) -> str:
    """The line on one row of the terminal; a reason is whole, because it says what to do."""
    from rich.cells import cell_len, set_cell_size

    if line.startswith("Reason:") or cell_len(line) <= width:
        return line
    return set_cell_size(line, width - 1).rstrip() + "…"


def _result(result: str, most: int) -> str:
    lines = sanitize_lines(result).splitlines()
    if most and len(lines) > most:
        lines = [*lines[: most - 1], more_line(len(lines) - most + 1)]
    return ("\n" + " " * 12).join(lines)


def _changes(snapshot: JobSnapshot) -> str:
    """What was not committed."""
    if snapshot.dirty is None:
        return ""
    if not snapshot.dirty:
        return "none, all of it was committed"
    count = snapshot.diff_files
    if count is None:
        return "some were not committed"
    added, removed = snapshot.diff_added or 0, snapshot.diff_removed or 0
    return f"{plural(count, 'file')} not as committed, {plural(added, 'line')} added, {removed:,} removed"


def _time_left(job: JobRecord, now: float) -> str:
    if job.ends_at is None:
        return ""
    return f"{short_age(job.ends_at - now)}, until {local_time(job.ends_at)}"


def _digests(job: JobRecord) -> str:
    """The exact images that ran."""
    ran = dict.fromkeys(process.image for process in job.processes if process.image)
    return ", ".join(sanitize(name) for name in ran)


def _use(job: JobRecord) -> str:
    if job.gpu_percent is None or job.memory_percent is None:
        return ""
    return f"{job.gpu_percent:.0f} % of time, {job.memory_percent:.0f} % of memory, on average over the run"


def _cpu_use(job: JobRecord) -> str:
    if job.cpu_percent is None or job.memory_mib is None:
        return ""
    cores = f"{job.cpu_percent / 100:.2g} cores"
    return f"{cores}, {job.memory_mib / 1024:.2g} GiB of memory, on average over the run, by each process"


def event_section(job: JobRecord) -> Section:
    ranks = {f"{process.group}.{process.index}": str(process.rank) for process in job.processes}
    return Section("", [_event_row(event, ranks) for event in job.events])


def _event_row(event: JobEvent, ranks: Mapping[str, str]) -> tuple[str, ...]:
    return (
        local_time(event.at),
        sanitize(event.event),
        sanitize(ranks.get(event.process or "", event.process or "-")),
        sanitize(event.to_state or "-"),
        sanitize(event.actor or "-"),
        sanitize(event.reason or "-"),
    )
