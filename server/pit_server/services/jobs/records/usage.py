"""What jobs use: samples of each process for its whole run, and their means.

The samples of a process are bounded. When there are too many, pairs in the older half become one, so the
resolution falls with age; `weight` says for how many reports a row stands.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, bindparam, delete, func, insert, select
from sqlalchemy.orm import Session

from pit_protocol.answers.jobs import ProcessUsage
from pit_protocol.messages.beat import Report, Usage
from pit_protocol.wire import to_json
from pit_server.db.database import AnyRow
from pit_server.db.models import Process, Sample

RECENT_S = 90.0  # samples of this age or younger count as current
FEWEST = 8  # rows of a process, however many processes its job has
VALUES = Usage.__struct_fields__


class Means(NamedTuple):
    """What a job used, as means over its processes and time; None: it was not measured."""

    gpu_percent: float | None = None
    memory_percent: float | None = None
    cpu_percent: float | None = None
    memory_mib: float | None = None


def note(session: Session, reports: Iterable[Report], most: int, *, now: float) -> None:
    """Store the samples of these reports; a job keeps about `most` rows."""
    rows = [
        {"process_id": report.process, "at": now, "weight": 1, **to_json(report.usage)}
        for report in reports
        if report.usage
    ]
    if rows:
        session.execute(insert(Sample), rows)
        _thin(session, [row["process_id"] for row in rows], most)


def means(session: Session, numbers: Collection[int], *, since: float = 0.0) -> dict[int, Means]:
    """What each job used on average, over its samples since `since`."""
    if not numbers:
        return {}
    rows = session.execute(_MEANS, {"numbers": list(numbers), "since": since})
    return {number: Means(*(None if v is None else float(v) for v in values)) for number, *values in rows}


def history(session: Session, number: int) -> list[ProcessUsage]:
    """All samples of a job, by process."""
    found: dict[str, list[Any]] = {}
    for row in session.execute(
        select(Process.group_index, Process.process_index, Sample)
        .join(Process, Process.id == Sample.process_id)
        .where(Process.job_id == number)
        .order_by(Process.rank, Process.id, Sample.at)
    ):
        values = (getattr(row.Sample, name) for name in VALUES)
        found.setdefault(f"{row.group_index}.{row.process_index}", []).append((row.Sample.at, *values))
    return [ProcessUsage(name, samples) for name, samples in found.items()]


def _mean(column: ColumnElement[float | None]) -> ColumnElement[float | None]:
    weight = func.sum(Sample.weight).filter(column.is_not(None))
    return func.sum(column * Sample.weight) / func.nullif(weight, 0)


_MEANS = (
    select(Process.job_id, *(_mean(getattr(Sample, name)) for name in VALUES))
    .join(Process, Process.id == Sample.process_id)
    .where(Process.job_id.in_(bindparam("numbers", expanding=True)), Sample.at >= bindparam("since"))
    .group_by(Process.job_id)
)


def _thin(session: Session, processes: Collection[int], most: int) -> None:
    """Join pairs in the older half of the samples of each process that has too many."""
    query = (
        select(Sample.process_id, Process.attempt_id, func.count())
        .join(Process, Process.id == Sample.process_id)
        .where(Sample.process_id.in_(processes))
        .group_by(Sample.process_id, Process.attempt_id)
        .having(func.count() > FEWEST)
    )
    for process_id, attempt_id, count in session.execute(query).all():
        peers = select(func.count()).select_from(Process).where(Process.attempt_id == attempt_id)
        if count > max(FEWEST, most // session.execute(peers).scalar_one()):
            _join_pairs(session, process_id, count // 2)


def _join_pairs(session: Session, process_id: int, count: int) -> None:
    columns = [getattr(Sample, name) for name in VALUES]
    query = select(Sample.at, Sample.weight, *columns).where(Sample.process_id == process_id)
    old = session.execute(query.order_by(Sample.at).limit(count)).all()
    joined = [_join(process_id, old[first : first + 2]) for first in range(0, len(old), 2)]
    session.execute(delete(Sample).where(Sample.process_id == process_id, Sample.at <= old[-1].at))
    session.execute(insert(Sample), joined)


def _join(process_id: int, some: Sequence[AnyRow]) -> dict[str, object]:
    """Some samples as one, at the time of the last."""
    joined = {"process_id": process_id, "at": some[-1].at, "weight": sum(row.weight for row in some)}
    for name in VALUES:
        known = [(getattr(row, name), row.weight) for row in some if getattr(row, name) is not None]
        total = sum(weight for _, weight in known)
        joined[name] = sum(value * weight for value, weight in known) / total if total else None
    return joined
