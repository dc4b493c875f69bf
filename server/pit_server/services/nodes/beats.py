"""Processing a worker's beat: log chunks first, then reports, so that no end precedes its output."""

import errno
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from pit_protocol.arrays.numbers import array_of
from pit_protocol.messages.beat import Beat, ChunkHead, Report
from pit_protocol.problem import Problem
from pit_protocol.states import PROCESS_MOVES, KilledBy, NodeState, ProcessEvent, ProcessState
from pit_server.db.database import AnyRow, Database
from pit_server.db.models import IS_LIVE, Attempt, Node, Process
from pit_server.services import audit
from pit_server.services.jobs import results, stall
from pit_server.services.jobs.processes import lost_processes, report_batch, reports
from pit_server.services.jobs.processes.report_facts import event_of
from pit_server.services.jobs.records import usage
from pit_server.services.logs.output_limit import share_of_process
from pit_server.services.nodes import cordon, nodes, worker_session
from pit_server.services.nodes.properties import MAX_NAME
from pit_server.services.users import tokens
from pit_server.services.users.tokens import Caller
from pit_server.services.validation import storable
from pit_server.settings import Settings
from pit_server.store.data_root import DataRoot
from pit_server.store.log_stream import process_log
from pit_server.wakeups import job_topic


def receive(
    database: Database,
    data: DataRoot,
    caller: Caller,
    beat: Beat,
    chunks: Sequence[bytes],
    *,
    settings: Settings,
    now: float,
) -> bool:
    """Store a beat's logs and reports; a beat of an older epoch of the node is refused.

    False if the disk is too full for the logs. The worker sends them again, and no end is stored before them.
    """
    assert caller.node_id is not None  # noqa: S101 - the route admits workers only
    ids = {report.process for report in beat.reports} | {chunk.process for chunk in beat.chunks}
    with database.read() as session:
        node = session.execute(
            select(Node.epoch, Node.revision, Node.state, Node.trouble, Node.removed_at, Node.failures).where(
                Node.id == caller.node_id
            )
        ).one()
        over = lost_processes.list_gone(session, caller.node_id, _list_running(beat)) if beat.is_whole else []
        known = worker_session.list_troubles(session, caller.node_id) if beat.troubles is not None else {}
        mine = _find(session, ids)
        sizes = _count_processes(
            session, {mine[c.process].attempt_id for c in beat.chunks if c.process in mine}
        )
    worker_session.check(node, caller.name, beat.epoch, beat.seen)
    _refuse_foreign(database, caller, mine, now=now)
    shares = {attempt: share_of_process(settings.max_output_mib, count) for attempt, count in sizes.items()}
    topics, has_space = _store_all(data, _known(beat.chunks, chunks, mine), mine, shares)
    news = [
        report
        for report in beat.reports
        if report.process in mine and _is_news(data, mine[report.process], report)
    ]
    _note_troubles(database, caller.node_id, beat, known, node.trouble)
    _note_reasons(database, beat, mine)
    measured = [report for report in beat.reports if report.usage and report.process in mine]
    if measured:
        with database.write() as session:
            usage.note(session, measured, settings.samples_per_job, now=now)
            stall.note(session, measured, now=now)
    if news or node.state != NodeState.ONLINE:
        over_now = [mine[report.process] for report in news if report.state is ProcessState.ENDED]
        results.store(database, results.read_all(data, over_now, settings), now=now)
        numbers = {mine[report.process].job_id for report in news}
        _store_reports(database, caller, node.state, news, numbers, now)
        is_clean = not node.failures
        cordon.note(database, caller.node_id, news, mine, settings, is_clean=is_clean, now=now)
    if over or (node.removed_at and beat.is_whole and not beat.reports):
        _clear_up(database, caller, over, is_removed=bool(node.removed_at and not beat.reports), now=now)
    # After the reports, so that a follower of the log sees a start before its output.
    database.wakeups.notify(topics)
    return has_space


def _find(session: Session, ids: Collection[int]) -> dict[int, AnyRow]:
    if not ids:
        return {}  # a quiet beat, as most are
    columns = (
        Process.id,
        Process.job_id,
        Process.node_id,
        Process.state,
        Process.reason,
        Process.killed_by,
        Process.group_index,
        Process.process_index,
        Process.attempt_id,
        Attempt.number.label("attempt"),
    )
    query = select(*columns).join(Attempt, Attempt.id == Process.attempt_id).where(Process.id.in_(ids))
    return {row.id: row for row in session.execute(query)}


def _count_processes(session: Session, attempts: Collection[int]) -> dict[int, int]:
    """How many processes share the limit of an attempt's output."""
    if not attempts:
        return {}
    query = select(Process.attempt_id, func.count()).where(Process.attempt_id.in_(attempts))
    return dict(session.execute(query.group_by(Process.attempt_id)).all())


def _list_running(beat: Beat) -> set[int]:
    return {report.process for report in beat.reports if report.state is not ProcessState.ENDED}


def _clear_up(
    database: Database, caller: Caller, over: Sequence[int], *, is_removed: bool, now: float
) -> None:
    """Release what lost processes held that no longer run; revoke the tokens of a removed node."""
    with database.write() as session:
        report_batch.release(session, over, now=now)
        if is_removed:
            tokens.revoke_all(session, node_id=caller.node_id)
            audit.note(session, caller.actor, "left", caller.actor, now=now)


def _note_troubles(
    database: Database, node_id: int, beat: Beat, known: Mapping[str, str], trouble_before: str
) -> None:
    """Store the troubles of the node and its resources, if they have changed."""
    reported = {trouble.unit: trouble.reason for trouble in beat.troubles or ()}
    if beat.troubles is not None and reported != known:
        with database.write() as session:
            worker_session.note_troubles(session, node_id, beat.troubles)
    trouble = None if beat.trouble is None else storable(beat.trouble)[:MAX_NAME]
    if trouble is not None and trouble != trouble_before:
        with database.write() as session:
            worker_session.note_trouble(session, node_id, trouble)


def _note_reasons(database: Database, beat: Beat, mine: Mapping[int, AnyRow]) -> None:
    """Store why processes cannot start or end, if that has changed."""
    reported = {
        report.process: storable(report.reason)
        for report in beat.reports
        if report.state is not ProcessState.ENDED and report.process in mine
    }
    news = {
        number: reason
        for number, reason in reported.items()
        if mine[number].state != ProcessState.ENDED and mine[number].reason != reason
    }
    if news:
        with database.write() as session:
            for number, reason in sorted(news.items()):
                session.execute(update(Process).where(Process.id == number, IS_LIVE).values(reason=reason))


def _refuse_foreign(database: Database, caller: Caller, known: Mapping[int, AnyRow], *, now: float) -> None:
    """Refuse a beat that reports processes of other nodes."""
    foreign = sorted(process for process, row in known.items() if row.node_id != caller.node_id)
    if not foreign:
        return
    with database.write() as session:
        audit.note(session, caller.actor, "reported another node's process", f"process:{foreign[0]}", now=now)
    raise Problem("not_yours", f"process {foreign[0]} does not run on node {caller.name}", status=403)


def _store_reports(
    database: Database, caller: Caller, state: str, news: Sequence[Report], numbers: set[int], now: float
) -> None:
    assert caller.node_id is not None  # noqa: S101
    if state != NodeState.ONLINE:
        # In a transaction of its own: one that locks jobs and nodes must lock the jobs first.
        with database.write() as session:
            nodes.set_state(session, caller.node_id, NodeState.ONLINE, now=now)
    if not news:
        return
    with database.write() as session:
        reports.apply_all(session, news, numbers, node=caller.name, now=now)


def _known(
    heads: Sequence[ChunkHead], chunks: Sequence[bytes], mine: dict[int, AnyRow]
) -> list[tuple[ChunkHead, bytes]]:
    return [
        (head, chunk)
        for head, chunk in zip(heads, chunks, strict=True)
        if head.process in mine and mine[head.process].attempt == head.attempt
    ]


def _store_all(
    data: DataRoot,
    chunks: Sequence[tuple[ChunkHead, bytes]],
    mine: Mapping[int, AnyRow],
    shares: Mapping[int, int],
) -> tuple[set[str], bool]:
    """Append chunks while there is space; returns the topics to notify, and whether all were stored."""
    topics: set[str] = set()
    for head, chunk in chunks:
        try:
            row = mine[head.process]
            if _store(data, row, head, chunk, shares[row.attempt_id]):
                topics |= {job_topic(row.job_id), job_topic(array_of(row.job_id))}
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            return topics, False
    return topics, True


def _store(data: DataRoot, row: AnyRow, head: ChunkHead, chunk: bytes, keep: int) -> bool:
    """Append a chunk to its log; False if bytes before it are missing."""
    # Output of a lost process is still stored.
    if row.state == ProcessState.ENDED and row.killed_by != KilledBy.NODE:
        return False
    stream = process_log(data, row.job_id, row.attempt, row.group_index, row.process_index)
    return stream.append(chunk, head.at, head.offset, gap=head.gap, keep=keep)


def _is_news(data: DataRoot, row: AnyRow, report: Report) -> bool:
    event = event_of(report)
    if event is None or row.attempt != report.attempt:
        return False
    if (ProcessState(row.state), event) not in PROCESS_MOVES:
        return False
    if event is not ProcessEvent.ENDED:
        return True
    stream = process_log(data, row.job_id, row.attempt, row.group_index, row.process_index)
    if stream.size() < report.log_size:
        return False  # its last output is still missing; the order says where to resume
    if report.log_size:
        stream.sync()
    return True
