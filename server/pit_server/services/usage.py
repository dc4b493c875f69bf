"""How much of its GPUs a job uses: samples of its processes, and what follows from them."""

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session

from pit_protocol.beat import Report
from pit_server.db.models import Process, Sample

RECENT_S = 90.0  # what counts as now


def note(session: Session, reports: Iterable[Report], *, now: float) -> None:
    """Keep what reports tell of use."""
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
    """Per job the mean use of GPUs and of their memory, in percent, over its samples since then."""
    if not numbers:
        return {}
    rows = session.execute(
        select(Process.job_id, func.avg(Sample.gpu_percent), func.avg(Sample.memory_percent))
        .join(Process, Process.id == Sample.process_id)
        .where(Process.job_id.in_(numbers), Sample.at >= since)
        .group_by(Process.job_id)
    )
    return {number: (float(gpu), float(memory)) for number, gpu, memory in rows}


def history(session: Session, number: int) -> list[dict[str, Any]]:
    """All samples of a job, by process: `[at, gpu_percent, memory_percent]`."""
    found: dict[str, list[list[float]]] = {}
    for row in session.execute(
        select(Process.group_index, Process.process_index, Sample)
        .join(Process, Process.id == Sample.process_id)
        .where(Process.job_id == number)
        .order_by(Process.id, Sample.at)
    ):
        sample = row.Sample
        found.setdefault(f"{row.group_index}.{row.process_index}", []).append(
            [sample.at, sample.gpu_percent, sample.memory_percent]
        )
    return [{"process": name, "samples": samples} for name, samples in found.items()]
