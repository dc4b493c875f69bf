"""The permissions: one table of who may do what, beyond the role that a route requires."""

from collections.abc import Set
from enum import StrEnum

from pit_protocol.problem import Problem


class Relation(StrEnum):
    """How a caller is related to an object."""

    OWNER = "owner"  # it is the caller's own
    MEMBER = "member"  # of a group that the object is shared with, or of the group itself
    ADMIN = "admin"


class Action(StrEnum):
    SEE_JOB = "see a job"
    CHANGE_JOB = "change a job"
    SHARE_JOB = "share a job"
    ENTER_JOB = "enter a job's processes"
    ENTER_SHARED_JOB = "enter a job's processes after `exec=group`"
    SEE_ACCOUNT = "see an account"
    CHANGE_ACCOUNT = "change an account"
    GOVERN_ACCOUNT = "govern an account"
    LEAVE_GROUP = "leave a group"
    SEE_GROUP = "see a group"
    USE_HOME = "use a home's files"
    USE_GROUP = "use a group's files"
    REVOKE_TOKEN = "revoke a token"  # noqa: S105 - an action, no secret


PERMISSIONS: dict[Action, Set[Relation]] = {
    Action.SEE_JOB: {Relation.OWNER, Relation.MEMBER, Relation.ADMIN},
    Action.CHANGE_JOB: {Relation.OWNER, Relation.ADMIN},
    Action.SHARE_JOB: {Relation.OWNER, Relation.ADMIN},
    Action.ENTER_JOB: {Relation.OWNER, Relation.ADMIN},
    Action.ENTER_SHARED_JOB: {Relation.OWNER, Relation.MEMBER, Relation.ADMIN},
    Action.SEE_ACCOUNT: {Relation.OWNER, Relation.ADMIN},
    Action.CHANGE_ACCOUNT: {Relation.OWNER, Relation.ADMIN},
    Action.GOVERN_ACCOUNT: {Relation.ADMIN},
    Action.LEAVE_GROUP: {Relation.OWNER, Relation.ADMIN},
    Action.SEE_GROUP: {Relation.MEMBER, Relation.ADMIN},
    Action.USE_HOME: {Relation.OWNER, Relation.ADMIN},
    Action.USE_GROUP: {Relation.MEMBER, Relation.ADMIN},
    Action.REVOKE_TOKEN: {Relation.OWNER, Relation.ADMIN},
}


def allows(action: Action, relations: Set[Relation]) -> bool:
    return bool(PERMISSIONS[action] & relations)


def require(action: Action, relations: Set[Relation], what: str) -> None:
    """Raise a Problem unless these relations permit the action; `what` names the object."""
    if not allows(action, relations):
        who = " and ".join(f"{relation}s" for relation in Relation if relation in PERMISSIONS[action])
        raise Problem("not_allowed", f"{what}: only {who} may", "ask one of them", status=403)
