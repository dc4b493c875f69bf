"""Why a job waits, or how it came where it is."""

from dataclasses import dataclass

from msgspec.structs import replace
from sqlalchemy.orm import Session

from pit_protocol.answers.why import Why
from pit_protocol.states import JobState
from pit_server.services.jobs import jobs
from pit_server.services.jobs.arrays import progress
from pit_server.services.jobs.arrays.elements import OPEN
from pit_server.services.jobs.records import job_records, story
from pit_server.services.jobs.records.delays import DelayFacts
from pit_server.services.scheduling.last_pass import LastPass
from pit_server.services.scheduling.why import waiting
from pit_server.services.scheduling.why.smaller_requests import Search
from pit_server.services.users.tokens import Caller
from pit_server.settings import Settings
from pit_server.store.data_root import DataRoot

MAX_FAILED = 3  # elements of an array


@dataclass(frozen=True)
class Facts:
    """What the head knows beside its database."""

    last: LastPass
    delays: DelayFacts
    data: DataRoot
    settings: Settings


def explain(session: Session, caller: Caller, number: int, facts: Facts) -> tuple[Why, Search | None]:
    """The answer, and for a waiting job a search for what would start now, to be run without a session."""
    job = jobs.find(session, caller, number)
    summary, _ = job_records.summarize(session, caller, job, facts.delays)
    is_mine = job.user_id == caller.user_id
    if job.state == JobState.WAITING:
        queued = waiting.explain(session, caller, job, facts.last)
        summary = replace(summary, reason="; ".join(filter(None, (job.reason, queued.reason))))
        return Why(summary, is_mine, queued), waiting.search(session, job, facts.last, facts.settings)
    has_next = job.array_size is not None and job.state in OPEN and job.id in facts.last.reasons
    return Why(
        summary,
        is_mine,
        queued=waiting.explain(session, caller, job, facts.last) if has_next else None,
        story=story.tell(session, caller, job, facts.data),
        failed=progress.list_failed(session, job.id)[:MAX_FAILED] if job.array_size is not None else [],
    ), None
