"""Arrays: how far they have come, and which elements failed."""

from pit.ui.sanitize import sanitize
from pit.ui.tables import Column, Section
from pit_protocol.answers.jobs import ArrayProgress, JobRecord

FAILED_COLUMNS = (
    Column("ELEMENT", right=True, importance=9),
    Column("OUTCOME", importance=8),
    Column("REASON", flexible=True, importance=7),
)


def progress_text(progress: ArrayProgress) -> str:
    """`12/100 done, 3 failed, 8 running`."""
    ended = progress.succeeded + progress.failed + progress.stopped
    parts = [f"{ended:,}/{progress.size:,} done"]
    for count, word in (
        (progress.failed, "failed"),
        (progress.stopped, "stopped"),
        (progress.running, "running"),
    ):
        if count:
            parts.append(f"{count:,} {word}")
    return ", ".join(parts)


def failed_section(job: JobRecord) -> Section:
    """The first elements that failed."""
    rows = [
        (f"{job.number}.{element.index}", sanitize(element.outcome), sanitize(element.reason))
        for element in job.failed
    ]
    failed = job.elements.failed if job.elements else 0
    return Section("", rows, max(0, failed - len(rows)))
