"""The table of jobs that `pit status` and `pit show jobs` print."""

from collections.abc import Sequence

from pit.ui.sanitize import sanitize
from pit.ui.tables import Column, Row, Section
from pit.ui.times import short_age, start_text
from pit.views.arrays import progress_text
from pit_protocol.answers.jobs import JobSummary, Status
from pit_protocol.states import JobState

STATE_STYLES = {
    "PRE": "cyan",
    "WAI": "yellow",
    "STA": "cyan",
    "RUN": "green",
    "STG": "magenta",
    "SUC": "green",
    "FAI": "bold red",
    "STP": "magenta",
    "LOS": "red",
    "TIM": "red",
}
JOB_COLUMNS = (
    Column("JOB", right=True, importance=9),
    Column("S", styles=STATE_STYLES, importance=9),
    Column("SINCE", importance=5),
    Column("UC%", right=True, importance=2),
    Column("UM%", right=True),
    Column("USER", importance=4),
    Column("TITLE", flexible=True, importance=8),
    Column("RESOURCE", flexible=True, importance=3),
)


def job_row(job: JobSummary, now: float) -> tuple[str, ...]:
    return (
        job.name,
        sanitize(job.letters),
        short_age(now - job.since),
        percent(job.gpu_percent),
        percent(job.memory_percent),
        sanitize(job.user),
        sanitize(job.title),
        sanitize(job.request),
    )


def _note(job: JobSummary, now: float) -> str:
    """Why the job does not go on; first when it will, because the end may be cut."""
    starts = f"{start_text(job.starts, now)}: " if job.starts else ""
    return starts + sanitize(job.reason)


def status_sections(status: Status, now: float) -> list[Section]:
    """Running, waiting and done jobs; empty sections are left out."""
    sections = []
    for name, jobs, total in (
        ("Running", status.running, status.totals.running),
        ("Waiting", status.waiting, status.totals.waiting),
        ("Done", status.done, status.totals.done),
    ):
        more = max(0, total - len(jobs))
        if jobs or more:
            rows = [job_row(job, now) for job in jobs]
            sections.append(job_section(name, rows, more, jobs, now))
    return sections


def job_section(
    title: str, rows: Sequence[Row], more: int, jobs: Sequence[JobSummary], now: float
) -> Section:
    """Jobs with lines below their rows: how far arrays have come, and why those that have not ended wait."""
    notes, hints = {}, {}
    for position, job in enumerate(jobs):
        reason = _note(job, now) if job.reason and job.state != JobState.ENDED else ""
        progress = progress_text(job.elements) if job.elements else ""
        if note := "; ".join(filter(None, (progress, reason))):
            notes[position] = note
        if reason:
            hints[position] = f"`pit why {job.name}`"
    return Section(title, rows, more, notes, hints)


def percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"
