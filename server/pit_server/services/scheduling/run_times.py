"""How long jobs are planned to run: by their time limits, else like most earlier ones of user and title."""

from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.durations import DAY_S, HOUR_S
from pit_protocol.states import JobState, Outcome
from pit_server.db.models import Attempt, Job

MAX_JOBS = 5_000  # the newest ended jobs that are looked at
ENDING_S = 60.0  # that a job may need to end when its time is over
ENOUGH = 3  # jobs, to learn from
MOST = 0.9  # of the earlier jobs were not longer
STEPS_S = (60, 300, 900, 1800, 3600, 2 * 3600, 4 * 3600, 8 * 3600, 12 * 3600, 24 * 3600, 48 * 3600)


class RunTimes:
    """Planned run times at one moment."""

    def __init__(self, default_s: float, learned: Mapping[tuple[int, str], float] | None = None) -> None:
        self._default_s = default_s
        self._learned = learned or {}

    def planned(self, user_id: int, title: str, limit_s: float | None = None) -> float:
        if limit_s is not None:
            return _rounded(limit_s)
        return self._learned.get((user_id, title), self._default_s)

    def planned_end(
        self, user_id: int, title: str, started: float, now: float, limit_s: float | None = None
    ) -> float:
        """When a running job ends; one that runs longer than planned may take as long again."""
        if limit_s is not None:
            return max(started + limit_s, now + ENDING_S)
        planned = self.planned(user_id, title)
        while started + planned <= now:
            planned *= 2
        return started + planned


def learn(session: Session, default_s: float) -> RunTimes:
    """Learn from the newest jobs that ended by themselves."""
    times: defaultdict[tuple[int, str], list[float]] = defaultdict(list)
    query = (
        select(Job.user_id, Job.title, Job.since, Attempt.created_at)
        .join(Attempt, (Attempt.job_id == Job.id) & (Attempt.number == Job.attempt))
        .where(Job.state == JobState.ENDED, Job.outcome == Outcome.SUCCEEDED)
        .order_by(Job.id.desc())
        .limit(MAX_JOBS)
    )
    for row in session.execute(query):
        times[row.user_id, row.title].append(row.since - row.created_at)
    return RunTimes(default_s, {key: _usual(found) for key, found in times.items() if len(found) >= ENOUGH})


def _rounded(seconds: float) -> float:
    """A time limit, rounded up by little, so that jobs that are alike are planned once."""
    step = next((step for most, step in ((HOUR_S, 60.0), (DAY_S, 600.0)) if seconds <= most), HOUR_S)
    return -(-seconds // step) * step


def _usual(found: list[float]) -> float:
    """Rounded up, so that few lengths differ: jobs that are alike are planned once."""
    longest = sorted(found)[int(MOST * (len(found) - 1))]
    return float(
        next((step for step in STEPS_S if step >= longest), -(-longest // STEPS_S[-1]) * STEPS_S[-1])
    )
