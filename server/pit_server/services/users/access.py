"""Who may see which jobs, and who may use which nodes and resources at this moment."""

from collections import defaultdict

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import Session

from pit_protocol.job_options import ANY
from pit_server.db.memo import remembered
from pit_server.db.models import Job, JobGroup, Membership, Node, NodeGroup, Resource, ResourceGroup
from pit_server.scheduler.demand import EVERYTHING, Access
from pit_server.services.users import groups, permissions
from pit_server.services.users.permissions import Action, Relation
from pit_server.services.users.tokens import Caller


def visible(caller: Caller) -> ColumnElement[bool]:
    """A condition for the jobs that the caller may see; elements are seen through their arrays."""
    there = Job.removed_at.is_(None) & Job.array_job.is_(None)
    if permissions.allows(Action.SEE_JOB, caller.relations):
        return there
    shared = select(JobGroup.job_id).where(JobGroup.group_id.in_(groups.of_user(caller.user_id)))
    return there & or_(Job.user_id == caller.user_id, Job.id.in_(shared))


def relations_to_job(session: Session, caller: Caller, job: Job) -> set[Relation]:
    """How the caller is related to the job."""
    relations = caller.relations | ({Relation.OWNER} if job.user_id == caller.user_id else set())
    shared = select(JobGroup.group_id).where(
        JobGroup.job_id == (job.array_job or job.id), JobGroup.group_id.in_(groups.of_user(caller.user_id))
    )
    return relations | ({Relation.MEMBER} if session.execute(shared.limit(1)).first() else set())


def resource_access(session: Session) -> "ResourceAccess":
    """Who may use what at this moment."""
    tables = (Node, NodeGroup, Resource, ResourceGroup, Membership)
    return remembered(session, "resource access", tables, ResourceAccess)


class ResourceAccess:
    """Which nodes and resources are reserved for which groups, at one moment."""

    def __init__(self, session: Session) -> None:
        self._nodes: dict[int, set[int]] = defaultdict(set)
        self._units: dict[tuple[int, str], set[int]] = defaultdict(set)
        for node_id, group_id in session.execute(select(NodeGroup.node_id, NodeGroup.group_id)):
            self._nodes[node_id].add(group_id)
        for node_id, unit, group_id in session.execute(
            select(Resource.node_id, Resource.unit, ResourceGroup.group_id).join(
                Resource, Resource.id == ResourceGroup.resource_id
            )
        ):
            self._units[node_id, unit].add(group_id)
        self._memberships: dict[int, set[int]] = defaultdict(set)
        if self._nodes or self._units:
            for member, group_id in session.execute(select(Membership.user_id, Membership.group_id)):
                self._memberships[member].add(group_id)
        self._known: dict[tuple[frozenset[int], str], Access] = {}
        own = Node.site_allocation_id.is_(None)  # not a pilot
        query = select(Node.id, Node.runtime).where(Node.removed_at.is_(None), own)
        self._runtimes: dict[int, str] = {row.id: row.runtime for row in session.execute(query)}

    def has_runtime(self, runtime: str) -> bool:
        """Whether any node has it."""
        return runtime in self._runtimes.values()

    def access_of(self, user_id: int, runtime: str = ANY) -> Access:
        """What the user's job cannot use; the same object for all jobs with equal access."""
        others = (
            frozenset()
            if runtime == ANY
            else frozenset(node for node, has in self._runtimes.items() if has != runtime)
        )
        if not self._nodes and not self._units and not others:
            return EVERYTHING
        mine = frozenset(self._memberships.get(user_id, ()))
        if (mine, runtime) not in self._known:
            closed = frozenset(node for node, groups_of in self._nodes.items() if not groups_of & mine)
            self._known[mine, runtime] = Access(
                closed | others,
                frozenset(unit for unit, groups_of in self._units.items() if not groups_of & mine),
                runtime if others else "",
            )
        return self._known[mine, runtime]
