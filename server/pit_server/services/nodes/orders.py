"""The orders of a node: all that should run there, and which of its reports are settled."""

from collections.abc import Iterable, Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session, aliased

from pit_protocol.messages.beat import Order, OrderAction, Orders, Report
from pit_protocol.states import KilledBy, ProcessState
from pit_server.db.database import AnyRow
from pit_server.db.models import IS_LIVE, Attempt, Job, Node, Process, User
from pit_server.services.jobs import time_limits
from pit_server.services.nodes.order_specs import OrderSpecs
from pit_server.store.data_root import DataRoot
from pit_server.store.log_stream import LogStream, process_log

_NODE = select(Node.id, Node.revision, Node.runtime, Node.separates_users)
_ARRAY = aliased(Job)  # of an element; secrets are sealed with its key
_ROWS = (
    select(
        Process.id,
        Process.job_id,
        Process.attempt_id,
        Process.group_index,
        Process.process_index,
        Process.rank,
        Process.state,
        Process.stop_by,
        Attempt.number.label("attempt"),
        Attempt.master_port,
        Attempt.network,
        Attempt.lost_after_s,
        Attempt.grace_s,
        Process.host,
        Job.options,
        Job.state.label("job_state"),
        Job.since,
        Job.user_id,
        Job.variables,
        Job.array_index,
        func.coalesce(_ARRAY.submission_key, Job.submission_key).label("submission_key"),
        User.name.label("user"),
    )
    .join(Attempt, Attempt.id == Process.attempt_id)
    .join(Job, Job.id == Process.job_id)
    .outerjoin(_ARRAY, _ARRAY.id == Job.array_job)
    .join(User, User.id == Job.user_id)
)


def for_node(
    session: Session,
    node_id: int,
    reports: Iterable[Report],
    data: DataRoot,
    specs: OrderSpecs,
    *,
    now: float,
) -> Orders:
    """Build the node's orders at this moment."""
    node = session.execute(_NODE.where(Node.id == node_id)).one()
    live = _live(session, node_id)
    built = specs.find_all(session, node, [row for row in live if row.state == ProcessState.ASSIGNED])
    orders = []
    for row in live:
        stopping = row.state == ProcessState.STOPPING
        limit, ran_s = time_limits.in_order(row, now=now)
        orders.append(
            Order(
                process=row.id,
                attempt=row.attempt,
                action=OrderAction.STOP if stopping else OrderAction.RUN,
                log_size=_log_size(data, row),
                killed_by=KilledBy(row.stop_by) if stopping and row.stop_by else None,
                spec=built.get(row.id),
                time=limit,
                ran_s=ran_s,
            )
        )
    known = {row.id for row in live}
    unknown = [report for report in reports if report.process not in known]
    lost = _lost(session, [report.process for report in unknown])
    orders += [_dismissal(report, lost.get(report.process), data) for report in unknown]
    return Orders(node.revision, tuple(orders))


def _dismissal(report: Report, lost: AnyRow | None, data: DataRoot) -> Order:
    """The order for a process that should not run there; the log of a lost one is still fetched."""
    size = _log_size(data, lost) if lost and lost.attempt == report.attempt else report.log_size
    settled = report.state is ProcessState.ENDED and size >= report.log_size
    return Order(report.process, report.attempt, OrderAction.FORGET if settled else OrderAction.STOP, size)


def _log(data: DataRoot, row: AnyRow) -> LogStream:
    return process_log(data, row.job_id, row.attempt, row.group_index, row.process_index)


def _log_size(data: DataRoot, row: AnyRow) -> int:
    return _log(data, row).size()


def _live(session: Session, node_id: int) -> list[AnyRow]:
    query = _ROWS.where(Process.node_id == node_id, IS_LIVE).order_by(Process.attempt_id, Process.rank)
    return list(session.execute(query))


def _lost(session: Session, processes: Sequence[int]) -> dict[int, AnyRow]:
    if not processes:
        return {}
    query = _ROWS.where(Process.id.in_(processes), Process.killed_by == KilledBy.NODE)
    return {row.id: row for row in session.execute(query)}
