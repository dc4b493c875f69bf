"""GPU usage of jobs: samples per process, and their means."""

from collections.abc import Collection, Iterable

from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session

from pit_protocol.answers.jobs import ProcessUsage
from pit_protocol.messages.beat import Report
from pit_server.db.models import Process, Sample

RECENT_S = 90.0  # samples of this age or younger count as current


def note(session: Session, reports: Iterable[Report], *, now: float) -> None:
    """Store the usage samples of these reports."""
    rows = [
        {
            "process_id": report.process,
            "at": now,
            "gpu_percent": report.usage.gpu_percent,
            "memory_percent": report.usage.memory_percent,
        }
        for report in reports
        if report.usage
    ]
    if rows:
        session.execute(insert(Sample), rows)


def means(
    session: Session, numbers: Collection[int], *, since: float = 0.0
) -> dict[int, tuple[float, float]]:
    """Mean GPU and GPU memory usage of each job, in percent, over its samples since `since`."""
    if not numbers:
        return {}
    rows = session.execute(
        select(Process.job_id, func.avg(Sample.gpu_percent), func.avg(Sample.memory_percent))
        .join(Process, Process.id == Sample.process_id)
        .where(Process.job_id.in_(numbers), Sample.at >= since)
        .group_by(Process.job_id)
    )
    return {number: (float(gpu), float(memory)) for number, gpu, memory in rows}


def history(session: Session, number: int) -> list[ProcessUsage]:
    """All samples of a job, by process."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for row in session.execute(
        select(Process.group_index, Process.process_index, Sample)
        .join(Process, Process.id == Sample.process_id)
        .where(Process.job_id == number)
        .order_by(Process.rank, Process.id, Sample.at)
    ):
        sample = row.Sample
        found.setdefault(f"{row.group_index}.{row.process_index}", []).append(
            (sample.at, sample.gpu_percent, sample.memory_percent)
        )
    return [ProcessUsage(name, samples) for name, samples in found.items()]
