"""The output of one process, byte by byte as it was written; a line stands for what is not kept."""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from pit_protocol.arrays.numbers import job_name
from pit_protocol.problem import Problem
from pit_protocol.states import JobState
from pit_server.db.models import Job
from pit_server.services.logs.array_log import needs_element
from pit_server.services.logs.log_merge import list_processes, list_sources
from pit_server.store.data_root import DataRoot

BATCH = 4 * 1024 * 1024  # bytes in one answer


@dataclass(frozen=True)
class Query:
    process: str = ""  # "0.1"; may be left out for a job with one process
    offset: int | None = None  # None: from the beginning, or where the tail or that time begins
    tail: int | None = None
    since: float | None = None


@dataclass(frozen=True)
class Part:
    data: bytes
    next: int  # the offset after it
    ended: bool  # nothing follows


def read(session: Session, job: Job, data: DataRoot, query: Query) -> Part:
    """Read the next bytes of a process; none while it has not begun."""
    if job.array_size is not None:
        raise needs_element(job)
    processes = list_processes(session, job, only_current=True)
    if len(processes) > 1 and not query.process:
        raise Problem(
            "which_process",
            f"job {job_name(job.id)} has {len(processes)} processes, and the raw log is that of one",
            f"name it, as in `pit log {job_name(job.id)} --raw --process 0.0`",
            status=422,
        )
    sources = list_sources(job, data, processes, query.process)
    source = next((found for key, found in sources.items() if key in processes), None)
    if source is None:
        return Part(b"", 0, job.state == JobState.ENDED)
    offset = query.offset
    if offset is None and query.tail is not None:
        offset = source.stream.tail_offset(query.tail)
    elif offset is None and query.since is not None:
        offset = source.stream.offset_at(query.since)
    offset, size, gap = offset or 0, source.stream.size(), source.stream.gap()
    if gap and gap.start <= offset < gap.end:
        return Part(b"\n%s\n" % gap.text(offset), gap.end, source.is_final and gap.end == size)
    found = source.stream.pread(offset, BATCH)
    return Part(found, offset + len(found), source.is_final and offset + len(found) >= size)
