"""The processes of a job as a table; alike ones share a row unless each was asked for."""

from collections.abc import Sequence

from pit.ui.render import process_end
from pit.ui.sanitize import sanitize
from pit.ui.tables import Column, Section
from pit.ui.times import local_time, short_age
from pit_protocol.answers.jobs import JobProcess
from pit_protocol.states import KilledBy

TRY = Column("TRY", importance=9)  # only if there was more than one
COLUMNS = (
    Column("WORKER", importance=9),
    Column("NODE", importance=8),
    Column("STATE", importance=9),
    Column("END", importance=9),
    Column("STARTED", importance=2),
    Column("RAN", importance=3),
    Column("RESOURCES", flexible=True, importance=4),
    Column("REASON", flexible=True, importance=7),
)
MAX_ROWS = 5  # of alike processes, so that a job fits on one screen
MAX_NAMES = 3  # of nodes, or of ranges of processes


def process_columns(processes: Sequence[JobProcess]) -> tuple[Column, ...]:
    return (TRY, *COLUMNS) if _has_retries(processes) else COLUMNS


def process_section(processes: Sequence[JobProcess], now: float) -> Section:
    """A row for each process."""
    return _section([[process] for process in processes], processes, now)


def folded_section(processes: Sequence[JobProcess], now: float) -> Section:
    """A row for all processes that are alike; one that failed comes before those stopped because of it."""
    alike: dict[tuple[str, ...], list[JobProcess]] = {}
    for process in processes:
        alike.setdefault(
            (str(process.attempt), process.state, process_end(process), process.reason), []
        ).append(process)
    found = sorted(
        alike.values(),
        key=lambda some: (-some[0].attempt, some[0].exit_code == 0, some[0].killed_by == KilledBy.JOB),
    )
    hidden = sum(len(some) for some in found[MAX_ROWS:])
    return _section(found[:MAX_ROWS], processes, now, hidden)


def _section(
    rows: Sequence[Sequence[JobProcess]], processes: Sequence[JobProcess], now: float, hidden: int = 0
) -> Section:
    if not _has_retries(processes):
        return Section("", [_row(some, now) for some in rows], hidden)
    in_order = sorted(rows, key=lambda some: some[0].attempt)
    return Section("", [(str(some[0].attempt), *_row(some, now)) for some in in_order], hidden)


def _has_retries(processes: Sequence[JobProcess]) -> bool:
    return any(process.attempt > 1 for process in processes)


def _row(some: Sequence[JobProcess], now: float) -> tuple[str, ...]:
    first, end = some[0], process_end(some[0])
    started = [process.started_at for process in some if process.started_at]
    return (
        _ranges(some),
        _nodes(some),
        sanitize(first.state),
        end,
        local_time(min(started)) if started else "-",
        _ran(some, now),
        _resources(some),
        "-" if first.reason in ("", f"ended with {end}") else sanitize(first.reason),
    )


def _ranges(some: Sequence[JobProcess]) -> str:
    """`0–7`, or `0, 2–7` if one is missing in between."""
    runs: list[list[JobProcess]] = []
    for process in some:
        if runs and runs[-1][-1].rank + 1 == process.rank:
            runs[-1].append(process)
        else:
            runs.append([process])
    names = [_name(run[0]) if len(run) == 1 else f"{_name(run[0])}–{_name(run[-1])}" for run in runs]
    if len(names) > MAX_NAMES:
        return f"{names[0]}, … ({len(some)} processes)"
    return ", ".join(names)


def _nodes(some: Sequence[JobProcess]) -> str:
    names = list(dict.fromkeys(sanitize(process.node or "-") for process in some))
    return ", ".join(names) if len(names) <= MAX_NAMES else f"{names[0]}..{names[-1]} ({len(names)})"


def _ran(some: Sequence[JobProcess], now: float) -> str:
    times = sorted((process.ended_at or now) - process.started_at for process in some if process.started_at)
    if not times:
        return "-"
    least, most = short_age(times[0]), short_age(times[-1])
    return least if least == most else f"{least}–{most}"


def _resources(some: Sequence[JobProcess]) -> str:
    """What each has; of units that differ, such as GPUs, only the kinds."""
    texts = {", ".join(map(sanitize, process.resources)) for process in some}
    if len(texts) == 1:
        return texts.pop() or "-"
    kinds = {", ".join(map(_kind, process.resources)) for process in some}
    return f"{sanitize(kinds.pop())} each" if len(kinds) == 1 else "differ"


def _kind(resource: str) -> str:
    """`gtx1070` of `gtx1070 GPU-1`; amounts stay as they are."""
    return resource if resource.endswith((" core", " cores", " GiB")) else resource.rpartition(" ")[0]


def _name(process: JobProcess) -> str:
    """Its rank, as in the log; in groups after the first with group and index."""
    rank = str(process.rank)
    return f"{rank} ({process.group}.{process.index})" if process.group else rank
