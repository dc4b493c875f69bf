"""How long jobs are planned to run: by their time limits, else like most earlier ones of user and title."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import inf

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.durations import DAY_S, HOUR_S
from pit_protocol.states import JobState, Outcome
from pit_server.db.models import Attempt, Job

MAX_JOBS = 5_000  # the newest ended jobs that are looked at
ENDING_S = 60.0  # that a job may need to end when its time is over
ENOUGH = 3  # jobs, to learn from
MOST = 0.9  # of the earlier jobs were not longer
HALF = 0.5
SHORTEST_S = 1.0  # that a job may take of which nothing is known
STEPS_S = (60, 300, 900, 1800, 3600, 2 * 3600, 4 * 3600, 8 * 3600, 12 * 3600, 24 * 3600, 48 * 3600)


class RunTimes:
    """Planned run times at one moment."""

    def __init__(self, default_s: float, past: Mapping[tuple[int, str], list[float]] | None = None) -> None:
        known = {key: sorted(lengths) for key, lengths in (past or {}).items()}
        self._default_s = default_s
        self._learned = {key: _usual(lengths) for key, lengths in known.items() if len(lengths) >= ENOUGH}
        self._past = PastLengths(known)

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

    def likely(self, user_id: int, title: str, share: float, limit_s: float | None = None) -> float:
        """The length that this share of the jobs most like it did not exceed."""
        past = self._past.like(user_id, title)
        if not past:
            return self.planned(user_id, title, limit_s) if share >= HALF else SHORTEST_S
        return min(_quantile(past, share), inf if limit_s is None else limit_s)

    def likely_end(
        self, user_id: int, title: str, started: float, now: float, share: float, limit_s: float | None = None
    ) -> float:
        """When a running job has ended with this likelihood, by those that ran longer than it has so far."""
        past = self._past.like(user_id, title)
        longer = past[bisect_right(past, now - started) :]
        if not longer:  # it may end at any moment
            late = self.planned_end(user_id, title, started, now, limit_s)
            return late if share >= HALF else now + SHORTEST_S
        return started + min(_quantile(longer, share), inf if limit_s is None else limit_s)


class PastLengths:
    """How long ended jobs have run: of a user and title, else of the user, else of all users."""

    def __init__(self, known: Mapping[tuple[int, str], list[float]]) -> None:
        self._known = known
        users: defaultdict[int, list[float]] = defaultdict(list)
        for (user_id, _), lengths in known.items():
            users[user_id] += lengths
        self._users = {user_id: sorted(lengths) for user_id, lengths in users.items()}
        self._all = sorted(length for lengths in known.values() for length in lengths)

    def like(self, user_id: int, title: str) -> Sequence[float]:
        """The lengths of the jobs that are most alike, sorted; empty if there are too few."""
        some = (self._known.get((user_id, title), ()), self._users.get(user_id, ()), self._all)
        return next((lengths for lengths in some if len(lengths) >= ENOUGH), ())


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
    return RunTimes(default_s, times)


def _rounded(seconds: float) -> float:
    """A time limit, rounded up by little, so that jobs that are alike are planned once."""
    step = next((step for most, step in ((HOUR_S, 60.0), (DAY_S, 600.0)) if seconds <= most), HOUR_S)
    return -(-seconds // step) * step


def _quantile(lengths: Sequence[float], share: float) -> float:
    """Of sorted lengths."""
    return lengths[round(share * (len(lengths) - 1))]


def _usual(found: Sequence[float]) -> float:
    return round_up(_quantile(found, MOST))


def round_up(seconds: float) -> float:
    """So that few lengths differ: jobs that are alike are planned once."""
    step = next((step for step in STEPS_S if step >= seconds), None)
    return float(step or -(-seconds // STEPS_S[-1]) * STEPS_S[-1])
