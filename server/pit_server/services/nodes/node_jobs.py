"""The jobs that have processes on nodes, as a caller may know them."""

from collections import defaultdict

from sqlalchemy import func, select
from sqlalchemy.orm import Session, aliased

from pit_protocol.answers.nodes import NodeJob
from pit_server.db.models import IS_LIVE, Job, Process, User
from pit_server.services.users.access import visible
from pit_server.services.users.tokens import Caller

MAX_JOBS = 100  # of one node


def list_all(session: Session, caller: Caller) -> dict[int, list[NodeJob]]:
    """Live jobs by node; of jobs that the caller may not see only their users, whose names are public."""
    owner = aliased(Job)
    rows = session.execute(
        select(Process.node_id, Job.id, Job.title, User.name, visible(caller).label("is_visible"))
        .join(owner, owner.id == Process.job_id)
        .join(Job, Job.id == func.coalesce(owner.array_job, owner.id))
        .join(User, User.id == Job.user_id)
        .where(IS_LIVE)
        .order_by(Process.node_id, Job.id)
        .distinct()
    )
    found: dict[int, list[NodeJob]] = defaultdict(list)
    for row in rows:
        if len(found[row.node_id]) < MAX_JOBS:
            number, title = (row.id, row.title) if row.is_visible else (None, None)
            found[row.node_id].append(NodeJob(number, row.name, title))
    return found
