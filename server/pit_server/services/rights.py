"""Who may do what to a thing, beyond what a route says of its callers: all of it in one table."""

from collections.abc import Set
from enum import StrEnum

from pit_protocol.problem import Problem


class Tie(StrEnum):
    """What a caller is to the thing."""

    OWNER = "owner"  # it is his own
    MEMBER = "member"  # of a group that it is shared with, or of the group itself
    ADMIN = "admin"


class Act(StrEnum):
    SEE_JOB = "see a job"
    CHANGE_JOB = "change a job"
    SHARE_JOB = "share a job"
    SEE_ACCOUNT = "see an account"
    CHANGE_ACCOUNT = "change an account"
    GOVERN_ACCOUNT = "govern an account"
    LEAVE_GROUP = "leave a group"
    SEE_GROUP = "see a group"
    USE_HOME = "use a home's files"
    USE_GROUP = "use a group's files"
    REVOKE_TOKEN = "revoke a token"  # noqa: S105 - an act, no secret


RIGHTS: dict[Act, Set[Tie]] = {
    Act.SEE_JOB: {Tie.OWNER, Tie.MEMBER, Tie.ADMIN},
    Act.CHANGE_JOB: {Tie.OWNER, Tie.ADMIN},
    Act.SHARE_JOB: {Tie.OWNER, Tie.ADMIN},
    Act.SEE_ACCOUNT: {Tie.OWNER, Tie.ADMIN},
    Act.CHANGE_ACCOUNT: {Tie.OWNER, Tie.ADMIN},
    Act.GOVERN_ACCOUNT: {Tie.ADMIN},
    Act.LEAVE_GROUP: {Tie.OWNER, Tie.ADMIN},
    Act.SEE_GROUP: {Tie.MEMBER, Tie.ADMIN},
    Act.USE_HOME: {Tie.OWNER, Tie.ADMIN},
    Act.USE_GROUP: {Tie.MEMBER, Tie.ADMIN},
    Act.REVOKE_TOKEN: {Tie.OWNER, Tie.ADMIN},
}


def allows(act: Act, ties: Set[Tie]) -> bool:
    return bool(RIGHTS[act] & ties)


def demand(act: Act, ties: Set[Tie], what: str) -> None:
    """Raise a Problem unless someone with these ties may; `what` is what he wanted to touch."""
    if not allows(act, ties):
        who = " and ".join(f"{tie}s" for tie in Tie if tie in RIGHTS[act])
        raise Problem("not_allowed", f"{what}: only {who} may", "ask one of them", status=403)
