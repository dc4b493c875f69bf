"""The reports that come in numbers: starts, and ends after which a job has nothing else to do.

All of them are applied by a few statements. What is left, such as one of several processes that fails, needs
a decision for each (`reports.py`).
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import update
from sqlalchemy.orm import Session

from pit_protocol.job_options import FIRST
from pit_protocol.messages.beat import Report
from pit_protocol.states import JobEvent, JobState, Outcome, ProcessEvent
from pit_server.db.database import AnyRow, notify_after_commit
from pit_server.db.models import Allocation
from pit_server.services.jobs import lifecycle, requeue
from pit_server.services.jobs.lifecycle import LockedJob, ProcessMove
from pit_server.services.jobs.processes.report_facts import end_facts, event_of, how_ended, start_facts
from pit_server.services.users import tokens
from pit_server.wakeups import SCHEDULER

STARTS = (ProcessEvent.TAKEN, ProcessEvent.STARTED)


class ReportBatch:
    def __init__(
        self, reports: Sequence[Report], live: Mapping[int, AnyRow], jobs: Mapping[int, LockedJob]
    ) -> None:
        """Divide the reports; `live` are all live processes of these locked jobs."""
        self._live, self._jobs = live, jobs
        self._processes: defaultdict[int, set[int]] = defaultdict(set)  # the live ones of each job
        for row in live.values():
            self._processes[row.job_id].add(row.id)
        counts = Counter(report.process for report in reports)
        unusual = {
            live[report.process].job_id
            for report in reports
            if counts[report.process] > 1 or not self._is_usual(report)
        }
        self._usual = [report for report in reports if live[report.process].job_id not in unusual]
        self.others = [report for report in reports if live[report.process].job_id in unusual]

    def apply(self, session: Session, *, actor: str, now: float) -> None:
        """Apply the usual ones; raises StaleState."""
        moves = [self._move(report, now) for report in self._usual]
        made = lifecycle.move_processes(session, moves, now=now, actor=actor)
        started = {move.process.job_id for move in made if move.event is ProcessEvent.STARTED}
        starting = [self._jobs[number] for number in sorted(started)]
        self._advance(session, [job for job in starting if job.state is JobState.STARTING], now=now)
        ended = [move.process for move in made if move.event is ProcessEvent.ENDED]
        if ended:
            release(session, [process.id for process in ended], now=now)
            self._settle(session, ended, now=now)

    def _is_usual(self, report: Report) -> bool:
        event, process = event_of(report), self._live[report.process]
        job = self._jobs[process.job_id]
        if event in STARTS:
            return True
        if event is not ProcessEvent.ENDED or process.requeue_cause:
            return False
        if job.state is JobState.STOPPING:
            return True
        if job.state not in requeue.PLACED or report.killed_by or requeue.is_possible(report, job.options):
            return False
        is_alone = len(self._processes[job.number]) == 1
        return is_alone or (report.exit_code == 0 and job.options.get("until") != FIRST)

    def _move(self, report: Report, now: float) -> ProcessMove:
        event, process = event_of(report) or ProcessEvent.ENDED, self._live[report.process]
        if event in STARTS:
            return ProcessMove(process, event, values=start_facts(report))
        return ProcessMove(process, event, how_ended(report), end_facts(report, now=now))

    def _advance(self, session: Session, starting: Sequence[LockedJob], *, now: float) -> None:
        reasons = dict.fromkeys((job.number for job in starting), "")
        for job in lifecycle.advance_all(session, starting, JobEvent.STARTED, now=now, reasons=reasons):
            self._jobs = {**self._jobs, job.number: job}

    def _settle(self, session: Session, ended: Sequence[AnyRow], *, now: float) -> None:
        """End the jobs whose last processes have ended."""
        last: dict[int, AnyRow] = {}
        for process in ended:
            self._processes[process.job_id].discard(process.id)
            last[process.job_id] = process
        over = {number: row for number, row in last.items() if not self._processes[number]}
        tokens.revoke_of_attempts(session, [row.attempt_id for row in over.values()])
        jobs = self._fail(session, over, now=now)
        for is_known in (True, False):
            alike = [job for job in jobs if (job.outcome is not None) is is_known]
            outcome = None if is_known else Outcome.SUCCEEDED
            reasons = {job.number: job.reason for job in alike}
            lifecycle.advance_all(session, alike, JobEvent.SETTLED, now=now, reasons=reasons, outcome=outcome)

    def _fail(self, session: Session, over: Mapping[int, AnyRow], *, now: float) -> list[LockedJob]:
        """The jobs of processes that have ended; one that is not being stopped yet fails with its last."""
        how = {report.process: how_ended(report) for report in self._usual if report.exit_code != 0}
        jobs = {number: self._jobs[number] for number in over}
        reasons = {
            number: f"worker {row.rank} {how[row.id]}"
            for number, row in over.items()
            if row.id in how and jobs[number].state is not JobState.STOPPING
        }
        failed = lifecycle.advance_all(
            session,
            [jobs[number] for number in reasons],
            JobEvent.FAILED,
            now=now,
            reasons=reasons,
            outcome=Outcome.FAILED,
            process_ids={number: over[number].id for number in reasons},
        )
        return list((jobs | {job.number: job for job in failed}).values())


def release(session: Session, process_ids: Collection[int], *, now: float) -> None:
    """Release the allocations of processes."""
    session.execute(
        update(Allocation)
        .where(Allocation.process_id.in_(process_ids), Allocation.released_at.is_(None))
        .values(released_at=now)
    )
    notify_after_commit(session, SCHEDULER)
