"""Who may see which jobs, and who may use which nodes and resources; always as it is now."""

from collections import defaultdict
from collections.abc import Set

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import Session

from pit_protocol.beat import Runtime
from pit_server.db.models import Job, JobGroup, Membership, Node, NodeGroup, Resource, ResourceGroup
from pit_server.scheduler.capacity import EVERYTHING, Access
from pit_server.services import groups, rights
from pit_server.services.rights import Act, Tie
from pit_server.services.tokens import Caller


def visible(caller: Caller) -> ColumnElement[bool]:
    """The jobs that the caller may see, as a condition."""
    there = Job.removed_at.is_(None)
    if rights.allows(Act.SEE_JOB, caller.ties):
        return there
    shared = select(JobGroup.job_id).where(JobGroup.group_id.in_(groups.of_user(caller.user_id)))
    return there & or_(Job.user_id == caller.user_id, Job.id.in_(shared))


def ties_to_job(session: Session, caller: Caller, job: Job) -> set[Tie]:
    """What the caller is to the job."""
    ties = caller.ties | ({Tie.OWNER} if job.user_id == caller.user_id else set())
    shared = select(JobGroup.group_id).where(
        JobGroup.job_id == job.id, JobGroup.group_id.in_(groups.of_user(caller.user_id))
    )
    return ties | ({Tie.MEMBER} if session.execute(shared.limit(1)).first() else set())


class Keeping:
    """Which nodes and resources are kept for which groups, at one moment."""

    def __init__(self, session: Session) -> None:
        self._session = session
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
        self._memberships: dict[int, set[int]] | None = None
        self._known: dict[tuple[frozenset[int], bool], Access] = {}
        runtimes = session.execute(select(Node.id, Node.runtime).where(Node.removed_at.is_(None))).all()
        self._bare = frozenset(row.id for row in runtimes if row.runtime != Runtime.DOCKER)
        self.has_containers = len(self._bare) < len(runtimes)

    def access_of(self, user_id: int, *, needs_container: bool = False) -> Access:
        """What the user's job cannot use; equal for jobs of which the same is true."""
        if not self._nodes and not self._units and not (needs_container and self._bare):
            return EVERYTHING
        mine = frozenset(self._groups_of(user_id))
        if (mine, needs_container) not in self._known:
            closed = frozenset(node for node, kept in self._nodes.items() if not kept & mine)
            self._known[mine, needs_container] = Access(
                closed | (self._bare if needs_container else frozenset()),
                frozenset(unit for unit, kept in self._units.items() if not kept & mine),
            )
        return self._known[mine, needs_container]

    def _groups_of(self, user_id: int) -> Set[int]:
        if self._memberships is None:
            self._memberships = defaultdict(set)
            for member, group_id in self._session.execute(select(Membership.user_id, Membership.group_id)):
                self._memberships[member].add(group_id)
        return self._memberships.get(user_id, set())
