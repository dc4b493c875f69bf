"""The tables, by noun; import them from here."""

from pit_server.db.models.base import Base
from pit_server.db.models.cluster import Audit, Discard, Fact
from pit_server.db.models.jobs import (
    IS_LIVE,
    Allocation,
    Attempt,
    Dependency,
    Event,
    Job,
    JobGroup,
    Process,
    Sample,
    random_id,
)
from pit_server.db.models.nodes import Alias, Node, NodeGroup, Resource, ResourceGroup
from pit_server.db.models.sites import Site, SiteAllocation
from pit_server.db.models.users import Group, Membership, Notification, Secret, Token, User

__all__ = [
    "IS_LIVE",
    "Alias",
    "Allocation",
    "Attempt",
    "Audit",
    "Base",
    "Dependency",
    "Discard",
    "Event",
    "Fact",
    "Group",
    "Job",
    "JobGroup",
    "Membership",
    "Node",
    "NodeGroup",
    "Notification",
    "Process",
    "Resource",
    "ResourceGroup",
    "Sample",
    "Secret",
    "Site",
    "SiteAllocation",
    "Token",
    "User",
    "random_id",
]
