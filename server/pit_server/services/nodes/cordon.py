"""Cordoned nodes: one on which jobs of different users fail in a row is drained, because it may be ill.

What counts is the last jobs that ended there. A job that succeeds shows that the node is well, and one that a
person, a limit or the failure of another process ended says nothing about it.
"""

import logging
from collections.abc import Iterable, Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.messages.beat import Report
from pit_protocol.states import KilledBy, NodeState, ProcessState
from pit_server.db.database import AnyRow, Database, notify_after_commit
from pit_server.db.models import Job, Node
from pit_server.services import audit
from pit_server.services.jobs.lifecycle import HEAD
from pit_server.settings import Settings
from pit_server.wakeups import SCHEDULER, STATUS

log = logging.getLogger(__name__)
BY_NODE = (None, KilledBy.WORKER, KilledBy.RUNTIME)  # who ended a process that tells something about its node


def note(
    database: Database,
    node_id: int,
    reports: Iterable[Report],
    processes: Mapping[int, AnyRow],
    settings: Settings,
    *,
    is_clean: bool,
    now: float,
) -> None:
    """Count the jobs that failed on a node, and drain it if they are too many; `is_clean`: none did yet."""
    ended = [
        report for report in reports if report.state is ProcessState.ENDED and report.killed_by in BY_NODE
    ]
    if not settings.cordon_failures or (is_clean and all(map(_is_success, ended))):
        return
    with database.write() as session:
        node = session.execute(select(Node).where(Node.id == node_id).with_for_update()).scalar_one()
        if node.service == NodeState.ONLINE:
            _count(session, node, ended, processes, settings.cordon_failures)
            if _is_ill(node, settings):
                _drain(session, node, now=now)


def list_notices(session: Session) -> list[str]:
    """What admins should know: the nodes that were drained."""
    query = select(Node).where(Node.service == NodeState.DRAINING, Node.removed_at.is_(None))
    return [
        f"node {node.name} is drained, because {node.service_reason}; "
        f"`pit set node:{node.name} state=online` puts it back in service"
        for node in session.execute(query.order_by(Node.name)).scalars()
        if node.failures
    ]


def _count(
    session: Session, node: Node, ended: Iterable[Report], processes: Mapping[int, AnyRow], most: int
) -> None:
    failures = dict(node.failures)  # the user of each job, the latest last
    for report in ended:
        if _is_success(report):
            failures = {}
            continue
        number = processes[report.process].job_id
        failures.pop(str(number), None)
        failures[str(number)] = session.execute(select(Job.user_id).where(Job.id == number)).scalar_one()
    node.failures = dict(list(failures.items())[-most:])


def _is_success(report: Report) -> bool:
    return report.exit_code == 0 and report.killed_by is None


def _is_ill(node: Node, settings: Settings) -> bool:
    users = set(node.failures.values())
    return len(node.failures) >= settings.cordon_failures and len(users) >= settings.cordon_users


def _drain(session: Session, node: Node, *, now: float) -> None:
    count, users = len(node.failures), len(set(node.failures.values()))
    node.service, node.since = NodeState.DRAINING, now
    node.service_reason = f"the last {count} jobs that ended there failed, and they were of {users} users"
    jobs = ", ".join(sorted(node.failures, key=int))
    audit.note(session, HEAD, "drained", f"node:{node.name}", now=now, detail=f"jobs {jobs} failed there")
    log.warning("node %s is drained: jobs %s failed there in a row", node.name, jobs)
    notify_after_commit(session, SCHEDULER, STATUS)
