"""What a list of jobs shows beyond their summaries, for those who ask: run time, result, variables."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import asdict
from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from pit_protocol.answers.jobs import JobRow, JobSummary
from pit_protocol.problem import Problem
from pit_protocol.variables import NAME
from pit_server.db.database import AnyRow
from pit_server.db.models import Job, Process
from pit_server.services.jobs.jobs import result_text
from pit_server.store.data_root import DataRoot

RESULT = "result"
VARIABLE = "env."
MAX_VARIABLES = 20
MAX_TEXT = 200  # characters of a result or a value


@dataclass(frozen=True)
class ListingColumns:
    """The columns that a caller asked for."""

    has_result: bool = False
    names: tuple[str, ...] = ()  # of variables

    def selected(self) -> list[ColumnElement[Any]]:
        """The values, cut by the database, and for secrets whether there is one."""
        if not self.names:
            return []
        values = [func.substr(Job.options[("env", name)].as_string(), 1, MAX_TEXT) for name in self.names]
        return values + [Job.variables[name].as_string().is_not(None) for name in self.names]

    def row(self, summary: JobSummary, found: AnyRow, run_s: float | None, data: DataRoot) -> JobRow:
        count = len(self.names)
        values, sealed = (found[-2 * count : -count], found[-count:]) if count else ((), ())
        result = result_text(data, found.id, found.attempt, MAX_TEXT) if self.has_result else None
        return JobRow(
            **asdict(summary),
            run_s=run_s,
            result=result.splitlines()[0] if result else None,
            env={name: value for name, value in zip(self.names, values, strict=True) if value is not None},
            secrets=[name for name, is_sealed in zip(self.names, sealed, strict=True) if is_sealed],
        )


def parse(text: str) -> ListingColumns:
    """Parse `result,env.LR`."""
    asked = [name for name in text.split(",") if name]
    names = [name.removeprefix(VARIABLE) for name in asked if name.startswith(VARIABLE)]
    for name in asked:
        if name != RESULT and not (name.startswith(VARIABLE) and NAME.fullmatch(name.removeprefix(VARIABLE))):
            raise Problem(
                "unknown_column",
                f"there is no column {name[:80]!r} to add",
                f"known are: {RESULT}, {VARIABLE}NAME",
                status=422,
            )
    if len(names) > MAX_VARIABLES:
        raise Problem(
            "too_many_columns", f"at most {MAX_VARIABLES} variables fit, not {len(names)}", status=422
        )
    return ListingColumns(RESULT in asked, tuple(dict.fromkeys(names)))


def run_times(session: Session, numbers: Collection[int], *, now: float) -> Mapping[int, float]:
    """For how many seconds each job has run, from its first process to its last; only those that started."""
    rows = session.execute(
        select(
            Process.job_id,
            func.min(Process.started_at),
            func.max(Process.ended_at),
            func.count() - func.count(Process.ended_at),
        )
        .where(Process.job_id.in_(numbers), Process.started_at.is_not(None))
        .group_by(Process.job_id)
    )
    return {
        number: max(0.0, (now if live or ended is None else ended) - (started or now))
        for number, started, ended, live in rows
    }
